"""Result of a bisection as plain data, with its runs and its table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nbdebug.formatting import join_names
from nbdebug.result import Result
from nbdebug.views.table import Column, FoldableTable, TableRow

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

BisectVerdict = Literal["located", "undecided", "not reproduced", "stopped"]
Subject = Literal["changes", "keys", "samples", "checkpoints", "modules", "known-good samples"]
_AXIS_LABELS = {
    "changes": "number of changes",
    "keys": "number of keys",
    "samples": "samples",
    "checkpoints": "checkpoint",
    "modules": "modules of your model",
    "known-good samples": "samples of your data",
}
_COLUMNS = (
    Column("run", "number"),
    Column("of"),
    Column("seed", "number"),
    Column("score", "number"),
    Column("outcome"),
)


@dataclass(frozen=True)
class ProbeRun:
    """One run: what was in it, its seed, and its score or whether it failed; None for what was not asked."""

    subject: str
    position: float
    seed: int = 0
    score: float | None = None
    failed: bool | None = None


@dataclass(frozen=True)
class Bisection(Result):
    """The part of a setup that makes training fail, or the fewest candidates that are left.

    ``verdict`` is "located" for one change, key, checkpoint, or minimal set of samples or modules; "undecided" if the
    runs did not suffice; "not reproduced" if the bad end is not worse than the good one. ``candidates`` names what is
    left, most probable first, with the ``probabilities`` of changes and keys. ``indices`` are their positions from 0,
    in the list of changes or checkpoints or in the dataset.
    """

    verdict: BisectVerdict
    headline: str
    over: Subject
    candidates: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    runs: tuple[ProbeRun, ...] = field(default=(), repr=False)
    metric: str = ""
    seconds: float = 0.0

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per run: subject, position, seed, score, failed."""
        import pandas as pd

        return pd.DataFrame(
            [vars(run) for run in self.runs], columns=["subject", "position", "seed", "score", "failed"]
        )

    def draw(self, ax: Axes) -> None:
        """Plot the score of each run over its position, or the order of the runs and their outcomes."""
        label = _AXIS_LABELS[self.over]
        if self.over in ("changes", "keys"):
            scored = [(run.position, run.score) for run in self.runs if run.score is not None]
            ax.scatter([position for position, _ in scored], [score for _, score in scored], s=14)
            ax.set(xlabel=label, ylabel=self.metric)
        else:
            colors = ["tab:red" if run.failed else "tab:green" for run in self.runs]
            ax.scatter(range(1, len(self.runs) + 1), [run.position for run in self.runs], c=colors, s=14)
            ax.set(xlabel="run (red: failed)", ylabel=label)
        ax.set_title(f"bisection over {self.over}: {self.verdict}")

    def view(self) -> View:
        """A table of the runs under the outcome."""
        return build_view(self)

    def to_text(self) -> str:
        """The outcome, and the candidates that are left."""
        lines = [f"nbdebug bisect: {self.verdict}. {self.headline}"]
        for name, share in zip(self.candidates, self.probabilities, strict=False):
            lines.append(f"  {name}: probability {share:.2f}")
        return "\n".join([*lines, f"  {len(self.runs)} runs on copies, {self.seconds:.1f} s; nothing is changed"])

    @property
    def candidate_text(self) -> str:
        """The candidates in a few words."""
        return join_names(self.candidates) or "none"


def build_view(result: Bisection, status: str = "") -> FoldableTable:
    """Build the view of a result; with a ``status``, that of a bisection that goes on."""
    tones = {"located": "good", "undecided": "warning", "not reproduced": "warning", "stopped": "warning"}
    rows = [
        TableRow(str(number), (run.subject, run.seed, run.score, _outcome(run)))
        for number, run in enumerate(result.runs, 1)
    ]
    return FoldableTable(
        title=f"Bisection over {result.over}",
        status=status or f"{len(result.runs)} runs on copies in {result.seconds:.1f} s",
        columns=_COLUMNS,
        rows=rows,
        notice=("", "") if status else (f"{result.verdict}: {result.headline}", tones[result.verdict]),  # type: ignore[arg-type]
        noun="runs",
    )


def _outcome(run: ProbeRun) -> str:
    return "" if run.failed is None else "fails" if run.failed else "passes"
