"""What a ring hears by hooks of its own: calls of the model and of its loss, and what a GradScaler does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import nn

from nbdebug.probes.outputs import silence
from nbdebug.probes.scaling import Scaled, scaling
from nbdebug.replay.ring import Ring

Act = Callable[[Any], None]


class Training:
    """A hook on the calls of a module that are trained on; a copied or saved module does not take it with it."""

    def __init__(self, act: Act) -> None:
        self.act = act

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Tells of one call."""
        if module.training and torch.is_grad_enabled():
            self.act((module, args, kwargs))

    def __reduce__(self) -> tuple[Any, ...]:
        return silence, ()


@contextmanager
def hearing(ring: Ring, timed: Callable[[str, Act], Act]) -> Iterator[None]:
    """A block in which a ring hears of a loop; ``timed`` keeps what an act raises from the loop.

    Batches, backward passes and steps it is told of by whoever hears of them.
    """
    model, loss = ring.setup.model, ring.setup.loss_fn
    forward = Training(timed("replay", lambda given: ring.forward_begins(*given)))
    called = Training(timed("replay", lambda given: ring.loss_called(given[1])))
    with ExitStack() as hooks:
        with suppress(RuntimeError):  # a scripted module takes none
            hooks.callback(model.register_forward_pre_hook(forward, with_kwargs=True).remove)
        if isinstance(loss, nn.Module):
            hooks.callback(loss.register_forward_pre_hook(called, with_kwargs=True).remove)
        hooks.enter_context(scaling(timed("replay", lambda one: told(ring, one))))
        yield


def told(ring: Ring, one: Scaled) -> None:
    """A call of a GradScaler, of those that matter here."""
    if one.kind == "scale":
        ring.loss_scaled(one.scaler)
    elif one.kind == "skipped" and one.optimizer in ring.setup.optimizers:
        ring.skipped(one.optimizer)
