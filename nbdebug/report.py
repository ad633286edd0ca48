"""Reports: ranked findings, and the rules that were skipped."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.exceptions import SetupError
from nbdebug.finding import SEVERITIES, Finding, Location, cause_indices, is_consequence
from nbdebug.formatting import round_number
from nbdebug.result import Result
from nbdebug.serialization.schema import document, to_json
from nbdebug.setup.notebook_names import variable_name
from nbdebug.views.findings import FindingsView, skipped_rules_line
from nbdebug.views.images import named_bars
from nbdebug.views.saved_output import MAX_LINES, first_lines, picture

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.findings import CheckupProgress
    from nbdebug.views.page import View

# Rule families in the order of the debugging pyramid: faults in earlier families explain symptoms in later ones.
FAMILY_ORDER = "XDLMGOTERP"
# Findings that describe a poor model without a cause; any other fault that none of them explains ranks above them.
_OUTCOMES = frozenset({"T608", "E702", "E703", "E704", "E705", "E706", "E709"})

_AFTER_ERRORS = frozenset({"T614"})  # a longer run may end well in spite of an error

_CONSEQUENCE = "Probably a consequence of {code}. Fix it first and run again."
_BETTER_REFERENCE = "T610"  # a simple learner finds what the model has not


@dataclass(frozen=True)
class SkippedRule:
    """A rule that was not checked, and the reason."""

    code: str
    name: str
    why: str


@dataclass(frozen=True)
class Report(Result):
    """Findings by rank, causes before their consequences; iterable.

    ``checked_rules`` are the codes of the rules that were checked, ``title`` names the tool, ``subject`` describes the
    input in one line, ``seconds`` is the duration, ``stopped`` whether it was stopped early. ``disproved`` holds the
    assumptions and predictions of findings that a watched run has disproved, each with what the run showed instead.
    ``asked_again`` are rules whose earlier findings no longer count, since training changed what they judge.
    ``part_seconds`` are the seconds that each measurement and each rule took, longest first.
    ``pass_error`` is the error of the model or the loss, if it raised when called with a batch as the loader yields it,
    although the user's loop may call it differently; rules that need such a pass could not be checked.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ("_try_fix",)

    findings: tuple[Finding, ...] = ()
    not_checked: tuple[SkippedRule, ...] = ()
    checked_rules: frozenset[str] = frozenset()
    has_chart: ClassVar[bool] = False  # bars of severities say less than the text

    title: str = "Checkup"
    subject: str = ""
    seconds: float = 0.0
    stopped: bool = False
    disproved: Mapping[str, str] = field(default_factory=dict)
    asked_again: frozenset[str] = frozenset()
    pass_error: str = ""
    part_seconds: Mapping[str, float] = field(default_factory=dict)
    _try_fix: Callable[[Finding], Result] | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        return self.findings[index]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The errors and warnings; notes are no faults."""
        return tuple(finding for finding in self.findings if finding.severity != "note")

    def with_loss_location(self, where: Location) -> Report:
        """Return a copy in which findings about the loss without a location point to ``where``."""
        located = [
            replace(finding, where=where) if finding.code.startswith("L") and finding.where == Location() else finding
            for finding in self.findings
        ]
        return replace(self, findings=tuple(located))

    def view(self, progress: CheckupProgress | None = None) -> View:
        """Return ranked cards."""
        debugger = getattr(self._try_fix, "__self__", None)
        return FindingsView(
            title=self.title,
            subtitle=self.subject,
            findings=[item.to_dict() for item in self.findings],
            not_checked=[vars(item) for item in self.not_checked],
            checked=len(self.checked_rules),
            progress=progress,
            stopped=self.stopped,
            seconds=self.seconds,
            part_seconds=self.part_seconds,
            debugger=(variable_name(debugger) if debugger is not None else None) or "dbg",
        )

    def with_stated_consequences(self) -> Report:
        """Return a copy in which each consequence of a fault names its first cause in place of a cause and a fix.

        Notes that another finding confirms become warnings there, which a later report may contradict.
        It is no error of its own beside an error. Only what a user reads says so: a run may still disprove the cause.
        The copy is always the same object, which a notebook displays once.
        """
        return self._stated

    @cached_property
    def _stated(self) -> Report:
        faults = [finding for finding in self.findings if finding.severity != "note"]
        findings = rank_findings(_strengthen(finding, faults) for finding in self.findings)
        firsts = _first_causes(findings)
        stated = [
            finding if first is finding else _state_consequence(finding, first)
            for finding, first in zip(findings, firsts, strict=True)
        ]
        first_error = next(filter(_is_broken_part, stated), None)
        ranked = rank_findings(_postpone(finding, first_error) if first_error else finding for finding in stated)
        return self if all(map(operator.is_, ranked, self.findings)) else replace(self, findings=ranked)

    def with_trials(self, try_fix: Callable[[Finding], Result]) -> Report:
        """Return a copy whose page tries the fixes of its findings by ``try_fix``."""
        return replace(self, _try_fix=try_fix)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a click in the view: train copies with the fix of a finding."""
        if self._try_fix is None:
            raise SetupError("this report has no setup; expected one to train. Run the checkup again.")
        return {"text": self._try_fix(self.findings[request["finding"]]).to_text()}

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per finding, by rank."""
        import pandas as pd

        columns = ["code", "name", "severity", "message"]
        columns += ["module", "parameter", "sample", "file", "line", "source", "cause", "fix"]
        rows: list[dict[str, Any]] = [{**vars(finding), **vars(finding.where)} for finding in self.findings]
        return pd.DataFrame(rows, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, ready for JSON, with the content of its page; ``schema`` names its version.

        The format is described in docs/command_line.md.
        """
        return document(
            self.title,
            self.findings,
            subject=self.subject,
            summary=self.summary,
            checked_rules=sorted(self.checked_rules),
            not_checked=[dict(vars(rule)) for rule in self.not_checked],
            stopped=self.stopped,
            seconds=round_number(self.seconds),
            part_seconds={name: round_number(seconds) for name, seconds in self.part_seconds.items()},
            pass_error=self.pass_error,
        )

    def to_json(self) -> str:
        """Return ``to_dict()`` as one line of JSON."""
        return to_json(self.to_dict())

    def draw(self, ax: Axes) -> None:
        """Draw a bar for each severity."""
        counts = Counter(finding.severity for finding in self.findings)
        named_bars(ax, SEVERITIES, [counts[severity] for severity in SEVERITIES])
        ax.set_xlabel("findings")

    def to_text(self) -> str:
        """Return the findings by rank, consequences in one line, and how many rules were not checked."""
        title = f"nbdebug {self.title.lower()}{' (stopped)' if self.stopped else ''}: {self.summary}"
        head = "\n".join(filter(None, [title, self.subject]))
        skipped = skipped_rules_line(len(self.not_checked))
        return "\n\n".join(filter(None, [head, *describe_findings(self.findings), skipped]))

    def brief_text(self) -> str:
        """Return the text if it is short or has one finding; otherwise the summary, and a line for each finding."""
        text = self.to_text()
        if len(self.findings) == 1 or len(first_lines(text)) < MAX_LINES:
            return text
        return "\n".join([text.partition("\n\n")[0], *(finding.summary_line for finding in self.findings)])

    @property
    def headline(self) -> str:
        """One line: the summary and the faults."""
        return f"nbdebug {self.title.lower()}: {'; '.join(filter(None, [self.summary, self.faults_text]))}"

    @property
    def faults_text(self) -> str:
        """The code, name and location of each fault, with the codes of its consequences, in one line."""
        texts = []
        for fault, consequences in _fold(self.faults):
            location, codes = str(fault.where), ", ".join(finding.code for finding in consequences)
            at, explains = f" at {location}" if location else "", f" (explains {codes})" if codes else ""
            texts.append(f"{fault.code} {fault.name}{at}{explains}")
        return "; ".join(texts)

    @property
    def summary(self) -> str:
        """One phrase, such as ``1 error, 2 warnings from 14 rules in 0.4 s``."""
        counts = Counter(finding.severity for finding in self.findings)
        counts_text = ", ".join(f"{counts[s]} {s}{'s' if counts[s] > 1 else ''}" for s in SEVERITIES if counts[s])
        rule_count = "1 rule" if len(self.checked_rules) == 1 else f"{len(self.checked_rules)} rules"
        checked = f" from {rule_count} in {self.seconds:.1f} s" if self.checked_rules else ""
        return f"{counts_text or 'no findings'}{checked}"


