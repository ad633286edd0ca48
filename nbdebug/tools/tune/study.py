"""Optuna studies: the sampler, the file that a search is resumed from, and the trials so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
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
    settings: Sequence[Setting], sampler: Sampler, path: str | Path | None, about: Sequence[str]
) -> optuna.Study:
    """Return the study in a SQLite file, or a new one in memory without ``path``.

    ``about`` describes what its trials measure. Raises SetupError for a file with trials of another search, and for a
    grid over a range.
    """
    library = import_optuna()
    study: optuna.Study = library.create_study(
        study_name=_NAME,
        storage=f"sqlite:///{Path(path).resolve()}" if path is not None else None,
        pruner=library.pruners.MedianPruner(_FREE_TRIALS, _FREE_SCORES),
        direction="maximize",
        load_if_exists=True,
    )
    text = "; ".join([*map(str, settings), *about])
    stored = study.user_attrs.get(_SPACE, text)
    if stored != text:
        raise SetupError(f"path is a search of {stored!r}; expected one of {text!r}. Use another file, or this space.")
    study.set_user_attr(_SPACE, text)
    # A resumed search must not draw the numbers of its first trials again.
    study.sampler = _make_sampler(settings, sampler, len(study.trials))
    return study


def _make_sampler(settings: Sequence[Setting], sampler: Sampler, seed: int) -> Any:
    samplers = import_optuna().samplers
    if sampler == "tpe":
        return samplers.TPESampler(seed=seed)
    if sampler == "random":
        return samplers.RandomSampler(seed=seed)
    if ranges := [setting.name for setting in settings if setting.is_range]:
        raise SetupError(f"{ranges[0]} is a range; expected a list, as the sampler is a grid. Pass one.")
    return samplers.GridSampler({setting.name: range(len(setting.values)) for setting in settings}, seed=0)


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
        if trial.state.name in ("COMPLETE", "PRUNED")
    ]
