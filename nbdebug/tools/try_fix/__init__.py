"""Trials of changes: the setup with and without them, trained on copies with matched seeds."""

from __future__ import annotations

from nbdebug.tools.try_fix.ablation import AblatedChange, Ablation, ablation
from nbdebug.tools.try_fix.label_effect import label_effect
from nbdebug.tools.try_fix.result import TriedFix
from nbdebug.tools.try_fix.tool import try_fix

__all__ = ["AblatedChange", "Ablation", "TriedFix", "ablation", "label_effect", "try_fix"]
