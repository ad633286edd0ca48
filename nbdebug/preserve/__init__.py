"""Preserve: a block that restores the training setup to its exact previous state."""

from __future__ import annotations

from nbdebug.preserve.block import Preserve, RestoreError, open_blocks, restore
from nbdebug.preserve.process_snapshots import seed_all

__all__ = ["Preserve", "RestoreError", "open_blocks", "restore", "seed_all"]
