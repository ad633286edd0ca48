"""Resident memory of this process; it is read from /proc, which only Linux has."""

from __future__ import annotations

from pathlib import Path

# The allocator returns freed memory at once, so the peak is memory that was in use at the same time.
ALLOCATOR_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
}
_STATUS = Path("/proc/self/status")


def peak_resident_kib() -> int:
    """Return the peak resident memory in KiB, or 0 without /proc."""
    return _read_status("VmHWM")


def current_resident_kib() -> int:
    """Return the current resident memory in KiB, or 0 without /proc."""
    return _read_status("VmRSS")


def _read_status(field: str) -> int:
    if not _STATUS.exists():
        return 0
    return int(next(line.split()[1] for line in _STATUS.read_text().splitlines() if line.startswith(field)))
