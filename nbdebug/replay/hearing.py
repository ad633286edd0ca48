"""What a ring hears by hooks of its own: calls of the model and of its loss, and what a GradScaler does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn

from nbdebug.probes.modes import Hook
from nbdebug.probes.scaling import Scaled, scaling
from nbdebug.replay.ring import Ring

Act = Callable[[Any], None]


@contextmanager
def hearing(ring: Ring, timed: Callable[[str, Act], Act]) -> Iterator[None]:
    """A block in which a ring hears of a loop; ``timed`` keeps what an act raises from the loop.

    Batches, backward passes and steps it is told of by whoever hears of them.
    """
    forward = timed("replay", lambda given: ring.forward_begins(*given))
    called, scaled = timed("replay", ring.loss_called), timed("replay", lambda one: told(ring, one))

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        if module.training and torch.is_grad_enabled():
            forward((module, args, kwargs))

    def loss(_: nn.Module, args: Any) -> None:
        if torch.is_grad_enabled():
            called(args)

    with ExitStack() as hooks:
        with suppress(RuntimeError):  # a scripted module takes no hook
            hooks.callback(ring.setup.model.register_forward_pre_hook(Hook(before), with_kwargs=True).remove)
        if isinstance(ring.setup.loss_fn, nn.Module):
            hooks.callback(ring.setup.loss_fn.register_forward_pre_hook(Hook(loss)).remove)
        hooks.enter_context(scaling(scaled))
        yield


def told(ring: Ring, one: Scaled) -> None:
    """A call of a GradScaler, of those that matter here."""
    if one.kind == "scale":
        ring.loss_scaled(one.scaler)
    elif one.kind == "skipped" and one.optimizer is not None:
        ring.skipped(one.optimizer)
