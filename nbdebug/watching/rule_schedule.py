"""Schedule of the rules during a watched run, one rule at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import chain

import numpy.ma  # noqa: F401  np.unique loads it at its first call, which would fall into a step of the loop

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.report import Report, rank_findings
from nbdebug.rule_engine.rule_registry import Rule
from nbdebug.rule_engine.rule_selection import effective_options, project_rules

FINDINGS_TITLE = "Findings of this run"
_ROUND_SECONDS = 3.0
_TIME_SHARE = 0.0025  # of the run time
_MIN_STEPS = 20


class RuleSchedule:
    """Runs every rule that needs only the record, again every few seconds, in at most 1/400 of the run time.

    ``findings_by_code`` holds the findings of the last round by code, and ``report`` all of them; ``on_new_finding`` is
    called with each new finding.
    """

    def __init__(self, record: Record, on_new_finding: Callable[[Finding], None]) -> None:
        self.record, self.on_new_finding = record, on_new_finding
        self.rules = _rules_on_records()
        self.queue: deque[Rule] = deque()
        self.findings_by_code: dict[str, list[Finding]] = {}
        self.report = Report()
        self.reported: set[tuple[str, str]] = set()
        self.round_started = self.started = time.perf_counter()
        self.spent_seconds = 0.0

    def advance(self, step: int) -> None:
        """Run the next rule if it is due and the time budget allows it."""
        now = time.perf_counter()
        if self.spent_seconds > _TIME_SHARE * (now - self.started) or step < _MIN_STEPS:
            return
        if not self.queue and now - self.round_started >= _ROUND_SECONDS:
            self.queue.extend(self.rules)
            self.round_started = now
        if self.queue:
            self.run_rule(self.queue.popleft(), step)
            self.spent_seconds += time.perf_counter() - now

    def run_rule(self, rule: Rule, step: int) -> None:
        """Run one rule and record each new finding as an event."""
        findings = _judge(rule, self.record)
        self.findings_by_code[rule.code] = findings
        self.report = Report(rank_findings(chain.from_iterable(self.findings_by_code.values())))
        for finding in findings:
            key = finding.code, finding.where.module or finding.where.parameter or ""
            if key not in self.reported:
                self.reported.add(key)
                self.record.add_event(step, "finding", f"{finding.code} {finding.name}")
                self.on_new_finding(finding)


def judge_record(record: Record) -> Report:
    """Return the findings of every rule that needs only a record."""
    findings = rank_findings(finding for rule in _rules_on_records() for finding in _judge(rule, record))
    return Report(findings, title=FINDINGS_TITLE)


def _judge(rule: Rule, record: Record) -> list[Finding]:
    unavailable = dict.fromkeys(rule.needs, NotChecked("the loop still runs"))
    try:
        return rule({**unavailable, "record": record}, **effective_options({}).get(rule.code, {}))
    except (NotChecked, SetupError):
        return []


def _rules_on_records() -> list[Rule]:
    return [rule for rule in project_rules() if "record" in rule.needs and _needs_only_record(rule)]


def _needs_only_record(rule: Rule) -> bool:
    return all(name == "record" or name in rule.optional for name in rule.needs)
