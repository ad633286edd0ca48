"""Search settings by short trials on copies, and confirm the best ones by longer runs with matched seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.history import diagnose
from nbdebug.report import Report
from nbdebug.rule_engine.checkup import checkup
from nbdebug.setup import Setup
from nbdebug.setup.loaders import batch_count
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.statistics.paired_differences import paired_difference
from nbdebug.tools.try_fix.arms import Arm, ArmRunner, score_differences
from nbdebug.tools.try_fix.change import SetupChange
from nbdebug.tools.try_fix.matched_run import MatchedRun, changed_copy, train_copy
from nbdebug.tools.try_fix.run_score import OwnScore, RunScore
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.tools.tune.result import Tuning, TuningVerdict, build_view
from nbdebug.tools.tune.space import Setting, parse_space
from nbdebug.tools.tune.study import REASON, SAMPLERS, VALUES, Sampler, import_optuna, open_study, quiet_optuna, tried
from nbdebug.validation import check_whole_number, validate_choice
from nbdebug.views.live import LiveScreen, Screen, show_view
from nbdebug.views.page import View

_MAX_TRIALS = 10_000
_SEARCH_SEED = 1_000  # another one than those of the confirmation
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
    on_report: Callable[[Report], None] = lambda report: None,
) -> Tuning:
    """Search a space by ``budget`` trials on copies, then train with the best and with the present settings.

    The trials have the same seed and batches. One ends early if a rule on its loss curve finds an error, or if its
    score is below the median. With ``path``, a search that was ended goes on where it was. ``on_report`` receives the
    checkup that precedes it. Nothing of the user's is changed. Raises SetupError if the checkup finds an error, for a
    space that cannot be searched, and for a setup that cannot be run.
    """
    validate_choice("sampler", sampler, SAMPLERS)
    check_whole_number("budget", budget, 1, _MAX_TRIALS)
    settings = parse_space(space)
    import_optuna()
    run_score, in_place = prepare_experiment(setup, steps, seeds, score)
    search = _Search(setup, settings, budget, steps, seeds, run_score, in_place)
    with show_view(search.view("checkup")) as screen, quiet_optuna():
        search.screen = screen
        report = checkup(setup, on_report)
        _check_clean(report)
        search.prepare(report)
        search.study = open_study(settings, sampler, path, (run_score.metric, f"{steps} steps"))
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

    def __init__(
        self,
        setup: Setup,
        settings: tuple[Setting, ...],
        budget: int,
        steps: int,
        seeds: int,
        run_score: RunScore,
        in_place: bool,
    ) -> None:
        self.setup, self.settings, self.budget, self.steps, self.seeds = setup, settings, budget, steps, seeds
        self.run_score, self.in_place = run_score, in_place
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
        for setting in self.settings:
            with self._copy(()) as treated, UserCodeErrors(lambda name=setting.name: f"in the setting {name!r}"):  # type: ignore[misc]
                if not setting.alters(treated):
                    raise SetupError(
                        f"the setting {setting.name!r} does not alter this setup; expected one that does. Leave it out."
                    )

    def _copy(self, changes: tuple[SetupChange, ...]) -> Any:
        score = self.run_score
        return changed_copy(self.setup, changes, score.batches, score.loss_kind, _SEARCH_SEED, self.in_place)

    def run(self) -> None:
        """Run the trials that are left, then the confirmation; an interrupt acts as Stop in a notebook."""
        try:
            missing = self.budget - len(tried(self.study))
            if missing > 0:
                self.study.optimize(self._run_trial, n_trials=missing, callbacks=[self._after_trial])
            best = self.result().best
            if best is not None and not self.stopped:
                self._confirm(tuple(self._changes(best.values)))
        except KeyboardInterrupt:
            if not self.stopped and not isinstance(self.screen, LiveScreen):
                raise
            self.stopped = True

    def _run_trial(self, trial: Any) -> float:
        values = {setting.name: setting.suggest(trial) for setting in self.settings}
        trial.set_user_attr(VALUES, values)
        reported = 0

        def should_stop(run: MatchedRun) -> bool:
            nonlocal reported
            if self.screen.stopped:
                self.stopped = True
                raise KeyboardInterrupt  # so that the trial does not count, also when the search is resumed
            if len(run.scores) == reported:
                return False
            reported = len(run.scores)
            trial.report(run.scores[-1], run.steps[-1])
            error = _find_error(run.losses) if len(run.losses) >= self.steps / 2 else ""
            reason = error or ("below the median" if trial.should_prune() else "")
            if reason:
                trial.set_user_attr(REASON, reason)
            return bool(reason)

        with self._copy(tuple(self._changes(values))) as treated, UserCodeErrors(lambda: "in a trial"):
            run = train_copy(treated, self.run_score.for_change(), _SEARCH_SEED, self.steps, should_stop)
        if run.ended == "diverged":
            trial.set_user_attr(REASON, "the loss is not finite")
        if run.ended != "finished":
            raise import_optuna().TrialPruned
        return run.score

    def _changes(self, values: Mapping[str, Any]) -> Iterator[SetupChange]:
        for setting in self.settings:
            yield setting.change_to(values[setting.name])

    def _after_trial(self, study: Any, trial: Any) -> None:
        self.screen.update(self.view(f"{len(tried(study))} of {self.budget} trials"))

    def _confirm(self, changes: tuple[SetupChange, ...]) -> None:
        """Train longer, over the whole training set, with the present and with the best settings."""
        steps = max(_LONGER * self.steps, batch_count(self.setup.train_loader) or 0)
        arms = Arm("present settings", (), self.run_score), Arm("best settings", changes, self.run_score.for_change())
        self.runner = ArmRunner(self.setup, arms, steps, self.seeds, self.in_place)
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
            metric=self.run_score.metric,
            steps=self.steps,
            path=self.path,
            notes=(*self.notes, "the validation samples chose these settings: test them on samples that took no part"),
            seconds=time.perf_counter() - self.started,
        )
        codes = [change.code for change in self._changes(result.best.values)] if result.best is not None else []
        return replace(result, headline=_headline(result, steps), code="\n".join(filter(None, codes)))


def _find_error(losses: list[float]) -> str:
    """Return the code of the first error that the rules on curves find in the losses of a trial; "" without one."""
    history = {"step": range(1, len(losses) + 1), "loss": losses}
    return next((finding.code for finding in diagnose(history) if finding.severity == "error"), "")


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
