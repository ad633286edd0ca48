"""Summary of a run's loss: start, end, noise, chance level, and the distance that the weights moved."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from nbdebug.exceptions import NotChecked
from nbdebug.records import Record
from nbdebug.records.record import StepArray
from nbdebug.records.table import FloatArray
from nbdebug.statistics.time_series import (
    Curve,
    LinearTrend,
    bin_means,
    bin_medians,
    fit_trend,
    noise_level,
    standard_error,
)

HIGH_SCORE, _SMALL_SHARE, _FIXED_SAMPLE_COUNT = 0.97, 0.05, 256
_MAX_LOG_RATIO = 1.6  # largest log ratio between the loss of the run and that of fixed samples in eval mode
_MIN_LOSSES, _MIN_SETTLED_STEPS, _MIN_SETTLED_EPOCHS = 12, 500, 3
_CacheKey = tuple[int, ...]
_latest_summary: list[tuple[weakref.ref[Record], _CacheKey, RunSummary]] = []


@dataclass(frozen=True)
class _WeightTravel:
    """Sum of the update norms of each module, relative to the norm of its weights.

    ``distances`` holds one number per module that moved; ``first_ratio`` is the largest relative update in the first
    snapshots, ``peak_ratio`` that of any snapshot and ``median_ratio`` the median of the run, each as the median over
    modules. Modules whose weights are zero before training have no relative first update.
    """

    distances: tuple[float, ...] = ()
    median_ratio: float = 0.0
    first_ratio: float = 0.0
    peak_ratio: float = 0.0

    @property
    def upper_quartile(self) -> float:
        """The upper quartile over modules."""
        return float(np.quantile(self.distances, 0.75)) if self.distances else 0.0


def _weight_travel(record: Record, early_snapshots: int = 4) -> _WeightTravel:
    """Return the travel of all modules with sampled updates, interpolated between snapshots."""
    parameters_by_module: dict[str, list[str]] = {}
    for parameter in record.tensors("update.norm"):
        parameters_by_module.setdefault(parameter.rpartition(".")[0], []).append(parameter)
    distances, ratios, firsts, peaks = [], [], [], []
    started_at_zero = set(record.about.get("zero_parameters", ()))
    for parameters in parameters_by_module.values():
        steps, ratio = _relative_updates(record, parameters)
        if len(steps) and ratio.max() > 0:
            distances.append(_total_over_steps(steps, ratio, record.steps))
            ratios.append(float(np.median(ratio)))
            if not all(name in started_at_zero or name.endswith("bias") for name in parameters):
                firsts.append(float(ratio[:early_snapshots].max()))
            peaks.append(float(ratio.max()))
    if not distances:
        return _WeightTravel()
    first_ratio = float(np.median(firsts)) if firsts else 0.0
    return _WeightTravel(tuple(distances), float(np.median(ratios)), first_ratio, float(np.median(peaks)))


def _relative_updates(record: Record, parameters: list[str]) -> tuple[StepArray, FloatArray]:
    """Return the relative update of a module at the snapshots that include all of its parameters."""
    squares = []
    for family in ("update", "weight"):
        columns = [record.series(f"{family}.norm", parameter) for parameter in parameters]
        if len({tuple(steps) for steps, _ in columns}) != 1:
            columns = columns[:1]
        squares.append((columns[0][0], np.sum([values.astype(np.float64) ** 2 for _, values in columns], axis=0)))
    (steps, squared_updates), (weight_steps, squared_weights) = squares
    if len(steps) != len(weight_steps):
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    return steps, np.sqrt(np.minimum(squared_updates, 1e30) / np.clip(squared_weights, 1e-16, 1e30)).astype(np.float32)


def _total_over_steps(steps: StepArray, ratio: FloatArray, last_step: int) -> float:
    """Return the sum over all steps up to ``last_step`` of a series sampled at some of them."""
    all_steps = np.arange(1, max(last_step, int(steps[-1])) + 1)
    return float(np.interp(all_steps, steps, ratio).sum())


@dataclass(frozen=True)
class _SplitEvaluations:
    """Loss and score by step of the fixed samples of one split, in eval mode."""

    steps: Curve
    loss: Curve
    score: Curve

    @property
    def last_score(self) -> float | None:
        """The last score, or None."""
        return float(self.score[-1]) if len(self.score) else None


@dataclass(frozen=True)
class RunSummary:
    """Summary of the loss of a run.

    ``loss_is_known`` says whether the loop minimizes a known loss, up to a factor; ``majority`` is the share of the
    most frequent class, 0 for real targets; ``lowest_recall`` is the last recall of the class that is recognized worst;
    ``last_batch_share`` is the size of the last batch of an epoch relative to the others; ``val_samples`` is the size
    of the validation split, 0 if it is unknown.
    ``start`` is the loss before or at the first steps; ``end`` is its mean
    over the last fifth, with its standard error; ``lowest`` is the lowest median of ten segments. ``chance`` is the
    loss of a constant prediction, None if it cannot be compared with what the loop minimizes; ``floor`` is the lowest
    loss that any prediction of soft targets can reach. ``last_quarter`` is the trend of the last quarter,
    ``second_half`` of the second half, ``full_trend`` of the whole run.
    """

    steps: Curve
    loss: Curve
    start: float
    end: float
    end_error: float
    lowest: float
    noise: float
    chance: float | None
    last_quarter: LinearTrend
    second_half: LinearTrend
    full_trend: LinearTrend
    train: _SplitEvaluations
    val: _SplitEvaluations
    user_validation: _SplitEvaluations
    travel: _WeightTravel
    steps_per_epoch: int
    loss_is_known: bool = True
    majority: float | None = None
    lowest_recall: float | None = None
    last_batch_share: float = 1.0
    val_samples: int = 0
    floor: float = 0.0

    @property
    def step_count(self) -> int:
        """The number of steps of the run."""
        return int(self.steps[-1]) if len(self.steps) else 0

    @property
    def is_finite(self) -> bool:
        """True if every loss is finite."""
        return bool(np.isfinite(self.loss).all())

    @property
    def is_nonnegative(self) -> bool:
        """True if the loss is never negative, so that zero is its lower bound."""
        return bool((self.loss >= 0).all())

    @property
    def reference(self) -> float | None:
        """The loss of a constant prediction, or else the start; None if the loss has no lower bound."""
        if not self.is_nonnegative:
            return None
        reference_loss = self.chance if self.chance is not None else self.start
        return reference_loss if np.isfinite(reference_loss) and reference_loss > 0 else None

    @property
    def remaining_share(self) -> float | None:
        """The final loss as a share of the reference, both above the floor."""
        return None if self.reference is None else (self.end - self.floor) / (self.reference - self.floor)

    @property
    def score(self) -> float | None:
        """The last score on fixed validation samples, or else on fixed training samples."""
        return self.train.last_score if self.val.last_score is None else self.val.last_score

    @property
    def end_text(self) -> str:
        """The final loss as text; the finite losses before it do not stand for one that is not finite."""
        if len(self.loss) and not np.isfinite(self.loss[-1]):
            return "NaN or Inf"
        if self.remaining_share is None:
            return f"{self.end:.3g}"
        if self.floor and self.chance is not None:
            return (
                f"{self.end:.3g}; the lowest attainable loss is {self.floor:.3g}, and that of a constant prediction "
                f"{self.chance:.3g}"
            )
        reference_text = "the loss of a constant prediction" if self.chance is not None else "the initial loss"
        return f"{self.end:.3g}, {self.remaining_share:.0%} of {reference_text}"

    @property
    def beats_constant(self) -> bool | None:
        """True if the score on training samples exceeds that of a constant prediction; None if undecided."""
        score = self.train.last_score
        if score is None or self.majority is None or self.majority == 1:
            return None
        chance_deviation = (
            float(np.sqrt(self.majority * (1 - self.majority) / _FIXED_SAMPLE_COUNT)) if self.majority else 0.02
        )
        sigmas = (score - self.majority) / chance_deviation
        return True if sigmas > 3 else False if sigmas < 1.5 else None

    @property
    def has_converged(self) -> bool:
        """True if the run has converged: a high score, or a loss near zero."""
        high = self.score is not None and self.score >= HIGH_SCORE
        return high or (self.remaining_share is not None and self.remaining_share <= _SMALL_SHARE)

    @property
    def learned_share(self) -> float:
        """The share of the initial loss that is gone; NaN if the loss has no lower bound."""
        return (self.start - self.end) / self.start if self.is_nonnegative and self.start > 0 else float("nan")


def summarize_run(record: Record) -> RunSummary:
    """Summarize a record, which must hold a loss."""
    steps, loss = (series.astype(np.float64) for series in record.series("loss"))
    finite_or_nan = np.where(np.isfinite(loss), loss, np.nan)
    finite_losses = finite_or_nan[~np.isnan(finite_or_nan)]
    train, val = _split_evaluations(record, "train"), _split_evaluations(record, "val")
    scale = _loss_scale(steps, finite_or_nan, train, int(record.about.get("backward_passes_per_step") or 1))
    chance, floor = record.about.get("chance"), float(record.about.get("floor") or 0.0)
    tail = finite_losses[-max(len(finite_losses) // 5, min(3, len(finite_losses))) :]
    start = (
        train.loss[0] * scale if scale and len(train.loss) and train.steps[0] == 0 else _initial_level(finite_losses)
    )
    return RunSummary(
        steps=steps,
        loss=loss,
        start=float(start),
        end=float(tail.mean()) if len(tail) else float("inf"),
        end_error=standard_error(tail),
        lowest=float(bin_medians(finite_losses, 10).min()) if len(finite_losses) else float("inf"),
        noise=noise_level(finite_losses),
        chance=float(chance) * scale if chance and chance > 0 and scale else None,
        last_quarter=fit_trend(finite_losses[-max(len(finite_losses) // 4, min(6, len(finite_losses))) :]),
        second_half=fit_trend(finite_losses[len(finite_losses) // 2 :]),
        full_trend=fit_trend(finite_losses),
        train=train,
        val=val,
        user_validation=_user_evaluations(record, steps, finite_or_nan),
        travel=_weight_travel(record),
        steps_per_epoch=int(record.about.get("batches_per_epoch") or 0),
        loss_is_known=scale > 0 and (len(train.loss) > 1 or bool(record.about.get("loss", True))),
        majority=_majority_share(record),
        lowest_recall=_lowest_recall(record),
        last_batch_share=_last_batch_share(record),
        val_samples=int(record.about.get("val_samples") or 0),
        floor=floor * scale if chance and scale and floor < chance else 0.0,
    )


def _last_batch_share(record: Record) -> float:
    """Return the size of the last batch of an epoch over that of the others; 1 if unknown."""
    keys = ("batch_size", "train_samples", "batches_per_epoch")
    size, samples, batches = (int(record.about.get(key) or 0) for key in keys)
    last_size = samples - size * (batches - 1) if size and batches else 0
    return min(last_size / size, 1.0) if last_size > 0 else 1.0


def _lowest_recall(record: Record) -> float | None:
    """Return the last recall of the worst class of the fixed samples, of validation if they were measured."""
    recalls = [record.series(f"sample_{split}_recall")[1] for split in ("val", "train")]
    has_val = len(record.series("sample_val_loss")[1]) > 0
    values = recalls[0] if has_val else recalls[1]
    return float(values[-1]) if len(values) else None


def _majority_share(record: Record) -> float | None:
    """Return the share of the most frequent class among the fixed training samples; 0 for real targets, else None."""
    counts = record.about.get("label_counts")
    counts = list(counts.values()) if isinstance(counts, dict) else counts
    if counts is not None and len(counts) and sum(counts):
        return float(max(counts) / sum(counts))
    is_regression = record.about.get("task") in ("regression", "reconstruction")
    return 0.0 if is_regression and record.about.get("target_variance") else None


def _user_evaluations(record: Record, steps: Curve, loss: Curve) -> _SplitEvaluations:
    """Return the user's own validation losses; the score holds the median training loss of the steps before each."""
    eval_steps, values = (series.astype(float) for series in record.series("eval_loss"))
    previous_steps = np.concatenate([[0.0], eval_steps[:-1]]) if len(eval_steps) else eval_steps
    loss_spans = [loss[(steps > a) & (steps <= b)] for a, b in zip(previous_steps, eval_steps, strict=True)]
    return _SplitEvaluations(
        eval_steps, values, np.array([np.median(losses) if len(losses) else np.nan for losses in loss_spans])
    )


