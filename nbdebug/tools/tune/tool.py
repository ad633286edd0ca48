"""Search settings by short trials on copies, and confirm the best ones by longer runs with matched seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.parallel import Backend, Pool, Workers, choose_workers, open_pool
from nbdebug.report import Report
from nbdebug.rule_engine.checkup import checkup
from nbdebug.setup import Setup
from nbdebug.setup.loaders import batch_count
from nbdebug.statistics.paired_differences import paired_difference
from nbdebug.tools.try_fix.arms import Arm, ArmRunner, score_differences
from nbdebug.tools.try_fix.run_score import OwnScore
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.tools.tune.result import Tuning, TuningVerdict, build_view
from nbdebug.tools.tune.space import parse_space
from nbdebug.tools.tune.study import (
    SAMPLERS,
    MedianRule,
    Sampler,
    TrialOutcome,
    draw_trial,
    end_trial,
    import_optuna,
    open_study,
    quiet_optuna,
    trial_limit,
    tried,
)
from nbdebug.tools.tune.trial import TrialTask
from nbdebug.validation import check_whole_number, validate_choice
from nbdebug.views.live import LiveScreen, Screen, show_view
from nbdebug.views.page import View

_MAX_TRIALS = 10_000
_LONGER = 4  # the confirmation takes so many times the steps of a trial, and at least an epoch


def tune(
    setup: Setup,
    space: Mapping[Any, Any],
    budget: int = 30,
    *,
    sampler: Sampler = "tpe",
    steps: int = 150,
    seeds: int = 5,
    score: OwnScore | None = None,
    path: str | Path | None = None,
    workers: int | None = None,
    backend: Backend | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
) -> Tuning:
    """Search a space by ``budget`` trials on copies, then train with the best and with the present settings.

    The trials have the same seed and batches. One ends early if a rule on its loss curve finds an error, or if its
    score is below the median. With ``path``, a search that was ended goes on where it was. ``workers`` run so many
    trials at the same time, which do not learn from each other. ``on_report`` receives the checkup that precedes the
    search. Nothing of the user's is changed. Raises SetupError if the checkup finds an error, for a space that cannot
    be searched, and for a setup that cannot be run.
    """
    validate_choice("sampler", sampler, SAMPLERS)
    check_whole_number("budget", budget, 1, _MAX_TRIALS)
    settings = parse_space(space)
    import_optuna()
    pool_workers = choose_workers(backend, workers)
    run_score, in_place = prepare_experiment(setup, steps, seeds, score, pool_workers)
    task = TrialTask(setup, settings, run_score, steps, in_place)
    search = _Search(task, trial_limit(settings, sampler, budget), seeds, pool_workers)
    with show_view(search.view("checkup")) as screen, quiet_optuna():
        search.screen = screen
        report = checkup(setup, on_report)
        _check_clean(report)
        search.prepare(report)
        at_once = pool_workers.count if pool_workers is not None else 1
        search.study = open_study(settings, sampler, path, (run_score.metric, f"{steps} steps"), at_once)
        search.path = str(path or "")
        search.run()
        result = search.result()
        screen.finish(result)
    return result


def _check_clean(report: Report) -> None:
    """Raise SetupError if a checkup found errors, around which a search would only find its way."""
    if codes := [finding.code for finding in report if finding.severity == "error"]:
        raise SetupError(
            f"the checkup found {', '.join(codes)}; expected no error before a search. Fix it first: dbg.findings."
        )


class _Search:
    """The trials of a search, and its confirmation."""

    def __init__(self, task: TrialTask, budget: int, seeds: int, workers: Workers | None) -> None:
        self.task, self.budget, self.seeds, self.workers = task, budget, seeds, workers
        self.study: Any = None
        self.screen = Screen()
        self.runner: ArmRunner | None = None
        self.path, self.stopped = "", False
        self.notes: list[str] = []
        self.started = time.perf_counter()

    def prepare(self, report: Report) -> None:
        """Note the outcome of the checkup, and check that each setting changes the setup."""
        warnings = sorted({finding.code for finding in report if finding.severity == "warning"})
        also = f", and the warnings {', '.join(warnings)}" if warnings else ""
        self.notes.append(f"the checkup before the search found no error in {len(report.checked_rules)} rules{also}")
        for setting in self.task.settings:
            if not self.task.is_altered_by(setting):
                raise SetupError(
                    f"the setting {setting.name!r} does not alter this setup; expected one that does. Leave it out."
                )

    def run(self) -> None:
        """Run the trials that are left, then the confirmation; an interrupt acts as Stop in a notebook."""
        try:
            if self.workers is None:
                self._run_trials(self._run_here, at_once=1)
                self._confirm()
            else:
                with open_pool(self.task, self.workers) as pool:
                    self._run_trials(partial(self._run_in_pool, pool), self.workers.count)
                    self._confirm()
        except KeyboardInterrupt:
            if not self.stopped and not isinstance(self.screen, LiveScreen):
                raise
            self.stopped = True

    def _run_trials(
        self, run_tasks: Callable[[list[Any], Callable[[int, TrialOutcome], None]], None], at_once: int
    ) -> None:
        """Run rounds of trials that are drawn together, so that the search does not depend on which ends first."""
        while (missing := self.budget - len(tried(self.study))) > 0:
            drawn = [draw_trial(self.study, self.task.settings) for _ in range(min(missing, at_once))]
            median_rule = MedianRule.of_study(self.study)
            unfinished = {number: trial for number, (trial, _) in enumerate(drawn)}

            def keep(number: int, outcome: TrialOutcome, unfinished: dict[int, Any] = unfinished) -> None:
                end_trial(self.study, unfinished[number], outcome)
                del unfinished[number]
                self.screen.update(self.view(f"{len(tried(self.study))} of {self.budget} trials"))

            try:
                run_tasks([(values, median_rule) for _, values in drawn], keep)
            finally:
                for trial in unfinished.values():  # so that they do not count, also when the search is resumed
                    end_trial(self.study, trial, None)

    def _run_here(self, items: list[Any], keep: Callable[[int, TrialOutcome], None]) -> None:
        task = replace(self.task, check_stop=self._check_stop)
        for number, item in enumerate(items):
            keep(number, task(item))

    def _run_in_pool(self, pool: Pool, items: list[Any], keep: Callable[[int, TrialOutcome], None]) -> None:
        pool.run(items, keep, lambda: self.screen.stopped)
        self._check_stop()

    def _check_stop(self) -> None:
        if self.screen.stopped:
            self.stopped = True
            raise KeyboardInterrupt

    def _confirm(self) -> None:
        """Train longer, over the whole training set, with the present and with the best settings."""
        best, task = self.result().best, self.task
        if best is None:
            return
        changes, score = tuple(task.changes(best.values)), task.run_score
        steps = max(_LONGER * task.steps, batch_count(task.setup.train_loader) or 0)
        arms = Arm("present settings", (), score), Arm("best settings", changes, score.for_change())
        self.runner = ArmRunner(task.setup, arms, steps, self.seeds, task.in_place, self.workers)
        self.runner.run(self.screen, self.view)
        self.stopped = self.runner.stopped

    def view(self, status: str) -> View:
        """Return the view of what is known so far."""
        return build_view(self.result(), status)

    def result(self) -> Tuning:
        """Return the trials so far, and the confirmation if it has run."""
        before, after = (tuple(arm.runs) for arm in self.runner.arms) if self.runner is not None else ((), ())
        difference = paired_difference(score_differences(before, after) if len(before) == len(after) else np.zeros(0))
        verdict: TuningVerdict = "stopped"
        if difference.pairs > 1:
            verdict = "better" if difference.sign > 0 else "worse" if difference.sign < 0 else "no better"
        steps = self.runner.steps if self.runner is not None else 0
        result = Tuning(
            verdict,
            headline="",
            trials=tuple(tried(self.study)),
            difference=difference,
            before=before,
            after=after,
            metric=self.task.run_score.metric,
            steps=self.task.steps,
            path=self.path,
            notes=(*self.notes, "the validation samples chose these settings: test them on samples that took no part"),
            seconds=time.perf_counter() - self.started,
        )
        codes = [change.code for change in self.task.changes(result.best.values)] if result.best is not None else []
        return replace(result, headline=_headline(result, steps), code="\n".join(filter(None, codes)))


def _headline(result: Tuning, steps: int) -> str:
    """Return the best settings and what they gain."""
    best = result.best
    if best is None:
        return f"None of {len(result.trials)} trials was completed."
    if result.difference.pairs < 2:
        return f"Stopped; so far the best of {len(result.trials)} trials is {best.text}."
    before, after = (float(np.mean([run.score for run in runs])) for runs in (result.before, result.after))
    return (
        f"With {best.text}, the {result.metric} after {steps} steps is {after:.3g} instead of {before:.3g}. "
        f"The paired difference is {result.difference}."
    )
