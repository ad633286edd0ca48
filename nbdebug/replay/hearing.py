"""What a ring hears of a loop by hooks of its own: batches, forward calls, and what the loss is given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.data.dataloader import _BaseDataLoaderIter

from nbdebug.replay.ring import Ring


@contextmanager
def hearing(ring: Ring, safely: Callable[[Callable[..., None]], Callable[..., None]]) -> Iterator[None]:
    """A block in which a ring hears of the calls of its model and its loss, of batches and of scaled losses.

    ``safely`` wraps each of its methods, so that what one raises does not reach the loop.
    """
    model, loss, data = ring.setup.model, ring.setup.loss_fn, getattr(ring.setup.train_loader, "dataset", None)
    forward, called, drawn = (safely(one) for one in (ring.forward_begins, ring.loss_called, ring.batch_drawn))
    scaled, skipped = safely(ring.loss_scaled), safely(ring.skipped)

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        if module.training and torch.is_grad_enabled():
            forward(module, args, kwargs)

    def batch(iterator: Any, found: Any) -> None:
        if iterator._dataset is data:
            drawn(found)

    def stepping(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            taken = ring.taken
            found = original(scaler, optimizer, *args, **kwargs)
            if ring.taken == taken and optimizer in ring.setup.optimizers:
                skipped(optimizer)
            return found

        return step

    with ExitStack() as hooks:
        hooks.callback(model.register_forward_pre_hook(before, with_kwargs=True).remove)
        if isinstance(loss, nn.Module):
            hooks.callback(loss.register_forward_pre_hook(lambda _, args: called(args)).remove)
        hooks.enter_context(results(_BaseDataLoaderIter, "__next__", batch))
        hooks.enter_context(arguments(torch.amp.GradScaler, "scale", scaled))
        hooks.enter_context(replaced(torch.amp.GradScaler, "step", stepping))
        yield


@contextmanager
def results(kind: type, method: str, tell: Callable[[Any, Any], None]) -> Iterator[None]:
    """A block in which each result of a method is told of, with its object."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any) -> Any:
            found = original(self, *args)
            tell(self, found)
            return found

        return call

    with replaced(kind, method, around):
        yield


@contextmanager
def arguments(kind: type, method: str, tell: Callable[[Any], None]) -> Iterator[None]:
    """A block in which the first argument of each call of a method is told of before it runs."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, first: Any, *args: Any, **kwargs: Any) -> Any:
            tell(first)
            return original(self, first, *args, **kwargs)

        return call

    with replaced(kind, method, around):
        yield


@contextmanager
def replaced(kind: type, method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """A block in which a method of a class is another."""
    original = getattr(kind, method)
    setattr(kind, method, functools.wraps(original)(around(original)))
    try:
        yield
    finally:
        setattr(kind, method, original)
