"""What the user wrote themselves in a set-up: objects whose source files may hold a line to blame."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from nbdebug.setup.training import Setup

DEEPEST = 4


def authored(setup: Setup) -> list[Any]:
    """The model with its parts, the loss, optimizers and schedule, and all that the loaders are made of."""
    found: list[Any] = [*setup.eager.modules(), setup.loss_fn, setup.step_fn, setup.forward, setup.unpack]
    found += [*setup.optimizers, setup.scheduler]
    for loader in (setup.train_loader, setup.val_loader):
        found += [loader, *(getattr(loader, name, None) for name in ("collate_fn", "sampler", "batch_sampler"))]
        found += layers(getattr(loader, "dataset", None), DEEPEST)
    return [unwrapped(one) for one in found if one is not None]


def layers(dataset: Any, depth: int) -> Iterator[Any]:
    """A data set with those that it wraps, and the functions and transforms that they hold."""
    yield dataset
    held = list(vars(dataset).values()) if depth and hasattr(dataset, "__dict__") else []
    for one in held:
        if hasattr(one, "__getitem__") and hasattr(one, "__dict__"):
            yield from layers(one, depth - 1)
        elif callable(one):
            yield one
            yield from getattr(one, "transforms", ())


def unwrapped(one: Any) -> Any:
    """The function inside of partial applications and bound methods; anything else as it is."""
    while isinstance(one, partial):
        one = one.func
    return getattr(one, "__func__", one)
