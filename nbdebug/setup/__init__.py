"""The training setup under test: the user's objects, and how a batch goes through them."""

from __future__ import annotations

from nbdebug.setup.batch import Batch as Batch
from nbdebug.setup.loaders import PeekableLoader as PeekableLoader
from nbdebug.setup.setup import Setup as Setup

__all__ = ["Batch", "PeekableLoader", "Setup"]
