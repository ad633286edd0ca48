"""Run the stages of a triage until a cause is established or nothing is left to ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.measurements.registry import TOO_SLOW_FOR_QUICK
from nbdebug.report import Report, merge_reports
from nbdebug.rule_engine import rule_registry
from nbdebug.triage.pattern import SymptomCause
from nbdebug.triage.result import CauseState, Triage
from nbdebug.triage.stages import (
    FOR_SYMPTOM_ONLY,
    STAGE_TEXTS,
    Stage,
    StageRecord,
    expand_codes,
    has_slow_parts,
    reads_run,
    stage_of,
    test_of_stage,
)
from nbdebug.triage.symptom import Symptom
from nbdebug.views.live import LiveScreen, Screen

# Findings that describe what a run or a model does, and not why; the signs of the symptom count as such, too.
_OUTCOMES = ("T601", "T602", "T603", "T604", "T605", "T606", "T607", "T608", "T610", "T614")
_DESCRIPTIONS = frozenset((*_OUTCOMES, "E702", "E703", "E704", "E706", "E709"))


@dataclass
class Investigation:
    """A symptom, the stages by cost, and what is known so far: ``reports`` in the order of time.

    ``has_run`` is whether one of them is that of a watched run.
    """

    symptom: Symptom
    stages: Sequence[Stage]
    reports: list[Report] = field(default_factory=list)
    has_run: bool = False
    records: list[StageRecord] = field(default_factory=list)
    stopped: bool = False
    screen: Screen = field(default_factory=Screen)

    def run(self, screen: Screen) -> Triage:
        """Ask the causes of the symptom stage by stage; if none is established, ask all other rules.

        The quick stage asks all its rules: they share one pass, and one may explain the finding of another. An
        interrupt acts as Stop in a notebook, else it is raised.
        """
        self.screen = screen
        try:
            self._run_all()
        except KeyboardInterrupt:
            self.stopped = True
            if not isinstance(screen, LiveScreen):
                raise
        return self.result()

    def _run_all(self) -> None:
        self.records.append(StageRecord("earlier", tuple(sorted(self.checked)), 0.0))
        codes = expand_codes(code for cause in self.symptom.causes for code in cause.codes)
        quick = [code for code in rule_registry.load_rules() if stage_of(code) == "quick"]
        self._run_stages([*codes, *(code for code in quick if code not in codes)])
        if not self._is_established():
            self._run_stages([code for code in rule_registry.load_rules() if code not in codes], wide=True)

    @property
    def checked(self) -> frozenset[str]:
        """The codes of all rules that were checked."""
        return frozenset(code for report in self.reports for code in report.checked_rules)

    @property
    def faults(self) -> list[Finding]:
        """The errors and warnings so far, by rank; causes before mere descriptions."""
        relevant = {code for cause in self.symptom.causes for code in expand_codes(cause.codes)}
        rules = rule_registry.load_rules()
        faults = [
            fault
            for fault in merge_reports(self.reports).faults
            if fault.code in relevant or rules[fault.code].affects_learning
        ]
        return sorted(faults, key=lambda fault: self._is_description(fault))

    def _is_description(self, fault: Finding) -> bool:
        return fault.code in _DESCRIPTIONS | self.symptom.signs

    def _is_established(self) -> bool:
        """Return whether an error is known that causes, and does not only describe, what was seen."""
        return any(map(self._is_cause, self.faults))

    def _is_cause(self, fault: Finding) -> bool:
        return fault.severity == "error" and not self._is_description(fault)

    def _run_stages(self, codes: Sequence[str], *, wide: bool = False) -> None:
        """Run the stages that can check some of the codes, until one establishes a cause."""
        for stage in self.stages:
            known = self.checked | {
                code for record in self.records if stage.name in record.name for code in record.asked
            }
            asked = [code for code in codes if code not in known and self._fits(code, stage)]
            if self._is_established() or not asked or (wide and stage.name in FOR_SYMPTOM_ONLY):
                continue
            start, skipped = time.perf_counter(), ""
            name = f"other {stage.name}" if wide else stage.name
            self.screen.update(replace(self.result().view(), status=f"now: {STAGE_TEXTS[name]}", running=True))
            try:
                report = stage.run(asked)
                self.reports.append(_without_half_checked(report) if stage.name == "quick" else report)
                self.stopped = self.stopped or report.stopped or self.screen.stopped
            except SetupError as error:
                skipped = str(error)
            seconds = time.perf_counter() - start
            self.records.append(StageRecord(name, tuple(asked), seconds, skipped))
            if self.stopped:
                return

    def _fits(self, code: str, stage: Stage) -> bool:
        """Return whether a stage is the cheapest one for a rule, or completes what the quick stage has begun."""
        own = stage_of(code)
        return own == stage.name or (own == "quick" and stage.name == "standard" and has_slow_parts(code))

    def result(self) -> Triage:
        """Return what is known so far.

        Findings beyond the causes of the symptom count only if they are errors, or rank above the first error.
        """
        faults, causes, established = self.faults, self.symptom.causes, self._is_established()
        states = [self._state(cause, faults) for cause in causes]
        named = {id(fault) for state in states for fault in state.findings}
        first = next((rank for rank, fault in enumerate(faults) if self._is_cause(fault)), len(faults))
        others = [f for rank, f in enumerate(faults) if id(f) not in named and (rank < first or self._is_cause(f))]
        states += [CauseState(_rule_title(fault), 0.0, "found", (fault,)) for fault in others]
        ranks = {id(fault): rank for rank, fault in enumerate(faults)}
        found = sorted(
            (state for state in states if state.status == "found"),
            key=lambda state: min(ranks[id(finding)] for finding in state.findings),
        )
        is_open = sorted((state for state in states if state.status == "open"), key=lambda state: -state.prior)
        ruled_out = [state for state in states if state.status == "ruled out"]
        return Triage(
            symptom=self.symptom.description,
            patterns=tuple(pattern.name for pattern in self.symptom.patterns),
            states=(*found, *is_open, *ruled_out),
            stages=tuple(self.records),
            next_test=self._next_test(is_open) if not established else "",
            established=established,
            stopped=self.stopped,
        )

    def _state(self, cause: SymptomCause, faults: list[Finding]) -> CauseState:
        """Return what is known of a cause: found, ruled out, or open with the reason."""
        codes = expand_codes(cause.codes)
        findings = tuple(fault for fault in faults if fault.code in codes)
        if findings:
            return CauseState(cause.name, cause.prior, "found", findings)
        unchecked = [code for code in codes if not self._is_decided(code)]
        if codes and not unchecked:
            return CauseState(cause.name, cause.prior, "ruled out", codes=tuple(codes))
        stages = list(dict.fromkeys("watch" if code in self.checked else stage_of(code) for code in unchecked))
        tests = [cause.test, *map(test_of_stage, stages)]
        test = next(filter(None, tests), "")
        why = self._reason(unchecked)
        return CauseState(cause.name, cause.prior, "open", codes=tuple(unchecked), test=test, why=why)

    def _is_decided(self, code: str) -> bool:
        """Return whether a rule was checked with all that it can read, or does not apply to this setup."""
        if code in self.checked:
            return self.has_run or not reads_run(code)
        reason = self._reason([code])
        return bool(reason) and reason != TOO_SLOW_FOR_QUICK and not reason.startswith("needs ")

    def _reason(self, codes: Sequence[str]) -> str:
        """Return why the first of some rules was not checked."""
        reasons = {item.code: item.why for report in self.reports for item in report.not_checked}
        return next((reasons[code] for code in codes if code in reasons), "")

    def _next_test(self, is_open: Sequence[CauseState]) -> str:
        """Return the test that decides the largest share of the open causes."""
        weights: dict[str, float] = {}
        for state in is_open:
            if state.test:
                weights[state.test] = weights.get(state.test, 0.0) + state.prior
        return max(weights, key=lambda test: weights[test]) if weights else ""


def _without_half_checked(report: Report) -> Report:
    """Return a report that counts a rule without a finding as checked only if it could read all that it reads."""
    codes = {finding.code for finding in report}
    complete = frozenset(code for code in report.checked_rules if code in codes or not has_slow_parts(code))
    return replace(report, checked_rules=complete)


def _rule_title(fault: Finding) -> str:
    """Return the first sentence of the page of a rule as a clause."""
    rule = rule_registry.load_rules().get(fault.code)
    title = rule.page.partition("\n")[0].rstrip(".") if rule else fault.name
    return title[:1].lower() + title[1:]
