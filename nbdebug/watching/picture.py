"""The picture of a run, live or done."""

from __future__ import annotations

from nbdebug.record import Record
from nbdebug.report import Report
from nbdebug.views.base import View
from nbdebug.views.curves import Curves

LINES = ("loss", "eval_loss", "sample_train_loss", "sample_val_loss")


def picture(record: Record, report: Report, status: str, live: bool = False) -> View:
    """The losses of a run by step."""
    series = {name: list(zip(*record.series(name), strict=True)) for name in LINES}
    shown = {name: points for name, points in series.items() if points}
    return Curves(title="Training", x_label="step", y_label="loss", series=shown, status=status)
