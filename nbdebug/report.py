"""What a checkup says: its findings by rank, what it did not check and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nbdebug.finding import SEVERITIES, Finding, Where
from nbdebug.result import Result
from nbdebug.views.bars import bars

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View
    from nbdebug.views.findings import Progress

# The debugging pyramid, by family of rules: what is wrong further down explains what shows further up.
PYRAMID = "DLMGOTERP"


@dataclass(frozen=True)
class Skipped:
    """A rule that could not be asked, and why."""

    code: str
    name: str
    why: str


@dataclass(frozen=True)
class Report(Result):
    """Findings by rank, causes before what they explain; iterates over them.

    ``asked`` are the codes of the rules that could answer, ``title`` says what was done, ``subject`` is a line about
    what was looked at, ``seconds`` what it took, ``stopped`` whether it was cut short. ``disproved`` is what findings
    assumed of the loop, and a watched loop has shown not to be so. ``unmet`` says what the user's own loss raised where
    it was given output and target, so that rules on it could not be asked.
    """

    findings: tuple[Finding, ...] = ()
    not_checked: tuple[Skipped, ...] = ()
    asked: frozenset[str] = frozenset()
    title: str = "Checkup"
    subject: str = ""
    seconds: float = 0.0
    stopped: bool = False
    disproved: frozenset[str] = frozenset()
    unmet: str = ""

    def __iter__(self) -> Iterator[Finding]:
        """The findings, the gravest cause first."""
        return iter(self.findings)

    def __len__(self) -> int:
        """How many findings there are."""
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        """The finding at a rank."""
        return self.findings[index]

    @property
    def loud(self) -> tuple[Finding, ...]:
        """The errors and warnings; notes never count as faults."""
        return tuple(one for one in self.findings if one.severity != "note")

    def at_loss(self, where: Where) -> Report:
        """The same, with what is said of the loss, and has no place yet, at the line that calls it."""
        placed = [
            replace(one, where=where) if one.code.startswith("L") and one.where == Where() else one
            for one in self.findings
        ]
        return replace(self, findings=tuple(placed))

    def view(self, progress: Progress | None = None) -> View:
        """Ranked cards."""
        from nbdebug.views.findings import Findings

        return Findings(
            title=self.title,
            subtitle=self.subject,
            findings=[one.to_dict() for one in self.findings],
            not_checked=[vars(one) for one in self.not_checked],
            checked=len(self.asked),
            progress=progress,
            stopped=self.stopped,
        )

    def to_frame(self) -> pandas.DataFrame:
        """One row a finding, by rank."""
        import pandas as pd

        columns = ["code", "name", "severity", "message"]
        columns += ["module", "parameter", "sample", "file", "line", "source", "cause", "fix"]
        rows: list[dict[str, Any]] = [{**vars(one), **vars(one.where)} for one in self.findings]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """A bar for each severity."""
        counts = Counter(one.severity for one in self.findings)
        bars(ax, SEVERITIES, [counts[severity] for severity in SEVERITIES])
        ax.set_xlabel("findings")

    def __str__(self) -> str:
        """The findings in plain text, then what was not checked."""
        title = f"nbdebug {self.title.lower()}{' (stopped)' if self.stopped else ''}: {self.summary}"
        head = "\n".join(filter(None, [title, self.subject]))
        skipped = [f"  {one.code} {one.name}: {one.why}" for one in self.not_checked]
        tail = "\n".join([f"not checked ({len(skipped)}):", *skipped]) if skipped else ""
        return "\n\n".join(filter(None, [head, *map(str, self.findings), tail]))

    @property
    def summary(self) -> str:
        """One phrase, such as ``1 error, 2 warnings, by 14 rules in 0.4 s``."""
        counts = Counter(one.severity for one in self.findings)
        said = ", ".join(f"{counts[s]} {s}{'s' if counts[s] > 1 else ''}" for s in SEVERITIES if counts[s])
        return f"{said or 'nothing found'}, by {len(self.asked)} rules in {self.seconds:.1f} s"


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with causes first: what another one explains goes after all that nothing explains."""
    found = list(findings)
    explained = {code for one in found if one.severity != "note" for code in one.explains}

    def rank(one: Finding) -> tuple[bool, int, int]:
        severity = SEVERITIES.index(one.severity or "note")
        return one.code in explained, severity, PYRAMID.find(one.code[:1])

    return tuple(sorted(found, key=rank))


def merged(reports: Iterable[Report]) -> Report:
    """Several reports as one, each finding once."""
    several = list(reports)
    disproved = frozenset(what for report in several for what in report.disproved)
    found = [one for report in several for one in report.findings if not one.assumes or set(one.assumes) - disproved]
    known = {(one.code, one.where.file, one.where.line) for one in found if one.where.step is None}
    findings = {(one.code, one.message): one for one in found if not is_repeated(one, known)}
    asked = frozenset(code for report in several for code in report.asked)
    skipped = {one.code: one for report in several for one in report.not_checked if one.code not in asked}
    first = several[0] if several else Report()
    return replace(
        first,
        findings=ranked(findings.values()),
        not_checked=tuple(skipped.values()),
        asked=asked,
        seconds=sum(one.seconds for one in several),
        stopped=any(one.stopped for one in several),
        disproved=disproved,
    )


def is_repeated(one: Finding, known: set[tuple[str, str | None, int | None]]) -> bool:
    """Whether what is said of a step of a run was said of the same place without running."""
    return one.where.step is not None and (one.code, one.where.file, one.where.line) in known
