"""Result of a triage: causes found, causes left with the test that splits them, and causes ruled out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from nbdebug.finding import Finding
from nbdebug.result import Result
from nbdebug.triage.stages import STAGE_TEXTS, StageRecord
from nbdebug.views.images import named_bars

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.triage.view import TriageView

Status = Literal["found", "open", "ruled out"]
_MAX_OPEN = 6


@dataclass(frozen=True)
class CauseState:
    """What a triage knows of one cause.

    ``findings`` establish it; ``codes`` are the rules that ruled it out, or could not be checked; ``test`` is the
    cheapest test that decides an open cause, and ``why`` the reason why it is open.
    """

    name: str
    prior: float
    status: Status
    findings: tuple[Finding, ...] = ()
    codes: tuple[str, ...] = ()
    test: str = ""
    why: str = ""


@dataclass(frozen=True)
class Triage(Result):
    """The causes of a symptom: those found, best first, then those left, then those ruled out.

    ``established`` is whether an error explains the symptom; without one, ``next_test`` is the cheapest test that
    decides most of what is left. ``stages`` are the checks that ran, in the order of their cost.
    """

    has_chart: ClassVar[bool] = False

    symptom: str
    patterns: tuple[str, ...]
    states: tuple[CauseState, ...]
    stages: tuple[StageRecord, ...] = field(default=(), repr=False)
    next_test: str = ""
    established: bool = False
    stopped: bool = False

    @property
    def found(self) -> tuple[CauseState, ...]:
        """The causes that findings establish, best first."""
        return tuple(state for state in self.states if state.status == "found")

    @property
    def left(self) -> tuple[CauseState, ...]:
        """The causes that are neither found nor ruled out, the most common first."""
        return tuple(state for state in self.states if state.status == "open")

    @property
    def ruled_out(self) -> tuple[CauseState, ...]:
        """The causes that checks ruled out."""
        return tuple(state for state in self.states if state.status == "ruled out")

    @property
    def cause(self) -> CauseState | None:
        """The cause that explains the symptom best; None if none was found."""
        return self.found[0] if self.found else None

    @property
    def seconds(self) -> float:
        """The duration of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the causes found, best first."""
        return tuple(finding for state in self.found for finding in state.findings)

    @property
    def headline(self) -> str:
        """The cause, or how many are left, in one line."""
        early = "stopped early: " if self.stopped else ""
        if self.cause is not None:
            certainty = "" if self.established else f"{early}likely: "
            return f"{certainty}{self.cause.name} ({self.cause.findings[0].code})"
        left = f"{len(self.left)} causes left" if len(self.left) != 1 else f"one cause left: {self.left[0].name}"
        return f"{early}{left}, {len(self.ruled_out)} ruled out"

    def view(self) -> TriageView:
        """Return the page: findings as cards, the causes left, the stages and what they ruled out."""
        from nbdebug.triage.view import TriageView

        return TriageView(
            status=self.headline,
            symptom=self.symptom,
            findings=[finding.to_dict() for finding in self.findings],
            left=[(state.name, state.test or state.why) for state in self.left],
            ruled_out=[(state.name, ", ".join(state.codes)) for state in self.ruled_out],
            stages=self._stage_rows(),
            next_test=self.next_test,
            established=self.established,
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per cause: cause, status, prior, codes, test."""
        import pandas as pd

        rows = [
            {
                "cause": state.name,
                "status": state.status,
                "prior": state.prior,
                "codes": ", ".join([finding.code for finding in state.findings] or state.codes),
                "test": state.test,
            }
            for state in self.states
        ]
        return pd.DataFrame(rows, columns=["cause", "status", "prior", "codes", "test"])

    def draw(self, ax: Axes) -> None:
        """Draw the number of causes found, left and ruled out."""
        names = ("found", "left", "ruled out")
        named_bars(ax, names, [len(self.found), len(self.left), len(self.ruled_out)])
        ax.set_xlabel("causes")

    def to_text(self) -> str:
        """Return the cause with its findings, what is left with the next test, the stages, and what they ruled out."""
        lines = [f"nbdebug triage: {self.headline}", f"symptom: {self.symptom}"]
        if self.patterns:
            lines[-1] += f" ({', '.join(self.patterns)})"
        lines += ["", *(str(finding) for finding in self.findings[:3])] if self.findings else []
        if len(self.findings) > 3:
            lines += [f"and {len(self.findings) - 3} more, in .findings"]
        if self.left and not self.established:
            lines += ["", "not decided:", *(f"  - {state.name}" for state in self.left[:_MAX_OPEN])]
            lines += [f"  and {len(self.left) - _MAX_OPEN} more"] if len(self.left) > _MAX_OPEN else []
        if self.next_test:
            lines += [f"next test: {self.next_test}"]
        if self.ruled_out:
            lines += ["", "ruled out:", *(f"  - {state.name} ({', '.join(state.codes)})" for state in self.ruled_out)]
        lines += ["", *(f"{name}: {text}" for name, text in self._stage_rows())]
        return "\n".join(lines)

    def brief_text(self) -> str:
        """Return the cause, a line for each finding, the next test, and how much was ruled out."""
        lines = [f"nbdebug triage: {self.headline}", f"symptom: {self.symptom}"]
        lines += [finding.summary_line for finding in self.findings]
        lines += [f"next test: {self.next_test}"] if self.next_test else []
        return "\n".join([*lines, f"causes left: {len(self.left)}, ruled out: {len(self.ruled_out)}"])

    def _stage_rows(self) -> list[tuple[str, str]]:
        """Return the stages that ran, each with the number of rules and the time."""
        rows = []
        for stage in self.stages:
            count = f"{len(stage.asked)} rule{'s' * (len(stage.asked) != 1)}"
            text = f"{count}, {stage.seconds:.1f} s" if stage.name != "earlier" else count
            rows.append((STAGE_TEXTS[stage.name], f"{text}; not possible: {stage.skipped}" if stage.skipped else text))
        return rows
