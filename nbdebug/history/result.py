"""Result of a diagnosis: the curves, what they show, and the best epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.finding import Finding
from nbdebug.history.curves import Curves, Unit
from nbdebug.records import Record
from nbdebug.report import describe_findings
from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_LABELS = {
    "train_loss": "training loss",
    "val_loss": "validation loss",
    "train_score": "training score",
    "val_score": "validation score",
}


@dataclass(frozen=True)
class _Best:
    """The best position of a curve: the label of the curve, the position in epochs or steps, and the value there."""

    label: str
    position: float
    value: float


@dataclass(frozen=True)
class Diagnosis(Result):
    """Signs of trouble in training curves, worst first; iterable.

    ``best_positions`` are the best epochs or steps: by the validation score, if there is one, and by the loss of
    validation, else of training. ``notes`` name what was not judged and why. ``record`` holds the curves as the record
    of a run.
    """

    findings: tuple[Finding, ...]
    curves: Curves = field(repr=False)
    record: Record = field(repr=False)
    best_positions: tuple[_Best, ...] = ()
    source: str = "history"
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def best(self) -> _Best | None:
        """The best epoch or step: by the validation score, else by the loss; None without a finite value."""
        return self.best_positions[0] if self.best_positions else None

    @property
    def unit(self) -> Unit:
        """The unit of the positions: epoch or step."""
        return self.curves.unit

    @property
    def verdict(self) -> str:
        """The name of the first finding that is no note, else "healthy"."""
        return next((finding.name for finding in self.findings if finding.severity != "note"), "healthy")

    @property
    def headline(self) -> str:
        """The verdict, the extent of the curves and the best position, in one line."""
        count = len(self.curves.train_loss.values)
        bests = [f"{b.label} best at {self.unit} {b.position:,.0f} ({b.value:.4g})" for b in self.best_positions]
        return "; ".join([f"{self.verdict}, {count} values of the loss", *bests])

    def view(self) -> View:
        """Return the page: the curves with the findings."""
        from nbdebug.history.view import DiagnosisView

        return DiagnosisView(
            status=self.headline,
            x_label=self.unit,
            series={label: self.curves.points(role) for role, label in _LABELS.items()},
            marks={best.label.rpartition(" ")[2]: [(best.position, "best")] for best in self.best_positions},
            findings=[finding.to_dict() for finding in self.findings],
            notes=self.notes,
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per finding: code, name, severity, message, cause, fix."""
        import pandas as pd

        columns = ["code", "name", "severity", "message", "cause", "fix"]
        return pd.DataFrame([vars(finding) for finding in self.findings], columns=columns)

    def draw(self, ax: Axes) -> None:
        """Draw the losses by position, and mark the best one."""
        for role in ("train_loss", "val_loss"):
            if (series := getattr(self.curves, role)) is not None:
                values = np.where(np.isfinite(series.values), series.values, np.nan)
                ax.plot(series.positions, values, label=_LABELS[role])
        for best in self.best_positions[-1:]:
            ax.axvline(best.position, color="gray", linestyle=":", label=f"best {self.unit}")
        ax.set(xlabel=self.unit, ylabel="loss", title=self.verdict)
        ax.legend()

    def to_text(self) -> str:
        """Return the headline, the findings with their causes and fixes, and what was not judged."""
        names = ", ".join(f"{_LABELS.get(role, role)} {name!r}" for role, name in self.curves.names.items())
        head = f"nbdebug diagnose: {self.headline}\n{self.source}: {names}"
        notes = "\n".join(f"note: {note}" for note in self.notes)
        return "\n\n".join(filter(None, [head, *describe_findings(self.findings), notes]))


def find_best_positions(curves: Curves) -> tuple[_Best, ...]:
    """Return where the validation score is highest, and where the loss of validation, else of training, is lowest."""
    loss = "train_loss" if curves.val_loss is None else "val_loss"
    bests = (_find_best(curves, role, sign) for role, sign in (("val_score", 1), (loss, -1)))
    return tuple(best for best in bests if best is not None)


def _find_best(curves: Curves, role: str, sign: int) -> _Best | None:
    """Return where a curve, times ``sign``, is highest; None without a finite value."""
    series = getattr(curves, role)
    quality = np.zeros(0) if series is None else sign * series.values
    if not np.isfinite(quality).any():
        return None
    index = int(np.where(np.isfinite(quality), quality, -np.inf).argmax())
    return _Best(_LABELS[role], float(series.positions[index]), float(series.values[index]))
