"""The ways in which a pass of the loop can be run again, the truest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.replay.passes import Drawn, Forward, Pass
from nbdebug.setup import Batch, Setup, losses
from nbdebug.setup.trees import tensors

MOST_BATCHES = 512  # of a list, among which the one of a pass is looked for


@dataclass(frozen=True)
class Way:
    """A set-up and a batch that run a pass again, and the call whose surroundings it meets.

    ``whole`` is False where only the model is run, without the loss of the loop.
    """

    setup: Setup
    batch: Batch
    call: Forward
    whole: bool = True


def ways(setup: Setup, one: Pass) -> Iterator[Way]:
    """Through the ``step_fn``; by what model and loss were given; by the batch that was drawn; through the model."""
    drawn = split(setup, one)
    if setup.step_fn is not None and drawn and one.drawn:
        call = one.forwards[0] if one.forwards else Forward((), {}, one.drawn.random, ())
        yield Way(setup, drawn, replace(call, random=one.drawn.random))
        yield Way(setup, drawn, call)
    alone = replace(setup, step_fn=None, forward=None)
    for call in one.forwards[-1:]:
        drawn = drawn or listed(setup, call)
        if targets := targets_of(one, drawn):
            batch = batch_of(call, targets, drawn)
            yield Way(alone, batch, call)
            if call.casts and setup.loss_fn is not None:
                yield Way(replace(alone, loss_fn=uncast(setup.loss_fn, call)), batch, call)
        if setup.loss_fn is None:
            yield Way(alone, batch_of(call, (), drawn), call)
    if drawn and setup.loss_fn is not None and setup.step_fn is None:
        yield from (Way(setup, drawn, call) for call in one.forwards[:1])
    for call in one.forwards:
        yield Way(replace(alone, loss_fn=total), batch_of(call, (), drawn), call, whole=False)


def split(setup: Setup, one: Pass) -> Batch | None:
    """The batch that was drawn as inputs and targets; None where that cannot be told."""
    if one.drawn is None:
        return None
    try:
        return setup.split(one.drawn.batch, one.drawn.indices)
    except (SetupError, RuntimeError, TypeError, ValueError, KeyError, IndexError):
        return None


def listed(setup: Setup, call: Forward) -> Batch | None:
    """The batch of a loader that is a plain list whose inputs are those of a call."""
    if not isinstance(setup.train_loader, (list, tuple)):
        return None
    given = tensors((call.args, call.kwargs))
    for raw in setup.train_loader[:MOST_BATCHES]:
        batch = split(setup, Pass(drawn=Drawn(raw, {})))
        held = tensors((batch.args, batch.kwargs)) if batch else []
        if held and len(held) == len(given) and all(map(torch.equal, held, given)):
            return batch
    return None


def uncast(loss_fn: Callable[..., Any], call: Forward) -> Callable[..., Any]:
    """A loss that is called behind the block of autocast that the model was called in."""

    def called(output: Any, *targets: Any) -> Any:
        with ExitStack() as stack:
            for kind, _, dtype in call.casts:
                stack.enter_context(torch.autocast(kind, dtype, enabled=False))
            return loss_fn(losses.scores(output) if losses.named(loss_fn) != "other" else output, *targets)

    return called


def targets_of(one: Pass, drawn: Batch | None) -> tuple[Any, ...]:
    """What the loss was given beside the output; nothing where that is not known."""
    return one.targets or (drawn.targets if drawn else ())


def batch_of(call: Forward, targets: tuple[Any, ...], drawn: Batch | None) -> Batch:
    """The arguments of a call as a batch."""
    return Batch(call.args, call.kwargs, targets, drawn.indices if drawn else None, drawn.raw if drawn else None)


def total(output: Any) -> Tensor:
    """The sum of all that a model gives: each of its values pulls with a gradient of one."""
    found = [one.sum() for one in tensors(output) if one.is_floating_point()]
    return torch.stack([one.float() for one in found]).sum() if found else torch.zeros(())