def _initial_level(values: Curve) -> float:
    return float(np.median(values[:3])) if len(values) else float("inf")


def _split_evaluations(record: Record, split: str) -> _SplitEvaluations:
    """Return the evaluations of the fixed samples of a split."""
    steps, loss = record.series(f"sample_{split}_loss")
    score = record.series(f"sample_{split}_score")[1].astype(float)
    return _SplitEvaluations(steps.astype(float), loss.astype(float), np.where(np.isfinite(score), score, -np.inf))


def _loss_scale(steps: Curve, loss: Curve, train: _SplitEvaluations, backward_passes: int = 1) -> float:
    """Return the ratio of the loop's loss to the loss of fixed samples: 1, a constant factor, or 0 if neither fits.

    A loop may minimize something else than the known loss, such as a reward, or divide the loss by the number of
    ``backward_passes`` of a step when it accumulates gradients: the ratio is one over that number if this is nearer
    to the losses than 1. The tolerance grows with the spread of the loop's own losses.
    """
    if len(train.loss) < 2 or not len(steps):
        return 1.0
    is_present = ~np.isnan(loss)
    if not is_present.any():
        return 1.0
    steps, loss = steps[is_present], loss[is_present]
    neighborhoods = [loss[np.argsort(np.abs(steps - eval_step))[: 5 if eval_step else 1]] for eval_step in train.steps]
    medians, lowest, highest = (
        np.array([reduce(neighborhood) for neighborhood in neighborhoods]) for reduce in (np.median, np.min, np.max)
    )
    is_usable = np.isfinite(train.loss) & (lowest > 0) & (train.loss > 0)
    if not is_usable.any():
        return 1.0 if not np.isfinite(train.loss).any() else 0.0
    ratios, half_ranges = (
        np.log(medians[is_usable] / train.loss[is_usable]),
        np.log(highest[is_usable] / lowest[is_usable]) / 2,
    )
    median_ratio = float(np.median(ratios))
    log_divisor = float(np.log(max(backward_passes, 1)))
    expected_ratio = -log_divisor if median_ratio < -log_divisor / 2 else 0.0
    if (np.abs(ratios - expected_ratio) < _MAX_LOG_RATIO + half_ranges).all():
        return float(np.exp(expected_ratio))
    return (
        float(np.exp(median_ratio)) if (np.abs(ratios - median_ratio) < _MAX_LOG_RATIO / 4 + half_ranges).all() else 0.0
    )


