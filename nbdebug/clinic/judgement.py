"""The judgement of a repair: no fault of the case is left, and the score is that of the repaired twin."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.clinic.cases import ClinicCase, MeasuredRun, PlantedFault, load_measured_run
from nbdebug.clinic.session import open_case
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.result import Result
from nbdebug.rule_engine import rule_registry
from nbdebug.validation import describe_type
from nbdebug.views.findings import FindingsView
from nbdebug.views.notebook_kernel import without_display

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_PROFILE_STEPS = 8


@dataclass(frozen=True)
class CaseCheck(Result):
    """The judgement of a repair. ``remaining`` are the faults of the case that nbdebug still reports.

    ``unexpected`` are errors that are no fault of the case. The text does not name what remains, so that it can be read
    between two attempts.
    """

    has_chart: ClassVar[bool] = False

    case: ClinicCase
    measured: MeasuredRun
    score: float
    remaining: tuple[PlantedFault, ...] = ()
    unexpected: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """True if nothing is left to repair, and the score is reached."""
        return not self.remaining and not self.unexpected and self.reached

    @property
    def reached(self) -> bool:
        """True if the score is that of the repaired twin."""
        return self.measured.is_reached_by(self.score)

    @property
    def headline(self) -> str:
        """The judgement in one line."""
        score = f"the score is {self.score:.3g}, and that of the repaired twin {self.measured.twin_score:.3g}"
        if self.passed:
            return f"Repaired: nbdebug finds no fault; {score}."
        left = f"nbdebug still finds {len(self.remaining)} of {len(self.case.faults)} faults" if self.remaining else ""
        count = len(self.unexpected)
        others = f"nbdebug finds {count} other error{'s' * (count > 1)}" if count else ""
        return f"Not yet: {'; '.join(filter(None, [left, others, score]))}. nbdebug.clinic.hint() helps."

    def view(self) -> View:
        """Return the judgement, with cards of the errors that are no fault of the case."""
        findings = [finding.to_dict() for finding in self.unexpected]
        return FindingsView(title=f"Clinic: {self.case.title}", subtitle=self.headline, findings=findings)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per fault of the case: its codes, repaired."""
        import pandas as pd

        rows = [(" ".join(sorted(fault.codes)), fault not in self.remaining) for fault in self.case.faults]
        return pd.DataFrame(rows, columns=["codes", "repaired"])

    def draw(self, ax: Axes) -> None:
        """Draw the score, and that of the repaired twin."""
        ax.barh(["score", "repaired twin"], [self.score, self.measured.twin_score])

    def to_text(self) -> str:
        """Return the judgement, and the errors that are no fault of the case."""
        return "\n\n".join([f"nbdebug clinic: {self.headline}", *map(str, self.unexpected)])


def check() -> CaseCheck:
    """Judge the repair of the open case, by the ``dbg`` and the ``score`` of your notebook.

    Raises SetupError without an open case, and without ``dbg``, its monitored run or ``score``.
    """
    case, names = open_case(), sys._getframe(1).f_globals
    debugger, score = _read_names(names)
    if _needs_profile(case):
        with without_display():
            debugger.profile(steps=_PROFILE_STEPS)
    remaining = _remaining_faults(case, debugger)
    if remaining != case.faults:
        with without_display():
            debugger.checkup()
        remaining = _remaining_faults(case, debugger)
    errors = tuple(finding for finding in debugger.findings if finding.severity == "error")
    unexpected = () if remaining else errors  # those may be consequences of what remains
    return CaseCheck(case, load_measured_run(case.name), score, remaining, unexpected)


def _needs_profile(case: ClinicCase) -> bool:
    """Return whether a rule that names a fault of the case reads the time of a step."""
    rules = rule_registry.load_rules()
    return any("profile" in rules[code].needs for fault in case.faults for code in fault.codes)


def _remaining_faults(case: ClinicCase, debugger: Debugger) -> tuple[PlantedFault, ...]:
    """Return the faults of the case among the findings so far. A note counts if its rule is one of notes."""
    rules = rule_registry.load_rules()
    codes = {finding.code for finding in debugger.findings if rules[finding.code].severity == "note"}
    codes |= {finding.code for finding in debugger.findings.faults}
    return tuple(fault for fault in case.faults if fault.codes & codes)


def _read_names(names: Mapping[str, Any]) -> tuple[Debugger, float]:
    debugger, score = names.get("dbg"), names.get("score")
    if not isinstance(debugger, Debugger) or debugger.watched is None or debugger.watched.result is None:
        raise SetupError(
            f"dbg is {describe_type(debugger)} without a monitored run; expected a Debugger with one. "
            "Run the cell that trains."
        )
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise SetupError(f"score is {score!r}; expected a number. Run the cell that evaluates.")
    return debugger, float(score)
