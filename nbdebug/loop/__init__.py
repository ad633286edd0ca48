"""What the user's own loop does: its events in order, and what becomes of each parameter."""

from nbdebug.loop.follower import Follower as Follower
from nbdebug.loop.loop import Loop as Loop

__all__ = ["Follower", "Loop"]
