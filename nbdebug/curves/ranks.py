"""Whether two measures of the same epochs rank them alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nbdebug.curves.noise import spread
from nbdebug.curves.smoothing import Curve
from nbdebug.record import Record

FEWEST, APART, SIGMAS = 6, 4, 4.0
MORE = re.compile(
    "acc|accuracy|accuracies|f1|fscore|auc|auroc|auprc|score|iou|miou|jaccard|dice|bleu|rouge|meteor|r2|map|ap|"
    "precision|recall|sensitivity|specificity|kappa|mcc|ndcg|mrr|psnr|ssim|hits|top1|top5"
)
LESS = re.compile("error|err|mae|mse|rmse|mape|ppl|perplexity|wer|cer|fid|eer|brier")
OTHER = re.compile("loss|train|training|lr|rate|epoch|step|time|seconds")


@dataclass(frozen=True)
class Apart:
    """Two measures that disagree about which epoch is best.

    ``loss_step`` is where the loss is lowest, ``step`` where the metric is best; ``at_loss`` and ``best`` are the
    metric there, means of the neighborhood; ``losses`` the loss at both. ``rank`` is the correlation of ranks between
    the two, 1 where they agree.
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


def direction(name: str) -> int:
    """1 for a metric of which more is better, -1 for one of which less is, 0 where the name does not tell."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = re.split(r"[^a-z0-9]+", f"{name} {parted}".lower())
    if any(map(OTHER.fullmatch, words)):
        return 0
    return 1 if any(map(MORE.fullmatch, words)) else -1 if any(map(LESS.fullmatch, words)) else 0


def apart(record: Record) -> Iterator[Apart]:
    """The metrics that were logged, and the score of fixed validation samples, where they disagree with the loss."""
    loss = validation_loss(record)
    if loss is not None:
        for name in record.evaluations.columns:
            sign = 1 if name == "sample_val_score" else direction(name)
            if sign and name != loss and (found := disagreement(record, name, loss, sign)) is not None:
                yield found


def validation_loss(record: Record) -> str | None:
    """The validation loss that was measured most often: logged, heard in your own validation, or of fixed samples."""
    logged = [name for name in record.evaluations.columns if re.search(r"val|test|dev|eval", name) and "loss" in name]
    counts = {name: len(record.series(name)[1]) for name in (*logged, "eval_loss", "sample_val_loss")}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= FEWEST else None


def disagreement(record: Record, name: str, loss: str, sign: int) -> Apart | None:
    """Whether a metric is best at another epoch than the loss, beyond the noise of both, and why not by chance.

    Between the two epochs the ranks must run against each other, and both measures must lose more than four times
    their noise, which is taken from their second differences.
    """
    from scipy.stats import spearmanr

    steps, low, good = together(record, name, loss)
    good = sign * good
    if len(steps) < FEWEST or not np.isfinite([*low, *good]).all():
        return None
    i, j = int(low.argmin()), int(good.argmax())
    if abs(i - j) < APART - 1:
        return None
    between = slice(min(i, j), max(i, j) + 1)
    if np.ptp(low[between]) == 0 or np.ptp(good[between]) == 0:
        return None
    rank = float(spearmanr(-low[between], good[between]).statistic)
    gains = near(good, j) - near(good, i), near(low, j) - near(low, i)
    clear = gains[0] > SIGMAS * spread(good) and gains[1] > SIGMAS * spread(low)
    if rank > -0.5 or not clear or gains[0] < 0.2 * np.ptp(good) or gains[1] < 0.2 * np.ptp(low):
        return None
    values = sign * near(good, i), sign * near(good, j)
    places = int(steps[i]), int(steps[j])
    own = name != "sample_val_score"
    return Apart(name, loss, *places, *values, (float(low[i]), float(low[j])), rank, len(steps), own)


def together(record: Record, name: str, loss: str) -> tuple[Curve, Curve, Curve]:
    """Steps, loss and metric where both were measured: each value of the metric with the nearest one of the loss."""
    steps, values = record.series(name)
    at, losses = record.series(loss)
    if len(steps) < FEWEST or len(at) < FEWEST:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    nearest = np.abs(at[None, :] - steps[:, None]).argmin(1)
    close = np.abs(at[nearest] - steps) <= np.median(np.diff(at)) / 2
    return steps[close].astype(float), losses[nearest][close].astype(float), values[close].astype(float)


def near(values: Curve, at: int) -> float:
    """The mean of a value and its neighbors, so that one lucky epoch is not taken for the best."""
    return float(values[max(at - 1, 0) : at + 2].mean())
