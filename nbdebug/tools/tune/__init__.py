"""Search of settings by trials on copies, with a confirmation of the best ones by matched runs."""

from __future__ import annotations

from nbdebug.tools.tune.result import TunedTrial, Tuning
from nbdebug.tools.tune.tool import tune

__all__ = ["TunedTrial", "Tuning", "tune"]
