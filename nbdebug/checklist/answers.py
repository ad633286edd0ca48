"""Answers of the steps of a checklist, read from the results that a Debugger has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from nbdebug.checklist.steps import STEPS, Step
from nbdebug.finding import Finding
from nbdebug.journal import Journal
from nbdebug.report import Report
from nbdebug.result import Result, headline_of

Status = Literal["good", "note", "warning", "error", "skipped", "open"]
SIGNS: dict[Status, str] = {"good": "✓", "note": "●", "warning": "▲", "error": "✕", "skipped": "–", "open": "○"}
_MAX_FINDINGS = 5


class GuidedDebugger(Protocol):
    """The part of a Debugger that a guide uses, beside the tools that the steps name."""

    results: dict[str, Result]
    watched: Any

    @property
    def reports(self) -> Mapping[str, Report]:
        """The report on the result of each tool that the rules judge."""

    @property
    def journal(self) -> Journal:
        """The journal."""


@dataclass(frozen=True)
class StepAnswer:
    """The last answer of a tool: its headline, its whole text, and the findings on it, by rank.

    ``verdict`` is that of the worst finding, "good" without one, and "note" for a tool that no rule judges.
    """

    verdict: Status
    headline: str
    text: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class StepProgress:
    """A step, its status, and its answer if it is done; ``headline`` may also be that of an exported answer."""

    step: Step
    status: Status
    headline: str
    answer: StepAnswer | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings on the answer."""
        return self.answer.findings if self.answer is not None else ()

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, each once."""
        return list(dict.fromkeys(finding.code for finding in self.findings))

    @property
    def meaning(self) -> str:
        """What the answer means, and what to do next; empty for a step that is not done."""
        if self.answer is None:
            return "This answer was exported to the journal before. Run the step again." if self.headline else ""
        return self.step.faulty if self.status in ("warning", "error") and self.step.faulty else self.step.clear


def read_answers(debugger: GuidedDebugger) -> dict[str, StepAnswer]:
    """Return the answer of each step of which the Debugger has a result, by the name of the step."""
    results = {step.name: last_result(debugger, step) for step in STEPS}
    return {
        name: _read_answer(name, result, debugger.reports.get(name))
        for name, result in results.items()
        if result is not None  # a report without findings is false
    }


def last_result(debugger: GuidedDebugger, step: Step) -> Result | None:
    """Return the last result of the tool of a step, or None."""
    if step.loop:
        return debugger.watched.result if debugger.watched is not None else None
    # A run also leaves reports of tools, on its tests of the trained model; only that of a checkup is its result.
    return debugger.reports.get(step.name) if step.name == "checkup" else debugger.results.get(step.name)


def _read_answer(name: str, result: Result, report: Report | None) -> StepAnswer:
    """Return the answer of a tool from its result and the report on it."""
    verdict: Status = "note"
    if report is not None:
        severities = {fault.severity for fault in report.faults}
        verdict = "error" if "error" in severities else "warning" if severities else "good"
    findings = report.with_stated_consequences().findings[:_MAX_FINDINGS] if report is not None else ()
    return StepAnswer(verdict, headline_of(name, result), result.to_text(), tuple(findings))
