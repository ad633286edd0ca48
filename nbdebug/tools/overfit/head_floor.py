"""Two floors of a loss on one batch: that of any output, and that of outputs which the last activation can give."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import tensors
from nbdebug.tools.overfit.domain import UNIT, Domain, intended, log_simplex, simplex, summing_axis
from nbdebug.tools.overfit.examples import look
from nbdebug.tools.overfit.floor import MOST_NUMBERS, Free, lowest, read_by

SHAPED = re.compile(r"(Unsafe)?(View|Squeeze|Unsqueeze|Reshape|Alias|Transpose|T|Permute|Clone|ToCopy)$")
LARGEST = 1 - 1e-4
TANH = Domain("numbers from -1 to 1", torch.tanh, lambda y: y.clamp(-LARGEST, LARGEST).atanh())
POSITIVE = Domain("numbers from 0 up", torch.square, lambda y: y.clamp_min(1e-4).sqrt())
PLAIN = {"Sigmoid": UNIT, "Hardsigmoid": UNIT, "Tanh": TANH, "Relu": POSITIVE, "Softplus": POSITIVE, "Exp": POSITIVE}
ALONG: dict[str, Callable[[int], Domain]] = {"Softmax": simplex, "LogSoftmax": log_simplex}


@dataclass(frozen=True)
class HeadFloor:
    """The smallest loss of any output and of those in reach of the head, and the activation that ends it."""

    free: float
    reached: float
    call: str
    reach: str


def head_floor(setup: Setup, output: object, batch: Batch) -> HeadFloor:
    """The two floors, by search; raises NotChecked where the head is free or nothing can be searched."""
    call = last_activation(output)
    if call is None:
        raise NotChecked("no activation of a known range ends the output")
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("the loss is computed where its output cannot be seen")
    seen = look(setup, batch)
    found = tensors(seen.output)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        used, operations = read_by(setup, seen)
        if len(used) != 1 or found[used[0]].numel() > MOST_NUMBERS:
            raise NotChecked("the loss reads several outputs, or more than can be searched")
        tensor = found[used[0]]
        reach = domain(call, tensor)
        still = frozen(setup)
        floors = [
            lowest(still, seen, Free(seen.output, seen.size, range(seen.size), {used[0]: one}))[0]
            for one in (intended(tensor, operations), reach)
        ]
    if floors[0] is None or floors[1] is None:
        raise NotChecked("the loss falls without end where outputs are free")
    return HeadFloor(floors[0], floors[1], call, reach.name)


def frozen(setup: Setup) -> Setup:
    """The same set-up with a copy of a loss that could learn."""
    return replace(setup, loss_fn=deepcopy(setup.loss_fn)) if isinstance(setup.loss_fn, nn.Module) else setup


def domain(call: str, tensor: Tensor) -> Domain:
    """The outputs that an activation can give."""
    if call in PLAIN:
        return PLAIN[call]
    values = tensor.exp() if call == "LogSoftmax" else tensor
    axis = summing_axis(values, 1.0, squared=False)
    if axis is None:
        raise NotChecked("the axis of the last softmax is not known")
    return ALONG[call](axis)


def last_activation(output: object) -> str | None:
    """The operation that ends the one output, views apart, where it is of a known range."""
    node = output.grad_fn if isinstance(output, Tensor) else None
    while node is not None:
        name = re.sub(r"Backward\d*$", "", type(node).__name__)
        if name in PLAIN or name in ALONG:
            return name
        if not SHAPED.match(name):
            return None
        node = node.next_functions[0][0] if node.next_functions else None
    return None
