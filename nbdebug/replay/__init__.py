"""Records the passes of a run, and reruns a step whose loss or gradient was not finite."""

from __future__ import annotations

from nbdebug.replay.recorded_pass import Incident as Incident
from nbdebug.replay.replay import Replay as Replay
from nbdebug.replay.replay import freeze_abandoned_pass as freeze_abandoned_pass
from nbdebug.replay.replay import replay as replay
from nbdebug.replay.ring_buffer import RingBuffer as RingBuffer

__all__ = ["Incident", "Replay", "RingBuffer", "freeze_abandoned_pass", "replay"]
