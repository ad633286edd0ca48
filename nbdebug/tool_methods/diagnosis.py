"""Tools that lead from a symptom to its cause, and report it, as methods of a Debugger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbdebug.options import check_option_names
from nbdebug.report import Report, merge_reports
from nbdebug.rule_engine import checkup as checkups
from nbdebug.tool_methods.performance import PerformanceMethods
from nbdebug.tool_methods.training import TrainingMethods
from nbdebug.views.live import show_view

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.checklist import Guide
    from nbdebug.triage import SymptomPattern, Triage


class DiagnosisMethods(TrainingMethods, PerformanceMethods):
    """Tools that run other tools of the setup, or collect their results."""

    _guide: Guide | None = None

    @check_option_names()
    def triage(
        self, symptom: Any = None, *, patterns: Sequence[SymptomPattern] = (), treatments: bool = False
    ) -> Triage:
        """Find the cause of a symptom: run the checks that tell its causes apart, cheapest first.

        Results that exist are read first, such as those of a checkup or of a watched loop. Raises SetupError for a
        symptom that is not recognized.

        Args:
            symptom: The symptom by name ("loss-flat", "nan", "stuck-at-chance", "overfits", "validation-better",
                "falls-then-spikes", "constant-output", "both-poor", "useless-accuracy", "slow", "memory-grows",
                "worse-in-deployment", "slow-learning"), in words, or a history as ``nbdebug.diagnose`` reads it; by
                default that of the watched run.
            patterns: Your own patterns, which come before those of nbdebug.
            treatments: Also try treatments on copies, which takes minutes, if the cheaper checks establish nothing.
        """
        from nbdebug.triage.investigation import Investigation
        from nbdebug.triage.pattern import check_patterns, load_patterns
        from nbdebug.triage.stages import COST_ORDER, Stage
        from nbdebug.triage.symptom import recognize_symptom

        self._use_setup()
        run_codes = [finding.code for finding in self.reports["watch"].faults] if "watch" in self.reports else []
        recognized = recognize_symptom(symptom, (*check_patterns(patterns), *load_patterns()), run_codes)
        runs = {
            "quick": lambda codes: self._check(codes, "quick"),
            "standard": lambda codes: self._check(codes, "standard"),
            "overfit": lambda codes: self._judged("overfit", self.overfit),
            "profile": lambda codes: self._judged("profile", self.profile),
            "treatments": lambda codes: self._judged("treatments", self.treatments),
        }
        names = [name for name in COST_ORDER if treatments or name != "treatments"]
        stages = [Stage(name, runs[name]) for name in names]
        has_run = "watch" in self.reports
        investigation = Investigation(recognized, stages, list(self.reports.values()), has_run)
        with show_view(replace(investigation.result().view(), running=True)) as screen:
            result = investigation.run(screen)
            screen.finish(result)
        return self._keep("triage", result, judge=False)

    def guide(self) -> Guide:
        """Return the guide: a checklist that is walked on this setup, one tool a step.

        Every call returns the same guide, which knows where you were. If the journal is open, a guide that an earlier
        session exported goes on.
        """
        from nbdebug.checklist import Guide

        self._use_setup()
        if self._guide is None:
            self._guide = Guide(self)
        return self._guide

    @check_option_names()
    def report(self, path: str | Path = "report.html", *, samples: bool = False) -> Path:
        """Write a report of all findings and results to a file, and return its path.

        The file is self-contained and readable without scripts. Raises SetupError for an unknown suffix or a file that
        cannot be written.

        Args:
            path: The file: ``.html``, ``.md`` or ``.ipynb``.
            samples: Include texts and pictures that quote samples of the data, which may be private.
        """
        from nbdebug.run_report import Subject, collect_sections, write_report

        results = dict(self.results)
        if self.watched is not None and self.watched.result is not None:
            results["watch"] = self.watched.result
        journal = self.journal.to_text() if self.journal.entries else ""
        subject = Subject(self.setup, self.findings, results, journal)
        title = f"Training report: {type(self.setup.eager_model).__name__}"
        return write_report(path, collect_sections(subject, samples=samples), title)

    def _check(self, codes: Sequence[str], budget: Any) -> Report:
        """Run a checkup of some rules, and add its report to those of earlier ones."""
        reports: list[Report] = []
        report = checkups.checkup(self.setup, reports.append, budget=budget, select=codes)
        name = f"triage {budget}"
        self.reports[name] = merge_reports([self.reports[name], report]) if name in self.reports else report
        return report

    def _judged(self, name: str, tool: Callable[[], Any]) -> Report:
        """Run a tool, and return the report on its result."""
        tool()
        return self.reports[name]
