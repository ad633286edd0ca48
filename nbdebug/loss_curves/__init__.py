"""Shapes and summaries of loss curves."""

from __future__ import annotations

from nbdebug.loss_curves.curve_shape import CurveShape as CurveShape
from nbdebug.loss_curves.curve_shape import curve_shape as curve_shape
from nbdebug.loss_curves.run_summary import RunSummary as RunSummary
from nbdebug.loss_curves.run_summary import summarize_run as summarize_run

__all__ = ["CurveShape", "RunSummary", "curve_shape", "summarize_run"]
