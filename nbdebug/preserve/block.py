"""The Preserve context manager, the list of open blocks, and deferred interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from nbdebug.preserve.object_snapshots import Snapshot
from nbdebug.preserve.process_snapshots import global_generators, global_settings, thread_settings
from nbdebug.preserve.tensor_snapshots import TensorSnapshot
from nbdebug.preserve.traversal import Traversal

_NamedSnapshots = Sequence[tuple[object, Snapshot]]  # each with a description
open_blocks: list[Preserve] = []  # open blocks of all threads; code inside one is run by a tool
_restore_lock = threading.RLock()


class _DeferredInterrupt:
    """Defers an interrupt that arrives as a block's ``__exit__`` is entered, before its first instruction.

    Python would otherwise leave the block without running it. ``release`` delivers the deferred interrupt.
    """

    def __init__(self, owner: object) -> None:
        self.owner, self.previous_handler = owner, signal.getsignal(signal.SIGINT)
        self.deferred: tuple[int, FrameType | None] | None = None
        self.active = threading.current_thread() is threading.main_thread() and callable(self.previous_handler)
        if self.active:
            signal.signal(signal.SIGINT, self.handle)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Store the interrupt if the owner is about to exit, else pass it on."""
        if self.is_exiting(frame):
            self.deferred = (number, frame)
        elif callable(self.previous_handler):
            self.previous_handler(number, frame)

    def is_exiting(self, frame: FrameType | None) -> bool:
        """Check whether the ``__exit__`` of the owner is on a stack."""
        code = type(self.owner).__exit__.__code__  # type: ignore[attr-defined]
        while frame is not None:
            if frame.f_code is code and frame.f_locals.get("self") is self.owner:
                return True
            frame = frame.f_back
        return False

    def release(self) -> None:
        """Restore the handler and deliver the deferred interrupt; a second call does nothing."""
        if self.active and signal.getsignal(signal.SIGINT) == self.handle:
            signal.signal(signal.SIGINT, self.previous_handler)
        self.active = False
        deferred, self.deferred = self.deferred, None
        if deferred is not None and callable(self.previous_handler):
            self.previous_handler(*deferred)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts to the end of the block; only the main thread receives them."""
    previous_handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous_handler is None:
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        if arrived and callable(previous_handler):
            previous_handler(*arrived[-1])
        elif arrived and previous_handler == signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)


class RestoreError(RuntimeError):
    """Some objects could not be restored; the message names each of them. All others are restored."""


class Preserve:
    """A block that restores modules, optimizers, loaders, random state and torch's global settings bit for bit.

    Gradients are set aside within the block: ``.grad`` is None and ``gradients`` maps each parameter to its gradient.
    """

    def __init__(self, *objects: Any, loaders: Iterable[Any] = ()) -> None:
        self._objects = tuple(item for item in objects if item is not None)
        self._loaders = tuple(loader for loader in loaders if loader is not None)
        self._snapshots: _NamedSnapshots = []
        self._process_snapshots: _NamedSnapshots = []
        self._thread_snapshots: _NamedSnapshots = []
        self._thread_id = 0
        self._interrupts: _DeferredInterrupt | None = None
        self.gradients: dict[torch.Tensor, torch.Tensor | None] = {}

    def __enter__(self) -> Preserve:
        if self in open_blocks:
            raise RuntimeError("This Preserve is already open; expected a closed one. Create another one to nest.")
        try:
            with defer_interrupts():
                self._take_snapshots()
            self._interrupts = _DeferredInterrupt(self)
        except BaseException:
            self.restore()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.restore()
        finally:
            self.restore()  # an interrupt may have arrived before the first call deferred interrupts

    def restore(self) -> None:
        """Restore now; a second call does nothing. Blocks opened later in this thread are restored first.

        Raises RestoreError after restoring everything else if some objects could not be restored.
        """
        blocks_to_restore = [self]
        try:
            with defer_interrupts(), _restore_lock:
                if self in open_blocks:
                    opened_later = open_blocks[open_blocks.index(self) + 1 :]
                    blocks_to_restore += [block for block in opened_later if block._thread_id == self._thread_id]
                    _close_blocks(blocks_to_restore)
        finally:
            _release_interrupts(blocks_to_restore)

    def _take_snapshots(self) -> None:
        self._thread_id = threading.get_ident()
        self._process_snapshots = [*global_settings(), *global_generators()]
        self._thread_snapshots = [*thread_settings()]
        traversal = Traversal()
        with _raw_tensor_access():
            for item in self._objects:
                traversal.take_snapshot(item)
            for loader in self._loaders:
                traversal.take_loader_snapshot(loader)
            if all(block._thread_id != self._thread_id for block in open_blocks):
                traversal.take_store_snapshots()  # once: inside, tools share what they read
            self._snapshots = traversal.snapshots
            open_blocks.append(self)
            self._set_aside()

    def _set_aside(self) -> None:
        for _, snapshot in self._snapshots:
            if isinstance(snapshot, TensorSnapshot) and (
                snapshot.grad is not None or isinstance(snapshot.original, torch.nn.Parameter)
            ):
                self.gradients[snapshot.original] = snapshot.grad
            snapshot.set_aside()

    def _restore_all(self) -> list[str]:
        """Restore everything, release the copies, and return the failures."""
        with _raw_tensor_access():
            failures = _restore_snapshots(self._snapshots)
        if threading.get_ident() == self._thread_id:
            failures += _restore_snapshots(self._thread_snapshots)
        failures += _restore_snapshots(self._process_snapshots)
        open_blocks.remove(self)
        self._snapshots, self._process_snapshots, self._thread_snapshots, self.gradients = [], [], [], {}
        return failures


def restore() -> int:
    """Restore all open blocks, the last opened first, and return their number."""
    blocks_to_restore: list[Preserve] = []
    try:
        with defer_interrupts(), _restore_lock:
            blocks_to_restore += open_blocks
            return _close_blocks(blocks_to_restore)
    finally:
        _release_interrupts(blocks_to_restore)


def _close_blocks(to_close: list[Preserve]) -> int:
    failures = [failure for block in reversed(to_close) for failure in block._restore_all()]
    if failures:
        raise RestoreError(f"Not restored: {'; '.join(failures)}. Everything else is restored. Rebuild these objects.")
    return len(to_close)


def _release_interrupts(to_release: list[Preserve]) -> None:
    """Deliver interrupts again, the last opened block first."""
    for block in reversed(to_release):
        if block._interrupts is not None and block._thread_id == threading.get_ident():
            block._interrupts.release()
            block._interrupts = None  # breaks a reference cycle that would keep the block and its objects alive


def _restore_snapshots(snapshots: _NamedSnapshots) -> list[str]:
    failures = []
    for name, snapshot in snapshots:
        try:
            snapshot.restore()
        except Exception as error:
            failures.append(f"{name} ({type(error).__name__}: {error})")
    return failures


@contextmanager
def _raw_tensor_access() -> Iterator[None]:
    """Access tensors as memory: without gradients, inference mode or overrides in subclasses."""
    with torch.inference_mode(False), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        yield
