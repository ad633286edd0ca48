"""One trial: a copy with some values is trained, until a rule or the median of earlier trials ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nbdebug.history import diagnose
from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.try_fix.change import SetupChange
from nbdebug.tools.try_fix.matched_run import MatchedRun, changed_copy, train_copy
from nbdebug.tools.try_fix.run_score import RunScore
from nbdebug.tools.tune.space import Setting
from nbdebug.tools.tune.study import MedianRule, TrialOutcome

_SEARCH_SEED = 1_000  # another one than those of the confirmation


@dataclass(frozen=True)
class TrialTask:
    """Runs trials in this process or in a worker; ``check_stop`` raises KeyboardInterrupt to end one."""

    setup: Setup
    settings: tuple[Setting, ...]
    run_score: RunScore
    steps: int
    in_place: bool
    check_stop: Callable[[], None] = lambda: None

    def __call__(self, trial: tuple[Mapping[str, Any], MedianRule]) -> TrialOutcome:
        """Train a copy with the values of a trial, and compare its scores with those of trials before it."""
        values, median_rule = trial
        is_below_median = median_rule.start()
        scores: dict[int, float] = {}
        reported, pruned = 0, ""

        def should_stop(run: MatchedRun) -> bool:
            nonlocal reported, pruned
            self.check_stop()
            if len(run.scores) == reported:
                return False
            reported, scores[run.steps[-1]] = len(run.scores), run.scores[-1]
            error = _find_error(run.losses) if len(run.losses) >= self.steps / 2 else ""
            is_below = is_below_median(run.steps[-1], run.scores[-1])
            pruned = error or ("below the median" if is_below else "")
            return bool(pruned)

        with self.copy(tuple(self.changes(values))) as treated, UserCodeErrors(lambda: "in a trial"):
            run = train_copy(treated, self.run_score.for_change(), _SEARCH_SEED, self.steps, should_stop)
        if run.ended == "diverged":
            pruned = "the loss is not finite"
        return TrialOutcome(scores, run.score, pruned)

    def changes(self, values: Mapping[str, Any]) -> Iterator[SetupChange]:
        """Yield the change to each value."""
        for setting in self.settings:
            yield setting.change_to(values[setting.name])

    def copy(self, changes: tuple[SetupChange, ...]) -> Any:
        """Return a block with a copy of the setup after some changes."""
        score = self.run_score
        return changed_copy(self.setup, changes, score.batches, score.loss_kind, _SEARCH_SEED, self.in_place)

    def is_altered_by(self, setting: Setting) -> bool:
        """Check whether one of the values of a setting, or an end of its range, changes a copy."""
        with self.copy(()) as treated, UserCodeErrors(lambda: f"in the setting {setting.name!r}"):
            return setting.alters(treated)


def _find_error(losses: list[float]) -> str:
    """Return the code of the first error that the rules on curves find in the losses of a trial; "" without one."""
    history = {"step": range(1, len(losses) + 1), "loss": losses}
    return next((finding.code for finding in diagnose(history) if finding.severity == "error"), "")
