"""The forward passes of a whole model in a running loop, and the calls that switch its mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle


@contextmanager
def passes(
    model: nn.Module,
    begins: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None],
    ends: Callable[[Any], None],
    wanted: Callable[[], bool] = lambda: True,
) -> Iterator[None]:
    """A block in which each call of a model is told of: before it runs, and after it with its output.

    What hears the output hangs on the model only while that is ``wanted``.
    """
    hanging: list[RemovableHandle] = []

    def hang() -> None:
        hanging.append(model.register_forward_hook(Hook(ends, slice(2, 3))))

    def take_off() -> None:
        while hanging:
            hanging.pop().remove()

    def before(*given: Any) -> None:
        begins(*given)
        if not wanted():
            take_off()
        elif not hanging:
            hang()

    with ExitStack() as hooks:
        hooks.callback(take_off)
        with suppress(RuntimeError):  # a scripted module takes none
            hooks.callback(model.register_forward_pre_hook(Hook(before), with_kwargs=True).remove)
            hang()
        yield


class Hook:
    """One hook, which gives nothing back, and which neither a compiler nor a copied or saved model takes with it.

    ``heard`` gets some of what a hook is given.
    """

    def __init__(self, heard: Callable[..., None], some: slice = slice(None)) -> None:
        self.heard, self.some = heard, some

    def __call__(self, *given: Any) -> None:
        """Tells of the call, except to a compiler that reads along."""
        if not torch.compiler.is_dynamo_compiling():
            self.heard(*given[self.some])

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy holds a method of the standard library that takes anything and does nothing.
        return getattr, (nullcontext(), "__exit__")


@contextmanager
def switchings(heard: Callable[[tuple[nn.Module, bool]], None]) -> Iterator[None]:
    """A block in which each ``train()`` and ``eval()`` of any module is told of, before it is done."""
    original = nn.Module.train

    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        heard((self, mode))
        return original(self, mode)

    nn.Module.train = train  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.train = original  # type: ignore[method-assign]
