"""Watching the user's own loop, live: every layer, and what the rules say of the run."""

from nbdebug.watching.result import Watched as Watched
from nbdebug.watching.watch import Watch as Watch

__all__ = ["Watch", "Watched"]
