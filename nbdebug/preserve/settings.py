"""Torch's global switches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from nbdebug.preserve.kept import Kept, KeptSetting, KeptValue


def global_settings() -> Iterator[tuple[str, Kept]]:
    """The switches that hold for the whole process."""
    yield "anomaly mode", KeptSetting(_anomaly, lambda flags: torch.autograd.set_detect_anomaly(*flags))
    yield "default dtype", KeptSetting(torch.get_default_dtype, torch.set_default_dtype)
    yield "determinism", KeptSetting(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode)
    for name in ("enabled", "benchmark", "deterministic"):
        yield f"cudnn.{name}", KeptSetting(partial(getattr, torch.backends.cudnn, name),
                                           partial(setattr, torch.backends.cudnn, name))  # fmt: skip


def thread_settings() -> Iterator[tuple[str, Kept]]:
    """The switches that each thread has for itself."""
    yield "grad mode", KeptSetting(torch.is_grad_enabled, torch.set_grad_enabled)
    yield "number of threads", KeptSetting(torch.get_num_threads, torch.set_num_threads)
    # A weight that autocast has cast and kept for its block must be cast again once it is what it was.
    yield "autocast weights", KeptValue(lambda: None, lambda _: torch.clear_autocast_cache())
    yield "autocast cache", KeptSetting(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)
    for device in ("cpu", "cuda"):
        yield f"autocast on {device}", KeptSetting(partial(torch.is_autocast_enabled, device),
                                                   partial(torch.set_autocast_enabled, device))  # fmt: skip
        yield f"autocast dtype on {device}", KeptSetting(partial(torch.get_autocast_dtype, device),
                                                         partial(torch.set_autocast_dtype, device))  # fmt: skip


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