def _finding_card(finding: Finding) -> dict[str, str]:
    """Return the display data of a single finding: a card, and in a kernel also a picture of its text."""
    from nbdebug.views.live import static_bundle
    from nbdebug.views.notebook_kernel import in_kernel
    from nbdebug.views.page import TRUST_LINE

    bundle = static_bundle(FindingsView(title="Finding", findings=[finding.to_dict()]))
    if not in_kernel():
        return {**bundle, "text/plain": str(finding)}
    lines = [*first_lines(str(finding)), TRUST_LINE]
    return {**bundle, "text/plain": "\n".join(lines), "image/png": picture(lines, None)}


Finding.card = _finding_card


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """Return a text for each finding that no other explains, with one line for each of its consequences."""
    return [
        "\n".join([str(cause), *(f"  explains {finding.headline}" for finding in consequences)])
        for cause, consequences in _fold(findings)
    ]


def _fold(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Return the findings that no other explains, each with all its consequences."""
    firsts = _first_causes(findings)
    folded: dict[int, tuple[Finding, list[Finding]]] = {id(first): (first, []) for first in firsts}
    for finding, first in zip(findings, firsts, strict=True):
        if finding is not first:
            folded[id(first)][1].append(finding)
    return [*folded.values()]


def _first_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Return for each finding the one that explains it and that no other explains; itself if none does."""
    causes = cause_indices([vars(finding) for finding in findings])

    def first(index: int) -> int:
        above = causes[index]
        return index if above is None else first(above)

    return [findings[first(index)] for index in range(len(findings))]


def _is_broken_part(finding: Finding) -> bool:
    """Return whether a finding is an error of the program itself, and no outcome of a run, which any fault has."""
    return finding.severity == "error" and finding.code not in _OUTCOMES and not finding.code.startswith("T")


def _postpone(finding: Finding, error: Finding) -> Finding:
    """Return a finding whose change would hide an error, such as a longer run, without the change."""
    if finding.code not in _AFTER_ERRORS or not finding.fix:
        return finding
    return replace(finding, fix=f"Mend {error.code} first, and run again.", setup_fix="", edits=(), changes=())


def _state_consequence(finding: Finding, cause: Finding) -> Finding:
    """Return a finding without a cause, a fix and edits of its own, unless what explains it is only a note."""
    if cause.severity == "note":
        return finding
    is_error_beside_error = finding.severity == cause.severity == "error"
    return replace(
        finding,
        severity="warning" if is_error_beside_error else finding.severity,
        cause=_CONSEQUENCE.format(code=cause.code),
        fix="",
        setup_fix="",
        trial="",
        edits=(),
        changes=(),
    )


def rank_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by rank: faults before notes, and causes before the findings that they explain.

    A cause ranks as high as the worst finding that it explains.
    """
    unranked = sorted(findings, key=lambda finding: (_severity_rank(finding), _family_rank(finding)))
    faults = [finding for finding in unranked if finding.severity != "note"]
    causes = cause_indices([vars(finding) for finding in unranked])
    explained = {id(finding) for finding, cause in zip(unranked, causes, strict=True) if cause is not None}
    has_cause = any(cause.code not in _OUTCOMES and id(cause) not in explained for cause in faults)

    def rank(finding: Finding) -> tuple[bool, bool, bool, int, int, int]:
        consequences = [fault for fault in faults if is_consequence(fault.code, fault.aspect, finding.explains)]
        return (
            finding.severity == "note",
            has_cause and finding.code in _OUTCOMES,
            id(finding) in explained,
            min(map(_severity_rank, [finding, *consequences])),
            _severity_rank(finding),
            _family_rank(finding),
        )

    return tuple(sorted(unranked, key=rank))


def _severity_rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity or "note")


def _family_rank(finding: Finding) -> int:
    return FAMILY_ORDER.find(finding.code[:1])


class ReportLog(dict[str, Report]):
    """The last report of each tool by name, in the order in which they were made."""

    def __setitem__(self, name: str, report: Report) -> None:
        self.pop(name, None)
        super().__setitem__(name, report)


def merge_reports(reports: Iterable[Report]) -> Report:
    """Merge reports, the oldest first, into one with each finding once.

    Findings that a later report replaces or that a run has disproved are withdrawn, or become notes.
    """
    reports_list = list(reports)
    disproved = {claim: text for report in reports_list for claim, text in report.disproved.items()}
    standing = [finding for finding in _current_findings(reports_list) if not _is_withdrawn(finding, disproved)]
    findings = {(f.code, f.message): _weaken(f, disproved) for f in standing if not _is_repeated(f, standing)}
    checked_rules = frozenset(code for report in reports_list for code in report.checked_rules)
    skipped = {
        rule.code: rule for report in reports_list for rule in report.not_checked if rule.code not in checked_rules
    }
    first_report = reports_list[0] if reports_list else Report()
    return replace(
        first_report,
        findings=rank_findings(findings.values()),
        not_checked=tuple(skipped.values()),
        checked_rules=checked_rules,
        seconds=sum(report.seconds for report in reports_list),
        stopped=any(report.stopped for report in reports_list),
        disproved=disproved,
        asked_again=frozenset(code for report in reports_list for code in report.asked_again),
    )


def _current_findings(reports: list[Report]) -> Iterator[Finding]:
    """Yield the findings of all reports, except those of rules that a later report has asked again.

    A later report may also have a finding at the same line with the same cause and other numbers, which replaces it.
    """
    for position, report in enumerate(reports):
        later = reports[position + 1 :]
        replaced = {code for other in later for code in other.asked_again & other.checked_rules}
        repeated = {_identity(finding) for other in later for finding in other.findings if finding.where.line}
        yield from (f for f in report.findings if f.code not in replaced and _identity(f) not in repeated)


def _identity(finding: Finding) -> tuple[object, ...]:
    """Return what two findings on the same mistake have in common."""
    where = finding.where
    place = where.file, where.line, where.module, where.parameter
    return finding.code, finding.severity, finding.cause, *place


def _is_withdrawn(finding: Finding, disproved: Mapping[str, str]) -> bool:
    return bool(finding.assumes) and all(assumption in disproved for assumption in finding.assumes)


def _weaken(finding: Finding, disproved: Mapping[str, str]) -> Finding:
    """Return a finding as a note with what the run showed, if its prediction has been disproved."""
    if finding.severity == "note" or not (observation := disproved.get(finding.predicts)):
        return finding
    message = f"{finding.message} The watched run was not harmed by it: {observation}."
    return replace(finding, severity="note", message=message)


def _strengthen(finding: Finding, faults: list[Finding]) -> Finding:
    """Return a note as a warning if a fault confirms what it assumes, and no fault has another cause.

    A reference that learns more than the model denies what it does not confirm.
    """
    if finding.severity != "note" or not finding.assumes:
        return finding
    confirming = next((fault for fault in faults if set(finding.assumes) <= set(fault.confirms)), None)
    others = [f for f in faults if f.code not in _OUTCOMES and not is_consequence(f.code, f.aspect, finding.explains)]
    denied = any(f.code == _BETTER_REFERENCE and not set(finding.assumes) <= set(f.confirms) for f in faults)
    if confirming is None or others or denied:
        return finding
    message = f"{finding.message} The watched run supports this ({confirming.code} {confirming.name})."
    return replace(finding, severity="warning", message=message)


def _is_repeated(finding: Finding, standing: list[Finding]) -> bool:
    """Return whether another finding of the same rule at the same line says more.

    That is one without running for one about a step of a run, and one that explains another aspect; if a finding about
    a step names no line, at any line.
    """
    where = finding.where
    others = [other for other in standing if other is not finding and _is_of_same_line(finding, other)]
    if where.step is not None and any(other.where.step is None for other in others):
        return True
    aspect = f"{finding.code}:{finding.aspect}"
    if where.step is not None and where.line is None:
        others = [other for other in standing if other.code == finding.code and other.where.step is None]
    is_placed = where.line is not None or where.step is not None
    others = [other for other in others if _severity_rank(other) <= _severity_rank(finding)]
    return bool(finding.aspect and is_placed) and any(aspect in other.explains for other in others)


def _is_of_same_line(finding: Finding, other: Finding) -> bool:
    """Return whether two findings have one code and one line."""
    place, other_place = (finding.where.file, finding.where.line), (other.where.file, other.where.line)
    return finding.code == other.code and place == other_place
