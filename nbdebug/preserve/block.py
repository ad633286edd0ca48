"""The block itself, the list of those still open, and the panic button."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from nbdebug.preserve.interrupts import Postponed, uninterrupted
from nbdebug.preserve.kept import Kept
from nbdebug.preserve.random_state import global_generators
from nbdebug.preserve.settings import global_settings, thread_settings
from nbdebug.preserve.tensors import KeptTensor
from nbdebug.preserve.walk import Walk

Named = Sequence[tuple[object, Kept]]  # each with words for it

blocks: list[Preserve] = []  # that are open, in any thread; what runs in one is a tool's doing
_turn = threading.RLock()


class RestoreError(RuntimeError):
    """Something could not be made what it was; the text names each such thing, all others are restored."""


class Preserve:
    """A block that leaves modules, optimizers, loaders, random state and torch's switches bit for bit as they were.

    Inside, every gradient is set aside: ``.grad`` is None and ``gradients`` holds, by parameter, what lay there.
    """

    def __init__(self, *owned: Any, loaders: Iterable[Any] = ()) -> None:
        self._owned = tuple(thing for thing in owned if thing is not None)
        self._loaders = tuple(loader for loader in loaders if loader is not None)
        self._kept: Named = []
        self._process: Named = []
        self._in_thread: Named = []
        self._thread = 0
        self._interrupts: Postponed | None = None
        self.gradients: dict[torch.Tensor, torch.Tensor | None] = {}

    def __enter__(self) -> Preserve:
        if self in blocks:
            raise RuntimeError("This Preserve is already open; expected one that is closed. Make another one to nest.")
        try:
            with uninterrupted():
                self._keep()
            self._interrupts = Postponed(self)
        except BaseException:
            self.restore()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.restore()
        finally:
            self.restore()  # an interrupt may have struck before the first call began to hold interrupts back

    def restore(self) -> None:
        """Restore now; a second call does nothing. Blocks opened later in this thread are restored first.

        Raises RestoreError, after all else has been restored, when something could not be.
        """
        found = [self]
        try:
            with uninterrupted(), _turn:
                if self in blocks:
                    after = blocks[blocks.index(self) + 1 :]
                    found += [one for one in after if one._thread == self._thread]
                    _close(found)
        finally:
            _release(found)

    def _keep(self) -> None:
        self._thread = threading.get_ident()
        self._process = [*global_settings(), *global_generators()]
        self._in_thread = [*thread_settings()]
        walk = Walk()
        with _plainly():
            for thing in self._owned:
                walk.keep(thing)
            for loader in self._loaders:
                walk.keep_loader(loader)
            self._kept = walk.kept
            blocks.append(self)
            self._set_aside()

    def _set_aside(self) -> None:
        for _, kept in self._kept:
            if isinstance(kept, KeptTensor) and (kept.grad is not None or isinstance(kept.thing, torch.nn.Parameter)):
                self.gradients[kept.thing] = kept.grad
            kept.set_aside()

    def _put_back(self) -> list[str]:
        """Restore everything, release the copies, give what failed."""
        with _plainly():
            failed = _restored(self._kept)
        if threading.get_ident() == self._thread:
            failed += _restored(self._in_thread)
        failed += _restored(self._process)
        blocks.remove(self)
        self._kept, self._process, self._in_thread, self.gradients = [], [], [], {}
        return failed


def restore() -> int:
    """Restore every block that is still open, the last opened first, and give their number."""
    found: list[Preserve] = []
    try:
        with uninterrupted(), _turn:
            found += blocks
            return _close(found)
    finally:
        _release(found)


def _close(found: list[Preserve]) -> int:
    failed = [failure for block in reversed(found) for failure in block._put_back()]
    if failed:
        raise RestoreError(f"Not restored: {'; '.join(failed)}. Everything else is as it was. Build these anew.")
    return len(found)


def _release(found: list[Preserve]) -> None:
    """Let interrupts through again, the last opened block first."""
    for one in reversed(found):
        if one._interrupts is not None and one._thread == threading.get_ident():
            one._interrupts.release()
            one._interrupts = None  # it holds the block, which would live until garbage is collected, with all it owns


def _restored(kept: Named) -> list[str]:
    failed = []
    for name, one in kept:
        try:
            one.restore()
        except Exception as error:
            failed.append(f"{name} ({type(error).__name__}: {error})")
    return failed


@contextmanager
def _plainly() -> Iterator[None]:
    """Read and write tensors as memory: without gradients, inference mode or what subclasses make of each call."""
    with torch.inference_mode(False), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        yield