def quarter_levels(run: RunSummary) -> Curve:
    """Return the loss at the start and at the end of each quarter, averaged over neighboring steps."""
    losses = run.loss[np.isfinite(run.loss)]
    half_width = max(2, len(losses) // 16)
    levels = [
        losses[max(0, position - half_width) : position + half_width].mean()
        for position in np.linspace(0, len(losses), 5).astype(int)
    ]
    return np.array([max(run.start, float(levels[0])) if len(losses) > 64 else float(levels[0]), *levels[1:]])


def segment_means(run: RunSummary, max_segments: int = 16) -> Curve:
    """Return the means of the finite losses in equal segments."""
    return bin_means(run.loss[np.isfinite(run.loss)], max_segments)


def get_run_summary(record: Record) -> RunSummary:
    """Return level, noise, trend and baselines of the loss of a run; raise NotChecked with too few values.

    The summary of the last record is cached, since many rules use it in turn.
    """
    tables = (record.run, record.evaluations, record.layers)
    key = (*(table.rows for table in tables), record.steps, len(record.about))
    if _latest_summary and _latest_summary[0][0]() is record and _latest_summary[0][1] == key:
        return _latest_summary[0][2]
    loss_count = len(record.series("loss")[1])
    if loss_count < _MIN_LOSSES:
        raise NotChecked(f"only {loss_count} loss values recorded; at least {_MIN_LOSSES} are needed")
    summary = summarize_run(record)
    _latest_summary[:] = [(weakref.ref(record), key, summary)]
    return summary


def settled_run_summary(record: Record) -> RunSummary:
    """Return the summary of a run that has finished, or is long enough for its present loss to be meaningful."""
    summary = get_run_summary(record)
    is_early = summary.step_count < max(_MIN_SETTLED_STEPS, _MIN_SETTLED_EPOCHS * summary.steps_per_epoch)
    if is_early and not record.about.get("finished", True):
        raise NotChecked(f"the run is at step {summary.step_count}, too early for this check")
    return summary
