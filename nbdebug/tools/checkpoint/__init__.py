"""Check of checkpoints: whether training resumes from them as it would have continued."""

from __future__ import annotations

from nbdebug.tools.checkpoint.result import CheckpointCheck, NextSteps, PartCheck
from nbdebug.tools.checkpoint.tool import check_checkpoint

__all__ = ["CheckpointCheck", "NextSteps", "PartCheck", "check_checkpoint"]
