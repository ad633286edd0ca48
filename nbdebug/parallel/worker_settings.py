"""Settings of torch in a worker: those of the process that started it, and one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from nbdebug.preserve.process_snapshots import global_settings


def read_settings() -> dict[str, Any]:
    """Return torch's global settings in this process."""
    return {name: snapshot.original for name, snapshot in global_settings()}


def adopt_settings(settings: Mapping[str, Any]) -> None:
    """Set torch's global settings in this worker, and one thread, so that workers do not compete for processors."""
    torch.set_num_threads(1)
    for name, snapshot in global_settings():
        snapshot.original = settings[name]
        snapshot.restore()
