"""Optuna studies: the sampler, the file that a search is resumed from, the trials so far and the median rule."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbdebug.exceptions import SetupError
from nbdebug.tools.tune.result import TunedTrial
from nbdebug.tools.tune.space import Setting

if TYPE_CHECKING:
    import optuna

Sampler = Literal["tpe", "random", "grid"]
SAMPLERS = ("tpe", "random", "grid")
REASON, VALUES = "reason", "values"
_NAME, _SPACE = "nbdebug", "space"
_ENDED_STATES = ("COMPLETE", "PRUNED")
# The first trials run to their end; later ones end when they are below the median of those before at the same step.
_FREE_TRIALS, _FREE_SCORES = 5, 2


def import_optuna() -> Any:
    """Return Optuna; raise SetupError if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise SetupError("optuna is not installed; expected it for tune(). Run pip install optuna.") from None
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Let Optuna log warnings only, and restore its verbosity."""
    logging = import_optuna().logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def open_study(
    settings: Sequence[Setting], sampler: Sampler, path: str | Path | None, about: Sequence[str], at_once: int = 1
) -> optuna.Study:
    """Return the study in a SQLite file, or a new one in memory without ``path``.

    ``about`` describes what its trials measure, ``at_once`` is how many run at the same time. Raises SetupError for a
    file with trials of another search, and for a grid over a range.
    """
    study: optuna.Study = import_optuna().create_study(
        study_name=_NAME,
        storage=f"sqlite:///{Path(path).resolve()}" if path is not None else None,
        direction="maximize",
        load_if_exists=True,
    )
    text = "; ".join([*map(str, settings), *about])
    stored = study.user_attrs.get(_SPACE, text)
    if stored != text:
        raise SetupError(f"path is a search of {stored!r}; expected one of {text!r}. Use another file, or this space.")
    study.set_user_attr(_SPACE, text)
    # A resumed search must not draw the numbers of its first trials again.
    study.sampler = _make_sampler(sampler, len(study.trials), at_once)
    if sampler == "grid":
        _enqueue_grid(study, settings)
    return study


def _make_sampler(sampler: Sampler, seed: int, at_once: int) -> Any:
    samplers = import_optuna().samplers
    if sampler != "tpe":
        return samplers.RandomSampler(seed=seed)
    with warnings.catch_warnings():  # the option is experimental
        warnings.simplefilter("ignore")
        # Values that run at the same time must differ: those that run count as bad ones.
        return samplers.TPESampler(seed=seed, constant_liar=at_once > 1)


def _enqueue_grid(study: optuna.Study, settings: Sequence[Setting]) -> None:
    """Enqueue the points of the grid without a trial that has ended or waits, in random order."""
    if ranges := [setting.name for setting in settings if setting.is_range]:
        raise SetupError(f"{ranges[0]} is a range; expected a list, as the sampler is a grid. Pass one.")
    present = [
        trial.system_attrs.get("fixed_params")
        for trial in study.trials
        if trial.state.name in (*_ENDED_STATES, "WAITING")
    ]
    points = [
        dict(zip([setting.name for setting in settings], choices, strict=True))
        for choices in product(*(range(len(setting.values)) for setting in settings))
    ]
    random.Random(0).shuffle(points)
    for point in points:
        if point not in present:
            study.enqueue_trial(point)


def trial_limit(settings: Sequence[Setting], sampler: Sampler, budget: int) -> int:
    """Return the number of trials: the budget, or fewer for a small grid."""
    return min(budget, prod(len(setting.values) for setting in settings)) if sampler == "grid" else budget


def draw_trial(study: optuna.Study, settings: Sequence[Setting]) -> tuple[optuna.Trial, dict[str, Any]]:
    """Return a new trial of a study, and its values."""
    trial = study.ask()
    values = {setting.name: setting.suggest(trial) for setting in settings}
    trial.set_user_attr(VALUES, values)
    return trial, values


@dataclass(frozen=True)
class TrialOutcome:
    """The scores of a trial by step, its score, and why it ended early, "" for one that was completed."""

    scores: Mapping[int, float]
    score: float
    pruned: str = ""


def end_trial(study: optuna.Study, trial: optuna.Trial, outcome: TrialOutcome | None) -> None:
    """Store the outcome of a trial; one without an outcome has failed, and does not count."""
    states = import_optuna().trial.TrialState
    if outcome is None:
        study.tell(trial, state=states.FAIL)
        return
    for step, value in outcome.scores.items():
        trial.report(value, step)
    if outcome.pruned:
        trial.set_user_attr(REASON, outcome.pruned)
        study.tell(trial, state=states.PRUNED)
    else:
        study.tell(trial, outcome.score)


@dataclass(frozen=True)
class MedianRule:
    """Optuna's median pruner over the scores, by step, of the trials that were completed; it can be sent to a worker.

    Vizier names it the median stopping rule (Golovin et al. 2017, doi:10.1145/3097983.3098043).
    """

    completed: tuple[Mapping[int, float], ...]

    @classmethod
    def of_study(cls, study: optuna.Study) -> MedianRule:
        """Return the rule over the trials of a study that are completed now."""
        return cls(tuple(trial.intermediate_values for trial in study.trials if trial.state.name == "COMPLETE"))

    def start(self) -> Callable[[int, float], bool]:
        """Return a function of step and score for one trial, which returns whether it is below the median."""
        library = import_optuna()
        study = library.create_study(
            direction="maximize", pruner=library.pruners.MedianPruner(_FREE_TRIALS, _FREE_SCORES)
        )
        for scores in self.completed:
            study.add_trial(library.trial.create_trial(value=0.0, intermediate_values=scores))
        trial = study.ask()

        def is_below_median(step: int, score: float) -> bool:
            trial.report(score, step)
            return bool(trial.should_prune())

        return is_below_median


def tried(study: optuna.Study | None) -> list[TunedTrial]:
    """Return the trials of a study that have ended, in their order."""
    trials = study.trials if study is not None else []
    return [
        TunedTrial(
            number=trial.number,
            values=trial.user_attrs[VALUES],
            score=trial.value if trial.value is not None else -inf,
            steps=max(trial.intermediate_values, default=0),
            pruned=trial.user_attrs.get(REASON, ""),
        )
        for trial in trials
        if trial.state.name in _ENDED_STATES
    ]
