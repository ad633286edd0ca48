"""The training set-up under test: the user's objects, and the guesses that join them."""

from nbdebug.setup.batch import Batch as Batch
from nbdebug.setup.loaders import Replay as Replay
from nbdebug.setup.training import Setup as Setup

__all__ = ["Batch", "Replay", "Setup"]
