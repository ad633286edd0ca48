"""Base class of the tool methods: it runs a tool on the setup and stores its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from nbdebug.distributed.parallel_models import find_pipeline_stages
from nbdebug.journal import Journal
from nbdebug.journal.settings import describe_settings
from nbdebug.report import Report, ReportLog
from nbdebug.result import Result, headline_of
from nbdebug.rule_engine import checkup as checkups
from nbdebug.setup import Setup
from nbdebug.setup.notebook_names import NotebookNames
from nbdebug.watching.watch import Watch

if TYPE_CHECKING:
    from nbdebug.tools.provenance.state_history import StateHistory

_AnyResult = TypeVar("_AnyResult", bound=Result)


class ToolRunner:
    """The setup and the results of its tools."""

    setup: Setup
    reports: ReportLog
    results: dict[str, Result]
    watched: Watch | None
    state_history: StateHistory | None
    log: list[str]
    notebook_names: NotebookNames
    _journal: Journal | None = None

    if TYPE_CHECKING:  # the Debugger defines it

        @property
        def findings(self) -> Report:
            """All findings so far."""

    @property
    def journal(self) -> Journal:
        """The journal of this Debugger: problem, hypotheses, experiments and results; off until ``open(path)``."""
        if self._journal is None:
            self._journal = Journal()
        return self._journal

    def _note(self, name: str, result: Result) -> None:
        """Add the headline of a result to the journal, if it is open, and the experiment that a trial is."""
        if self.journal.is_open:
            self.journal.add_result(name, headline_of(name, result), describe_settings(self.setup))
            if experiment := getattr(result, "experiment", None):
                self.journal.experiment(**experiment)

    def _use_setup(self) -> Setup:
        """Return the setup for a tool, after saying so if its names in the notebook hold other objects now."""
        if (notice := self.notebook_names.notice(self)) is not None:
            print(notice)
        find_pipeline_stages()
        return self.setup

    def _keep(self, name: str, result: _AnyResult, *, judge: bool = True) -> _AnyResult:
        self.results[name] = result
        self._note(name, result)
        if judge:
            self.reports[name] = checkups.judge_result(self.setup, **{name: result})
        return result


def without_self(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method without its object."""
    return {name: value for name, value in arguments.items() if name != "self"}
