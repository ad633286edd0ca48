"""The memory of one training step at its peak, and how much of it there is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nbdebug.setup.trees import tensors

BY_ALLOCATOR = "by the allocator of the device (max_memory_allocated)"
BY_FOLLOWING = "by following every tensor that the step made until it was freed; workspaces of kernels are not seen"
TEXTS = ("can't allocate memory", "out of memory", "not enough memory")
CGROUP = Path("/sys/fs/cgroup")


class Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that are made inside it and still live; ``peak`` is the most there were."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live, self.peak = 0, 0
        self.known = {one.untyped_storage()._cdata for each in known for one in stored(each)}
        self.seen: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operation as it is, and notes what it made."""
        made = func(*args, **(kwargs or {}))
        for each in tensors(made):
            for one in stored(each):
                self.note(one.untyped_storage())
        return made

    def note(self, storage: torch.UntypedStorage) -> None:
        """Counts a storage until it is freed."""
        key, size = storage._cdata, storage.nbytes()
        if key in self.known or key in self.seen:
            return
        self.seen[key] = weakref.ref(storage, lambda _: self.freed(key, size))
        self.live += size
        self.peak = max(self.peak, self.live)

    def freed(self, key: int, size: int) -> None:
        """Takes a storage off the count."""
        if self.seen.pop(key, None) is not None:
            self.live -= size


def stored(tensor: Tensor) -> list[Tensor]:
    """The dense tensors that hold what a tensor holds; none for one without data."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor] if tensor.layout is torch.strided and tensor.device.type != "meta" else []


def peak(step: Callable[[], object], held: list[Tensor], device: torch.device) -> int:
    """The bytes on the device at the peak of a step: those of ``held``, which were there before, and those it added.

    What else lies there, such as the copies from which a tool restores, does not count.
    """
    resident = size_of(held)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before: int = torch.cuda.memory_allocated(device)
        step()
        torch.cuda.synchronize(device)
        most: int = torch.cuda.max_memory_allocated(device)
        return resident + most - before
    seen = Following(held)
    with seen:
        step()
    return resident + seen.peak


def size_of(held: Iterable[Tensor]) -> int:
    """The bytes of some tensors, those that share memory counted once."""
    found = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for each in held for one in stored(each)}
    return sum(found.values())


def left(device: torch.device) -> int | None:
    """The bytes that are still free on a device, or in the memory of this process; None where that is not told."""
    if device.type == "cuda":
        free = int(torch.cuda.mem_get_info(device)[0])
        return free + int(torch.cuda.memory_reserved(device)) - int(torch.cuda.memory_allocated(device))
    if device.type != "cpu":
        return None
    known = [one for one in (left_of_machine(), left_of_group()) if one is not None]
    return min(known) if known else None


def left_of_machine() -> int | None:
    """What Linux calls available."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def left_of_group() -> int | None:
    """What a container may still take, by either version of control groups; its file cache counts as free."""
    for most, used, stat, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (*(f"memory/memory.{name}" for name in ("limit_in_bytes", "usage_in_bytes", "stat")), "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):
            limit, now = (int((CGROUP / name).read_text()) for name in (most, used))
            pairs = dict(line.split() for line in (CGROUP / stat).read_text().splitlines())
            return limit - now + int(pairs.get(cache, 0))
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is too little memory, on any device."""
    told = isinstance(error, RuntimeError) and any(text in str(error).lower() for text in TEXTS)
    return told or isinstance(error, (torch.OutOfMemoryError, MemoryError))


def free(device: torch.device) -> None:
    """Gives back what a step that failed has left behind."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
