"""Targets that are copies of the input except where a mask hides it, and whether the loss uses that mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.known_positions import changes_loss, expand_mask, find_masks, name_target
from nbdebug.measurements.loss_gradient import LossCall, compute_output_gradients
from nbdebug.measurements.registry import measurement
from nbdebug.setup.batch import is_mask
from nbdebug.tensors.pytree import tree_leaves, tree_tensors

_MIN_HIDDEN, _MIN_DISTINCT = 8, 3


@dataclass(frozen=True)
class CopiedTargets:
    """Values of a target that equal the input wherever a mask does not hide it, with both by name.

    ``hidden_value`` is the value of the mask where the input is hidden, and ``copied_share`` that of the other values.
    ``learned_share`` is the share of the copies at which the output has a gradient.
    """

    values: str
    mask: str
    hidden_value: int
    copied_share: float
    learned_share: float


@measurement
def copied_targets(first_pass: ForwardPass, output: Any, loss: Tensor, loss_call: LossCall) -> CopiedTargets | None:
    """Targets of the first batch that the loss learns although they are copies of the input; it ignores a mask of them.

    The loss receives that mask, as a part of the output or as a target.
    """
    inputs = [t for t in tree_tensors(first_pass.batch.inputs) if t.is_floating_point() and not is_mask(t)]
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point() and tensor.requires_grad]
    for path, values in tree_leaves(loss_call.targets):
        if not isinstance(values, Tensor) or not values.is_floating_point():
            continue
        own_inputs = [t for t in inputs if t.shape == values.shape]
        own_outputs = [t for t in outputs if t.shape == values.shape]
        is_clear = len(own_inputs) == len(own_outputs) == 1
        for name, mask in _masks_of_loss(loss_call) if is_clear else ():
            marked = expand_mask(mask, values)
            hidden_value = _find_hidden_value(own_inputs[0], values, marked) if marked is not None else None
            if marked is None or hidden_value is None or changes_loss(loss_call, mask):
                continue
            (gradient,) = compute_output_gradients(loss, own_outputs)
            if gradient is not None:
                is_copy = marked != bool(hidden_value)
                learned = (gradient.to(is_copy.device)[is_copy] != 0).float().mean()
                share = float(is_copy.float().mean())
                return CopiedTargets(name_target(path), name, hidden_value, share, float(learned))
    return None


def _masks_of_loss(call: LossCall) -> Iterator[tuple[str, Tensor]]:
    """Yield the masks that a loss receives, by name."""
    for path, mask in find_masks(call.output):
        yield f"output{''.join(f'[{key!r}]' for key in path)}", mask
    for path, mask in find_masks(call.targets):
        yield name_target(path), mask


def _find_hidden_value(inputs: Tensor, values: Tensor, marked: Tensor) -> int | None:
    """Return the value of a mask where the input holds one number in place of varied targets; None if it does not.

    Everywhere else the target must equal the input.
    """
    inputs = inputs.to(values.device)
    for hidden_value, hidden in ((1, marked), (0, ~marked)):
        fillers = inputs[hidden]
        if int(hidden.sum()) < _MIN_HIDDEN or bool((fillers != fillers[0]).any()):
            continue
        is_varied = len(torch.unique(values[hidden])) >= _MIN_DISTINCT
        if is_varied and torch.equal(inputs[~hidden], values[~hidden]):
            return hidden_value
    return None
