"""Profile of a training step: where its time goes, and what each change would gain."""

from __future__ import annotations

from nbdebug.tools.profile.result import Profile
from nbdebug.tools.profile.time_profile import Advice, Latency, LineTime, ModuleCost, Roofline, SpeedTrial
from nbdebug.tools.profile.tool import profile

__all__ = ["Advice", "Latency", "LineTime", "ModuleCost", "Profile", "Roofline", "SpeedTrial", "profile"]
