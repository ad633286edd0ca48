"""The block around the user's own training loop, with its live controls."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Literal

from nbdebug.distributed.parallel_models import shard_access
from nbdebug.distributed.rank_group import RankGroup
from nbdebug.distributed.rank_report import RankReport, RankReports
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import disproved_assumptions
from nbdebug.loop_monitor.summary import LoopSummary, summarize_loop
from nbdebug.options import StopOn
from nbdebug.records import Record
from nbdebug.replay import Replay, freeze_abandoned_pass, replay
from nbdebug.report import Report, ReportLog, merge_reports, rank_findings
from nbdebug.rule_engine.checkup import judge_batches, judge_call, judge_heads, judge_run, locate_findings
from nbdebug.rule_engine.crash_rules import explain_crash
from nbdebug.rule_engine.predictions import disproved_predictions
from nbdebug.rule_engine.rule_selection import check_project_settings
from nbdebug.setup import Setup
from nbdebug.setup.notebook_names import RebindingNotice
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tools.clip_threshold import ClipThreshold, clip_threshold
from nbdebug.views.live import LiveScreen, display_result, print_in_script, show_view
from nbdebug.watching.optimizer_steps import Match
from nbdebug.watching.other_models import OptimizedModels
from nbdebug.watching.rank_watch import RankWatch, merge_rank_findings, reduce_norms
from nbdebug.watching.result import WatchResult, describe_cost, run_view
from nbdebug.watching.rule_schedule import FINDINGS_TITLE, RuleSchedule
from nbdebug.watching.run_controls import RunControls, RunStopped
from nbdebug.watching.run_outputs import SAVE_SECONDS, RunOutputs
from nbdebug.watching.session import WatchSession
from nbdebug.watching.time_budget import TimeBudget

_IGNORED_OUTPUTS = "L214"  # other backward passes of the same step may use these outputs
MIN_REFRESH_SECONDS = 0.05


class Watch:
    """A block around the user's own training loop; its ``result`` is available when the block ends.

    The reports of the rules, and those of each test of the trained model, are added to ``reports``; rules that a
    checkup in there has checked are not asked again. The other options are those of ``Debugger.watch``. What cannot be
    watched is reported in the result and never raises inside the loop.
    """

    def __init__(
        self,
        setup: Setup,
        reports: ReportLog | None = None,
        *,
        budget: float | None = None,
        every: int | None = None,
        match: Match = None,
        save: str | Path | None = None,
        trackers: Any = (),
        stop_on: StopOn | None = None,
        on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None,
        final_tests: bool = True,
        notice: RebindingNotice | None = None,
    ) -> None:
        check_project_settings()  # not when the loop runs
        self.setup, self.match, self.final_tests = setup, match, final_tests
        self.reports = ReportLog() if reports is None else reports
        self.time_budget = TimeBudget(budget, every)
        self.outputs = RunOutputs(save, trackers)
        self.controls = RunControls(setup, self.clicks, stop_on, on_finding)
        self.result: WatchResult | None = None
        self.on_result: Callable[[WatchResult], None] | None = None
        self.on_stop: Callable[[], None] | None = None  # ends the loop of a trainer, which an interrupt would kill
        self.is_stopped = False
        self.session: WatchSession | None = None
        self.next_refresh, self.has_new_rows = 0.0, False
        self.test_seconds, self.tests_interrupted = 0.0, False
        self.record = Record()
        self.replay_result: Replay | None = None
        self.optimized_models, self.warning = OptimizedModels(setup.eager_model, notice), ""
        self.crash_id, self.crashed_step = 0, 0
        self.group, self.line = RankGroup.current(), get_calling_line(sys._getframe(1))
        self.rank_watch: RankWatch | None = None
        self.rank_report: RankReport | None = None
        self.ranks: RankReports | None = None

    def __repr__(self) -> str:
        if self.result is not None:
            return f"<Watch: {self.result.steps} steps; see .result>"
        return "<Watch: running>" if self.session is not None else "<Watch: not started>"

    def _ipython_display_(self) -> None:
        """Display the result, or the live view while the loop runs."""
        if self.result is not None:
            self.result._ipython_display_()
        elif self.session is not None:
            self.screen.show()
        else:
            print(repr(self))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy of a finished run has: result, record and replay, without the user's objects."""
        if self.result is None:
            raise SetupError(f"run is {self!r}; expected one that has ended. Pickle it after its block.")
        kept = {"result": self.result, "record": self.record, "replay_result": self.replay_result}
        return {**kept, "setup": None, "session": None}

    def __enter__(self) -> Watch:
        if self.session is not None or self.result is not None:
            raise SetupError("this watch was already used; expected a new one. Call watch() again for another run.")
        self.time_budget.shard_access = shard_access(self.setup.eager_model)
        with self.time_budget.shard_access():
            self.session = session = WatchSession(self.setup, self.time_budget, self.match)
        self.record = session.record
        self.record.about["run"] = token_hex(6)
        self.rule_schedule = RuleSchedule(self.record, self.controls.new_findings.append)
        self.stack, self.active_hooks = ExitStack(), ExitStack()
        self.outputs.begin(self.record)
        self.view = run_view(self.record, (), "", live=True)
        self.screen = self.stack.enter_context(show_view(self.view, hides_inner=False))
        self.timed_refresh = self.time_budget.timed("live view", self.refresh_view)
        for hook in session.hooks(self.between_steps):
            self.active_hooks.enter_context(hook)
        self.active_hooks.enter_context(self.optimized_models.hook(self.time_budget.guarded))
        self.time_budget.start()
        if self.group is not None:
            self.time_budget.attempt("ranks", self.observe_ranks, self.group)
        return self

    def observe_ranks(self, group: RankGroup) -> None:
        """Observe this loop as that of one rank of a group."""
        self.rank_watch = RankWatch(self.setup, group, self.line)
        for hook in self.rank_watch.hooks(self.time_budget.timed):
            self.active_hooks.enter_context(hook)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Remove the hooks and replace the live view by a static one; exceptions propagate."""
        assert self.session is not None
        overhead = self.time_budget.overhead
        self.active_hooks.close()
        with self.stack, self.time_budget.shard_access():
            self.session.close()
            self.record_non_finite_losses()
            interrupted = self.is_stopped or (kind is not None and issubclass(kind, KeyboardInterrupt))
            if not interrupted:
                self.time_budget.attempt("replay", freeze_abandoned_pass, self.session.ring)
            self.record.about.update(overhead=overhead, finished=True, interrupted=interrupted)
            # The tests would judge the model on data that the loop may no longer use.
            is_outdated = self.optimized_models.notice is not None
            tests_model = self.final_tests and kind is None and not (interrupted or is_outdated)
            self.time_budget.attempt("ranks", self.end_rank, error)
            report = self.add_crash(self.run_rules(test_model=tests_model and self.speaks), error)
            report = self.share_report(report).with_stated_consequences()
            steps = self.session.recorder.step - 1
            loss_only_steps = self.time_budget.loss_only_steps
            self.result = WatchResult(
                self.record,
                steps,
                interrupted,
                overhead,
                report,
                self.error_summary,
                loss_only_steps,
                self.test_seconds,
                self.warning,
            )
            # The findings follow as an output of their own, so that the picture of the run need not show them, too.
            self.screen.finish(self.result, self.result.run_text if report.findings else "")
        self.outputs.finish(self.result, self.time_budget.attempt)
        if self.error_summary != self.result.errors:
            self.result = replace(self.result, errors=self.error_summary)
        if self.on_result is not None:
            self.time_budget.attempt("journal", self.on_result, self.result)
        if self.speaks:
            unmeasured = self.setup.model_part.unmeasured
            text = f"{self.result.headline}\nnot measured: {unmeasured}" if unmeasured else self.result.headline
            print_in_script(text, on_any_rank=True)
        if report.findings:  # those marked in the view, including notes
            display_result(report)
        if self.tests_interrupted:
            raise KeyboardInterrupt
        return isinstance(error, RunStopped)

    @property
    def speaks(self) -> bool:
        """True in a run of one process, and on the rank that reads the reports of all."""
        return self.rank_watch is None or self.rank_watch.reads_all

    def end_rank(self, error: BaseException | None) -> None:
        """Report what this rank has observed, if there are others; the one that reads all waits for their reports."""
        if self.rank_watch is None or self.session is None:
            return
        text = "" if error is None else f"{type(error).__name__}: {error}"
        self.rank_watch.end(text)
        lines = {**self.session.loop_monitor.lines, **self.session.lines}
        self.rank_report = self.rank_watch.report(lines, text, self.record)
        if self.speaks:
            self.ranks = self.rank_watch.collect(self.rank_report)
            reduce_norms(self.record, self.ranks)

    def share_report(self, report: Report) -> Report:
        """Return the findings of all ranks on the one that reads them; any other writes its own."""
        if self.rank_watch is None or self.rank_report is None:
            return report
        if self.ranks is not None:
            return merge_rank_findings(report, self.ranks, self.rank_report.rank)
        self.time_budget.attempt("ranks", self.rank_watch.publish, self.rank_report, report)
        return report

    def add_crash(self, report: Report, error: BaseException | None) -> Report:
        """Return a report with what explains the exception that ends the loop; the error itself is not kept."""
        if not isinstance(error, Exception) or self.session is None:
            return report
        step = self.session.recorder.step
        self.crash_id, self.crashed_step = id(error), step
        crash = explain_crash(error, with_trace=False)
        findings = tuple(
            replace(finding, where=replace(finding.where, step=step), predicts="") for finding in crash.findings
        )
        self.reports["crash"] = replace(Report(), findings=findings, title=FINDINGS_TITLE)
        return replace(report, findings=rank_findings([*findings, *report.findings])) if findings else report

    def between_steps(self) -> None:
        """Process what is due between steps, at most every 50 ms; raise Stopped if the user ends the run."""
        started = time.perf_counter()
        if self.is_stopped or (started < self.next_refresh and not self.controls.stop_reason):
            return
        self.next_refresh = started + MIN_REFRESH_SECONDS
        self.timed_refresh(None)
        started = time.perf_counter()
        try:
            self.controls.apply_requests()
        except RunStopped as reason:
            self.record_notes()
            self.add_event("stopped", f"stopped by {reason}")
            if self.on_stop is None:
                raise
            self.is_stopped = True
            self.on_stop()
        except Exception as error:
            self.time_budget.errors["on_finding"] = f"{type(error).__name__}: {error}"
        self.record_notes()
        self.time_budget.exclude(time.perf_counter() - started)

    def record_notes(self) -> None:
        """Record the actions of the user as events."""
        for text in self.controls.notes:
            self.add_event("note", text)
        self.controls.notes.clear()

    def refresh_view(self, _: None) -> None:
        """Fetch pending numbers, update the view and the file, and run a rule (at another time if steps are short)."""
        assert self.session is not None
        recorder, had_new_rows, started = self.session.recorder, self.has_new_rows, time.perf_counter()
        if started < self.time_budget.display_throttle.next_time and self.time_budget.exceeds_strict_budget(started):
            return
        self.has_new_rows = recorder.fetch_is_due
        if self.has_new_rows:
            self.session.fetch()
            self.record_non_finite_losses()
            self.view.findings = [finding.to_dict() for finding in self.rule_schedule.report]
            self.view.status = (
                f"{recorder.step - 1} steps; "
                f"{describe_cost(self.time_budget.overhead, self.time_budget.loss_only_steps)}"
            )
            self.screen.refresh()
        if had_new_rows or not self.has_new_rows:
            self.time_budget.attempt("rules", self.rule_schedule.advance, recorder.step)
        self.outputs.advance(self.record, self.rule_schedule.report.findings, self.time_budget.attempt)
        now = time.perf_counter()
        self.time_budget.display_throttle.record(now - started, now)
        self.time_budget.display_throttle.next_time = min(
            self.time_budget.display_throttle.next_time, now + SAVE_SECONDS
        )

    def clicks(self) -> list[dict[str, Any]]:
        """Return the clicks since the last call, after acknowledging them in the view."""
        new_clicks = self.screen.clicks()
        for click in new_clicks:
            self.view.answer(click)
        if new_clicks or self.controls.paused:
            self.screen.refresh()
        return new_clicks

    def record_non_finite_losses(self) -> None:
        """Record non-finite losses; on an accelerator their values arrive only now."""
        assert self.session is not None
        non_finite = self.session.recorder.non_finite_losses
        for step, loss in non_finite:
            if not self.record.events_of_kind("nonfinite"):
                self.record.add_event(step, "nonfinite", f"the loss is {loss}")
            if self.session.ring.deferred:
                self.session.ring.on_non_finite(step, loss=loss)
        non_finite.clear()

    def add_event(self, kind: str, text: str) -> None:
        """Record an event at the current step."""
        assert self.session is not None
        self.record.add_event(self.session.recorder.step - 1, kind, text)

    def log(self, **values: float) -> None:
        """Add your own values to the record at the current step: ``run.log(accuracy=0.9)``."""
        if self.session is None:
            raise SetupError("no run is active; expected a call inside `with dbg.watch() as run:`. Log in the loop.")
        row = {name: float(value) for name, value in values.items()}
        self.record.evaluations.append(self.session.recorder.step - 1, row, " ".join(sorted(row)))

    def log_validation_loss(self, loss: float) -> None:
        """Add the loss of a validation pass that has ended, unless its calls of the loss have been recorded."""
        if self.session is not None and not self.session.recorder.evaluation_losses:
            self.session.recorder.evaluation_losses.append(loss)

    @property
    def error_summary(self) -> str:
        """The parts that could not be watched, with the reasons."""
        return "; ".join(f"{activity} ({reason})" for activity, reason in self.time_budget.errors.items())

    @property
    def loss_line(self) -> SourceLine | None:
        """The line that called the loss first, or that computes it if the loss is no module."""
        if self.session is None:
            return None
        return self.session.lines.get("loss") or self.session.loop_monitor.root_variables.lines().get("loss")

    def replay(self) -> Replay | None:
        """Run the first step with a non-finite loss or gradient again; return None if there was none.

        Names the operation (forward or backward), its line and the samples. Does not change your objects.
        """
        incident = self.session.ring.incident if self.session else None
        if incident is None:
            return self.replay_result  # of a pickled run
        if self.replay_result is None or self.replay_result.step != incident.step:
            with self.time_budget.suspended():
                self.replay_result = replay(self.setup, incident)
        return self.replay_result

    def clip_threshold(self) -> ClipThreshold:
        """Return a threshold for gradient clipping, from the gradient norms of this run, with a chart.

        Raises SetupError if too few norms were recorded.
        """
        return clip_threshold(self.record)

    def run_rules(self, test_model: bool) -> Report:
        """Run the rules on the loop, and test the trained model.

        Return an empty report without a backward pass, unless batches of two epochs were drawn that no pass followed.
        """
        session = self.session
        if session is not None:
            self.warning = self.optimized_models.describe_other(session.loop_monitor.has_reached_model)
        if self.warning:
            self.reports.pop("watch", None)
            return Report()
        if session is None or not (session.loop_monitor.steps or session.has_unused_epochs):
            return Report()
        try:
            # The files of the loop are known now; the order of the reports stays.
            self.reports.update({name: locate_findings(self.setup, report) for name, report in self.reports.items()})
            replayed = self.replay()
            loop_summary = summarize_loop(session.loop_monitor, session.recorder.relative_rates())
            checked_rules = self.reports["checkup"].checked_rules if "checkup" in self.reports else ()
            report_of_rules = judge_run(
                self.setup,
                checked_rules,
                session.first_step.call,
                loop=loop_summary,
                record=self.record,
                incident=replayed,
                **({} if self.ranks is None else {"ranks": self.ranks}),
                **({} if test_model else {"decay_balance": NotChecked("the trained model is not tested")}),
            )
            assumptions = disproved_assumptions(loop_summary, self.record) | session.first_step.disproved
            disproved = {**dict.fromkeys(assumptions, ""), **disproved_predictions(self.record)}
            first_step = self.first_step_report()
            own_codes = {finding.code for finding in first_step}
            others = tuple(finding for finding in report_of_rules if finding.code not in own_codes)
            visible_report = replace(report_of_rules, findings=others, disproved=disproved)
            parts = [visible_report, first_step, *([replayed.report] if replayed else [])]
            reports = {"watch": merge_reports(parts)}
        except Exception as error:
            self.time_budget.errors["rules"] = f"{type(error).__name__}: {error}"
            return Report()
        if test_model:
            self.time_budget.attempt("heads", self.judge_first_call, reports)
        if test_model and (self.setup.loss_fn is not None or self.setup.step_fn is not None):
            self.time_budget.attempt("final tests", self.run_final_tests, loop_summary, reports)
        for name, report in reports.items():
            self.reports[name] = replace(report, title=FINDINGS_TITLE)
        return replace(merge_reports(reports.values()), title=FINDINGS_TITLE)

    def judge_first_call(self, reports: dict[str, Report]) -> None:
        """Add the findings on the model as the loop calls it, and on its heads, by the rules that no checkup asked."""
        assert self.session is not None
        first_step, is_partial = self.session.first_step, self.session.step_trace.is_partial
        checked_rules = {code for report in self.reports.values() for code in report.checked_rules}
        known_codes = {finding.code for report in reports.values() for finding in report}
        limit, call = self.time_budget.seconds_per_test, first_step.call
        is_alone = self.setup.loss_fn is not None and "checkup" not in self.reports
        if call is not None:
            reports["call"] = judge_call(call, checked_rules, limit, only_targets=is_alone)
        if is_alone:
            return
        if first_step.heads and not is_partial:
            reports["heads"] = judge_heads(first_step.heads, checked_rules | known_codes, limit)
        if self.session.learned_unpack is not None:
            reports["batches"] = judge_batches(self.setup, checked_rules | known_codes, limit)

    def first_step_report(self) -> Report:
        """Return what the loss of the first step shows, except what the checkup has shown already at a line.

        A note of the checkup leaves out no error or warning: the step has decided what was not known before.
        """
        assert self.session is not None
        known = [finding for report in self.reports.values() for finding in report if finding.where.line is not None]
        left_out = {(finding.code, is_note) for finding in known for is_note in (True, finding.severity == "note")}
        if self.session.step_trace.is_partial:
            left_out |= {(_IGNORED_OUTPUTS, True), (_IGNORED_OUTPUTS, False)}
        report = self.session.first_step.report
        findings = (finding for finding in report if (finding.code, finding.severity == "note") not in left_out)
        # They are observed in the loop, so the loop cannot disprove what a checkup assumes of it.
        return Report(tuple(replace(finding, assumes=()) for finding in findings))

    def run_final_tests(self, loop_summary: LoopSummary, reports: dict[str, Report]) -> None:
        """Test the trained model, and add the reports; an interrupt ends the tests."""
        from nbdebug.watching.final_tests import FinalTests

        assert self.session is not None
        seconds_per_step = self.time_budget.elapsed / max(self.session.recorder.step - 1, 1)
        limit = self.time_budget.seconds_per_test
        optimizer_count = len(self.session.loop_monitor.tracked_optimizers)
        tests = FinalTests(self.setup, self.record, loop_summary, optimizer_count, seconds_per_step, limit)
        try:
            for name, report in tests.run().items():
                if report.checked_rules:
                    reports[name] = report
                else:  # the result of an earlier call of the tool stays
                    reports["watch"] = merge_reports([reports["watch"], report])
        except KeyboardInterrupt:
            self.time_budget.errors["final tests"] = "interrupted"
            self.tests_interrupted = not isinstance(self.screen, LiveScreen)
        self.test_seconds = tests.spent_seconds
