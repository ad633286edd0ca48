"""Rank agreement of a loss and a metric over the epochs of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nbdebug.records import Record
from nbdebug.statistics.estimates import rank_correlation
from nbdebug.statistics.time_series import Curve, noise_level

MIN_EPOCHS, _MIN_EPOCH_DISTANCE, _MIN_SIGMAS = 6, 4, 4.0
_HIGHER_IS_BETTER = re.compile(
    "acc|accuracy|accuracies|f1|fscore|auc|auroc|auprc|score|iou|miou|jaccard|dice|bleu|rouge|meteor|r2|map|ap|"
    "precision|recall|sensitivity|specificity|kappa|mcc|ndcg|mrr|psnr|ssim|hits|top1|top5"
)
_LOWER_IS_BETTER = re.compile("error|err|mae|mse|rmse|mape|ppl|perplexity|wer|cer|fid|eer|brier")
_NOT_A_METRIC = re.compile("loss|train|training|lr|rate|epoch|step|time|seconds")


@dataclass(frozen=True)
class RankDisagreement:
    """Two measures that disagree about the best epoch.

    ``loss_step`` is where the loss is lowest, ``step`` where the metric is best; ``at_loss`` and ``best`` are the
    metric at those steps, averaged over neighboring epochs; ``losses`` is the loss at both. ``rank`` is the rank
    correlation between the two epochs, 1 for full agreement.
    """

    metric: str
    loss: str
    loss_step: int
    step: int
    at_loss: float
    best: float
    losses: tuple[float, float]
    rank: float
    epochs: int
    logged: bool


def metric_direction(name: str) -> int:
    """Return 1 if higher is better for a metric of this name, -1 if lower is better, 0 if the name does not tell."""
    spaced_name = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = re.split(r"[^a-z0-9]+", f"{name} {spaced_name}".lower())
    if any(map(_NOT_A_METRIC.fullmatch, words)):
        return 0
    return (
        1 if any(map(_HIGHER_IS_BETTER.fullmatch, words)) else -1 if any(map(_LOWER_IS_BETTER.fullmatch, words)) else 0
    )


def find_disagreements(record: Record) -> Iterator[RankDisagreement]:
    """Yield the logged metrics, and the score of fixed validation samples, that disagree with the loss."""
    loss = validation_loss(record)
    if loss is not None:
        for name in record.evaluations.columns:
            sign = 1 if name == "sample_val_score" else metric_direction(name)
            if sign and name != loss and (result := _measure_disagreement(record, name, loss, sign)) is not None:
                yield result


def validation_loss(record: Record) -> str | None:
    """Return the validation loss with the most values: logged, computed by the loop, or of fixed samples."""
    logged = [name for name in record.evaluations.columns if re.search(r"val|test|dev|eval", name) and "loss" in name]
    counts = {name: len(record.series(name)[1]) for name in (*logged, "eval_loss", "sample_val_loss")}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= MIN_EPOCHS else None


def _measure_disagreement(record: Record, name: str, loss: str, sign: int) -> RankDisagreement | None:
    """Return the disagreement if a metric and the loss have different best epochs, beyond noise.

    Between the two epochs the ranks must be anticorrelated, and each measure must lose more than four times its noise,
    which is estimated from its second differences.
    """
    steps, losses, scores = _align_series(record, name, loss)
    scores = sign * scores
    if len(steps) < MIN_EPOCHS or not np.isfinite([*losses, *scores]).all():
        return None
    best_loss, best_score = int(losses.argmin()), int(scores.argmax())
    if abs(best_loss - best_score) < _MIN_EPOCH_DISTANCE - 1:
        return None
    between = slice(min(best_loss, best_score), max(best_loss, best_score) + 1)
    if np.ptp(losses[between]) == 0 or np.ptp(scores[between]) == 0:
        return None
    rank = rank_correlation(-losses[between], scores[between])
    gains = (
        _neighborhood_mean(scores, best_score) - _neighborhood_mean(scores, best_loss),
        _neighborhood_mean(losses, best_score) - _neighborhood_mean(losses, best_loss),
    )
    exceeds_noise = gains[0] > _MIN_SIGMAS * noise_level(scores) and gains[1] > _MIN_SIGMAS * noise_level(losses)
    if rank > -0.5 or not exceeds_noise or gains[0] < 0.2 * np.ptp(scores) or gains[1] < 0.2 * np.ptp(losses):
        return None
    values = sign * _neighborhood_mean(scores, best_loss), sign * _neighborhood_mean(scores, best_score)
    best_steps = int(steps[best_loss]), int(steps[best_score])
    is_logged = name != "sample_val_score"
    return RankDisagreement(
        name,
        loss,
        *best_steps,
        *values,
        (float(losses[best_loss]), float(losses[best_score])),
        rank,
        len(steps),
        is_logged,
    )


def _align_series(record: Record, name: str, loss: str) -> tuple[Curve, Curve, Curve]:
    """Return steps, loss and metric at the same steps: each metric value with the nearest loss value."""
    steps, values = record.series(name)
    loss_steps, losses = record.series(loss)
    if len(steps) < MIN_EPOCHS or len(loss_steps) < MIN_EPOCHS:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    nearest = np.abs(loss_steps[None, :] - steps[:, None]).argmin(1)
    is_close = np.abs(loss_steps[nearest] - steps) <= np.median(np.diff(loss_steps)) / 2
    return steps[is_close].astype(float), losses[nearest][is_close].astype(float), values[is_close].astype(float)


def _neighborhood_mean(values: Curve, index: int) -> float:
    """Return the mean of a value and its neighbors, so that a single lucky epoch is not taken for the best."""
    return float(values[max(index - 1, 0) : index + 2].mean())
