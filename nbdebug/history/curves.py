"""The curves of a history by their role, and the same curves as a record of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.loss_curves.metric_agreement import metric_direction
from nbdebug.records import Record
from nbdebug.statistics.time_series import Curve

_STEPS_PER_EPOCH = 100  # an epoch is many steps: the shapes of curves count them
_VALIDATION_WORDS = frozenset(("val", "valid", "validation", "eval", "test", "dev"))
_TRAINING_WORDS = frozenset(("train", "training", "epoch", "step", "avg", "average", "mean", "running", "sample"))
EXPORTED, _EXPORTED_LAYERS = "nbdebug/", "nbdebug."  # how names begin that nbdebug.trackers has written
_LOSS_WORDS = frozenset(("loss", "nll", "objective"))
_EXACT_NAMES = frozenset(("loss", "train_loss", "val_loss", "eval_loss", "accuracy", "val_accuracy"))
_RATE_NAMES = frozenset(("lr", "learning_rate", "learning rate"))
_PERCENT = 1.5  # a score above this is a percentage
_ACCURACY = re.compile("acc|accuracy|categorical_accuracy|binary_accuracy|sparse_categorical_accuracy|top1")
Unit = Literal["epoch", "step"]


@dataclass(frozen=True)
class Series:
    """One logged quantity: positions (epochs or steps) and values of the same length."""

    positions: Curve
    values: Curve


@dataclass(frozen=True)
class History:
    """Logged quantities by name; ``unit`` is what the positions count, ``source`` the format that was read."""

    series: Mapping[str, Series]
    unit: Unit = "epoch"
    source: str = "history"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curves:
    """The curves that a diagnosis reads, and their names in the history.

    A ``score`` is a metric that grows with quality; it is a share of 1 if it is an accuracy.
    """

    train_loss: Series
    val_loss: Series | None = None
    train_score: Series | None = None
    val_score: Series | None = None
    unit: Unit = "epoch"
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def scores_are_accuracies(self) -> bool:
        """True if the scores are accuracies, whose scale is known."""
        name = self.names.get("val_score") or self.names.get("train_score") or ""
        return bool(_ACCURACY.search(name.lower()))

    @property
    def _offset(self) -> float:
        """One if the epochs count from 0: step 0 of a record is before training."""
        return float(self.unit == "epoch" and self.train_loss.positions.min(initial=1) == 0)

    def step(self, position: float) -> int:
        """Return the step of a record that stands for a position."""
        return int((position + self._offset) * (_STEPS_PER_EPOCH if self.unit == "epoch" else 1))

    def points(self, role: str) -> list[tuple[float, float]]:
        """Return positions and values of a curve by its role; empty if it was not logged."""
        series = getattr(self, role)
        return [] if series is None else list(zip(series.positions.tolist(), series.values.tolist(), strict=True))

    def known_step(self, step: float) -> int | None:
        """Return a step of the record as the user counts it; None if the history counts epochs."""
        return int(step) if self.unit == "step" else None

    def place(self, step: float) -> str:
        """Return the position of a step of the record as text, such as ``epoch 3``."""
        position = step / _STEPS_PER_EPOCH - self._offset if self.unit == "epoch" else step
        return f"{self.unit} {position:,.0f}"


def find_curves(history: History) -> Curves:
    """Return the curves of a history by their names; raise SetupError without a loss of training or validation."""
    names: dict[str, str] = {}
    for name in sorted(history.series, key=lambda item: _rank(history, item)):
        if (role := _role(name)) is not None:
            names.setdefault(role, name)
    if "train_loss" not in names and "val_loss" in names:
        names["train_loss"] = names.pop("val_loss")
    if "train_loss" not in names:
        listed = ", ".join(map(repr, history.series)) or "nothing"
        raise SetupError(f"history has {listed}; expected a curve named 'loss', 'train_loss' or similar. Rename one.")
    curves: dict[str, Any] = {role: history.series[name] for role, name in names.items()}
    for role in ("train_score", "val_score"):
        if role in curves:
            curves[role] = _as_share(names[role], curves[role])
    return Curves(**curves, unit=history.unit, names=names)


def _rank(history: History, name: str) -> tuple[bool, int, int]:
    """Return the key that puts exact names first, then those with more values, then short ones."""
    exact = name.removeprefix(EXPORTED).lower() in (
        "loss",
        "train_loss",
        "val_loss",
        "eval_loss",
        "accuracy",
        "val_accuracy",
    )
    return not exact, -len(history.series[name].values), len(name)


def _role(name: str) -> str | None:
    """Return the role of a name, such as ``val_loss``; None for anything that is no loss and no score."""
    if name.startswith(_EXPORTED_LAYERS):
        return None
    name = name.removeprefix(EXPORTED)
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if name.lower() in _RATE_NAMES or not words:
        return None
    split = "val" if _VALIDATION_WORDS & set(words) else "train"
    rest = [word for word in words if word not in _VALIDATION_WORDS | _TRAINING_WORDS]
    if _LOSS_WORDS & set(rest):
        return f"{split}_loss" if len(rest) == 1 else None  # a single term of a sum is not the loss
    return f"{split}_score" if metric_direction("_".join(rest)) > 0 else None


def _as_share(name: str, series: Series) -> Series:
    """Return an accuracy in percent as a share of 1."""
    finite = series.values[np.isfinite(series.values)]
    is_percentage = bool(_ACCURACY.search(name.lower())) and len(finite) > 0 and finite.max() > _PERCENT
    return Series(series.positions, series.values / 100) if is_percentage else series


def to_record(curves: Curves, chance: float | None = None) -> Record:
    """Return the curves as the record of a run, so that the judgements on watched runs apply to them.

    The training loss is the loss of the steps. The validation curves, each with the training values since the previous
    one, stand for the fixed samples of a watched run. An epoch counts as a hundred steps. ``chance`` is the loss of a
    constant prediction.
    """
    record = Record(about={"finished": True, "loss": True, **({"chance": chance} if chance else {})})
    for position, value in _pairs(curves.train_loss):
        record.run.append(curves.step(position), {"loss": value})
    if curves.val_loss is not None:
        aligned = _align(curves.train_loss, curves.val_loss)
        record.evaluations.widen(("sample_train_loss", "sample_val_loss"))
        for (position, value), train in zip(_pairs(curves.val_loss), aligned, strict=True):
            row = {"sample_train_loss": float(train) if np.isfinite(train) else np.inf, "sample_val_loss": value}
            record.evaluations.append(curves.step(position), row)
    if curves.scores_are_accuracies:
        _add_scores(record, curves)
    return record


def _add_scores(record: Record, curves: Curves) -> None:
    """Add the accuracies of both splits to a record, as those of its fixed samples."""
    for role, series in (("train", curves.train_score), ("val", curves.val_score)):
        for position, value in _pairs(series) if series is not None else ():
            record.evaluations.append(curves.step(position), {f"sample_{role}_score": value}, kind=role)


def _pairs(series: Series) -> Iterable[tuple[float, float]]:
    """Return positions and values; a record marks values that are not finite by infinity."""
    values = np.where(np.isfinite(series.values), series.values, np.inf)
    return zip(series.positions.tolist(), values.tolist(), strict=True)


def _align(series: Series, others: Series) -> Curve:
    """Return the median of a series since the previous position of another one, at each of its positions.

    A span without a value gets the value at the nearest position.
    """
    starts = np.concatenate([[-np.inf], others.positions[:-1]]) if len(others.positions) else others.positions
    medians = []
    for start, end in zip(starts, others.positions, strict=True):
        inside = series.values[(series.positions > start) & (series.positions <= end)]
        nearest = series.values[np.abs(series.positions - end).argmin()]
        medians.append(float(np.median(inside)) if len(inside) else float(nearest))
    return np.array(medians)
