"""Preserve: the block inside which anything may be done to a training set-up, and after which it is as it was."""

from nbdebug.preserve.block import Preserve, RestoreError, blocks, restore
from nbdebug.preserve.random_state import seed_all

__all__ = ["Preserve", "RestoreError", "blocks", "restore", "seed_all"]
