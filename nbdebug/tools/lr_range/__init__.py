"""Learning rate range test: sweeps, confirmation runs and a recommendation."""

from __future__ import annotations

from nbdebug.tools.lr_range.confirmation import Confirmation as Confirmation
from nbdebug.tools.lr_range.confirmation import ConfirmationRun as ConfirmationRun
from nbdebug.tools.lr_range.data import Suggestion as Suggestion
from nbdebug.tools.lr_range.data import Sweep as Sweep
from nbdebug.tools.lr_range.result import LrRange as LrRange
from nbdebug.tools.lr_range.sweep import SweepPlan as SweepPlan
from nbdebug.tools.lr_range.tool import lr_range as lr_range

__all__ = ["Confirmation", "ConfirmationRun", "LrRange", "Suggestion", "Sweep", "SweepPlan", "lr_range"]
