"""Peak memory of a training step, and available memory."""

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

from nbdebug.tensors.pytree import tree_tensors

BY_ALLOCATOR = "by the allocator of the device (max_memory_allocated)"
BY_TRACKING = "by tracking every tensor that the step allocated until it was freed; kernel workspaces are not included"
CGROUP_PATH = Path("/sys/fs/cgroup")


class AllocationTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all live tensors that are created inside it; ``peak`` is the maximum."""

    def __init__(self, existing: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live, self.peak = 0, 0
        self.existing = {part.untyped_storage()._cdata for tensor in existing for part in _dense_parts(tensor)}
        self.tracked: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and track its outputs."""
        outputs = func(*args, **(kwargs or {}))
        for tensor in tree_tensors(outputs):
            for part in _dense_parts(tensor):
                self.track(part.untyped_storage())
        return outputs

    def track(self, storage: torch.UntypedStorage) -> None:
        """Count a storage until it is freed."""
        key, size = storage._cdata, storage.nbytes()
        if key in self.existing or key in self.tracked:
            return
        self.tracked[key] = weakref.ref(storage, lambda _: self.untrack(key, size))
        self.live += size
        self.peak = max(self.peak, self.live)

    def untrack(self, key: int, size: int) -> None:
        """Remove a storage from the count."""
        if self.tracked.pop(key, None) is not None:
            self.live -= size


def _dense_parts(tensor: Tensor) -> list[Tensor]:
    """Return the dense tensors that hold the data of a tensor; none for a tensor without data."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor] if tensor.layout is torch.strided and tensor.device.type != "meta" else []


def peak_bytes(step: Callable[[], object], resident_tensors: list[Tensor], device: torch.device) -> int:
    """Return the bytes on the device at the peak of a step: those of ``held``, which existed before, and those it adds.

    Other memory, such as the copies from which a tool restores the state, does not count.
    """
    resident = total_bytes(resident_tensors)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before: int = torch.cuda.memory_allocated(device)
        step()
        torch.cuda.synchronize(device)
        allocated_peak: int = torch.cuda.max_memory_allocated(device)
        return resident + allocated_peak - before
    tracker = AllocationTracker(resident_tensors)
    with tracker:
        step()
    return resident + tracker.peak


def total_bytes(all_tensors: Iterable[Tensor]) -> int:
    """Return the bytes of some tensors; shared memory is counted once."""
    bytes_by_storage = {
        part.untyped_storage()._cdata: part.untyped_storage().nbytes()
        for tensor in all_tensors
        for part in _dense_parts(tensor)
    }
    return sum(bytes_by_storage.values())


def available_bytes(device: torch.device) -> int | None:
    """Return the free bytes on a device, or in the memory available to this process; None if unknown."""
    if device.type == "cuda":
        free = int(torch.cuda.mem_get_info(device)[0])
        return free + int(torch.cuda.memory_reserved(device)) - int(torch.cuda.memory_allocated(device))
    if device.type != "cpu":
        return None
    limits = [limit for limit in (_available_system_memory(), available_cgroup_memory()) if limit is not None]
    return min(limits) if limits else None


def _available_system_memory() -> int | None:
    """Return the available memory as reported by Linux."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def available_cgroup_memory() -> int | None:
    """Return the memory that a container may still use, by either version of cgroups; its file cache counts as free."""
    for limit_file, usage_file, stat_file, cache_key in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (*(f"memory/memory.{name}" for name in ("limit_in_bytes", "usage_in_bytes", "stat")), "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):
            limit, usage = (int((CGROUP_PATH / name).read_text()) for name in (limit_file, usage_file))
            pairs = dict(line.split() for line in (CGROUP_PATH / stat_file).read_text().splitlines())
            return limit - usage + int(pairs.get(cache_key, 0))
    return None


def release_memory(device: torch.device) -> None:
    """Release the memory that a failed step has left allocated."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
