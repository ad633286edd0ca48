"""A step whose loss or gradient was not finite: kept as it began, and run again."""

from nbdebug.replay.abandoned import abandoned as abandoned
from nbdebug.replay.incident import Incident as Incident
from nbdebug.replay.replay import replay as replay
from nbdebug.replay.result import Replay as Replay
from nbdebug.replay.ring import Ring as Ring

__all__ = ["Incident", "Replay", "Ring", "abandoned", "replay"]
