"""The result of a contest as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

State = Literal["learns", "does not learn", "diverges", "not run"]
Verdict = Literal["clear", "tie", "none", "stopped"]
Origin = Literal["yours", "given", "found", "default"]
ORIGINS = {
    "yours": "your rate",
    "given": "as given",
    "found": "found by a range test",
    "default": "torch's default",
}


@dataclass(frozen=True)
class Run:
    """One candidate under one seed: the training loss of each step, and the validation loss by batch after some steps.

    ``ended`` is "finished", "diverged", "not finite", "stopped" or "interrupted"; what is not finite is left out.
    """

    seed: int
    losses: tuple[float, ...] = field(repr=False)
    validations: tuple[tuple[int, tuple[float, ...]], ...] = field(repr=False)
    ended: str

    @property
    def lost(self) -> bool:
        """Whether the loss was lost."""
        return self.ended in ("diverged", "not finite")


@dataclass(frozen=True)
class Entry:
    """What became of one candidate.

    ``rank`` is one more than the number of candidates that are better beyond chance, so equal ranks are ties. ``train``
    is the mean training loss of the last fifth of the steps, ``val`` the last loss on the validation sample, each by
    its mean over the seeds and with ``error``, the half-width of the 95 % interval of what the ranks are taken from.
    ``stable`` is False where the loss was lost or rose by a quarter of its way down under any seed; ``falling`` says
    that it was still falling at the end.
    """

    name: str
    rate: float | None
    origin: Origin
    code: str = field(repr=False)
    runs: tuple[Run, ...] = field(repr=False)
    state: State = "not run"
    stable: bool = True
    falling: bool = False
    rank: int = 0
    train: float | None = None
    val: float | None = None
    error: float | None = None

    @property
    def lost(self) -> int:
        """Under how many seeds the loss was lost."""
        return sum(one.lost for one in self.runs)

    @property
    def words(self) -> str:
        """State and stability in words."""
        if self.state == "diverges":
            return f"diverges under {self.lost} of {len(self.runs)} seeds"
        return self.state + (", stable" if self.stable else ", unstable") * (self.state != "not run")


@dataclass(frozen=True)
class Contest(Result):
    """Candidates on equal terms, the best first, and how sure their order is.

    ``judged_by`` is "val" where there is a validation loader, else "train". ``start`` is the loss before training.
    ``verdict`` is "clear" where one candidate is better than all others beyond chance, "tie", "none" where none
    learns, or "stopped" where there is too little to compare.
    """

    entries: tuple[Entry, ...]
    verdict: Verdict
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    judged_by: Literal["train", "val"] = "train"
    start: float | None = None
    steps: int = 0
    seeds: int = 0
    stopped: bool = False
    seconds: float = 0.0

    @property
    def best(self) -> Entry | None:
        """The candidate that ended lowest, of ties the lowest stable one; None where none learns, or too few ran."""
        return self.entries[0] if self.verdict in ("clear", "tie") else None

    @property
    def tied(self) -> tuple[Entry, ...]:
        """All that cannot be told from the best, the best among them."""
        return tuple(one for one in self.entries if self.best is not None and one.rank == 1)

    @property
    def code(self) -> str:
        """The best candidate, ready to paste; empty where there is none."""
        return self.best.code if self.best is not None else ""

    def view(self) -> View:
        """A small picture for each candidate, all on the same axes, and a table."""
        from nbdebug.tools.contest.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a step of each run: candidate, rate, seed, step, loss, val_loss where it was measured."""
        import pandas as pd

        rows = []
        for one in self.entries:
            for run in one.runs:
                known = {step: sum(each) / len(each) for step, each in run.validations}
                losses = enumerate(run.losses, 1)
                rows += [(one.name, one.rate, run.seed, step, loss, known.get(step)) for step, loss in losses]
        return pd.DataFrame(rows, columns=["candidate", "rate", "seed", "step", "loss", "val_loss"])

    def draw(self, ax: Axes) -> None:
        """The smoothed loss of each candidate, its mean over the seeds, and a band from the lowest to the highest."""
        from nbdebug.tools.contest.band import band

        for one in self.entries:
            found = band(one.runs)
            if not found.steps:
                continue
            (line,) = ax.plot(found.steps, found.middle, label=f"{one.rank}. {one.name}")
            ax.fill_between(found.steps, found.low, found.high, color=line.get_color(), alpha=0.2, linewidth=0)
        ax.set(xlabel="step", ylabel="training loss", title=f"contest: {self.verdict}")
        if self.entries:
            ax.legend()

    def __str__(self) -> str:
        """The verdict with its reasons, a line for each candidate, and the best one's code."""
        lines = [
            f"nbdebug compare_optimizers: {self.verdict}. {self.headline}",
            *(f"  - {one}" for one in self.reasons),
        ]
        lines += [f"  {line(one)}" for one in self.entries]
        lines += [f"  {text}" for text in self.code.splitlines()]
        lines += [f"  note: {one}" for one in self.notes]
        size = f"{self.steps} steps under each of {self.seeds} seeds"
        return "\n".join([*lines, f"  {size}, {self.seconds:.1f} s; nothing was changed"])


def line(one: Entry) -> str:
    """A candidate in one line."""
    rate = f", lr {one.rate:.2g} ({ORIGINS[one.origin]})" if one.rate is not None else ""
    losses = [f"{name} {value:.4g}" for name, value in (("train", one.train), ("val", one.val)) if value is not None]
    place = f"{one.rank}. " if one.rank else ""
    return f"{place}{one.name}{rate}: {', '.join([*losses, one.words])}"
