"""Permutation importance: the drop in the metric when a feature is taken from other samples.

Breiman 2001, doi:10.1023/A:1010933404324; of a fitted model, Fisher, Rudin and Dominici 2019, arXiv:1801.01489.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.inference.chunking import ChunkRunner
from nbdebug.inference.dataset_sampling import SampledBatch
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.regression import RegressionTable
from nbdebug.predictions.table import PredictionTable
from nbdebug.predictions.task_detection import choose_collector
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.statistics.estimates import pair_influence, ratio_estimates
from nbdebug.statistics.intervals import Number, number_from_influence, proportion
from nbdebug.tools.importance.features import InputFeature
from nbdebug.validation import describe_type

_ScoreArray = NDArray[np.float64]
METRICS = ("auto", "accuracy", "R²", "loss")
_Floats = NDArray[np.float64]


class Scorer:
    """Scores the predictions for a batch as the error browser does.

    ``name`` is the metric; a loss is negated so that higher is better. ``weights`` is each sample's contribution to the
    target variance (mean 1), in which R² is a ratio. Raises SetupError for unsupported targets.
    """

    def __init__(self, setup: Setup, sampled: SampledBatch, metric: str = "auto") -> None:
        self.setup, self.batch, self.inputs = setup, sampled.batch, sampled.inputs
        batch = sampled.batch
        self.runner = ChunkRunner(sampled.inputs.values_per_sample, setup.model_device)
        table = self._prediction_table(batch)
        self.name = _resolve_metric(table, metric)
        self.sign = -1.0 if self.name == "loss" else 1.0
        self.weights = np.ones(batch.size)
        if self.name == "R²":
            assert isinstance(table, RegressionTable)
            self.target_mean, self.target_variance = _mean_and_variance(table.target)
            self.weights = ((table.target - self.target_mean) ** 2 / self.target_variance).mean(1)
        self.sample_scores = self._score_rows(table)
        self.target = _learnable_targets(table)
        self.chance = _constant_score(table, self.name)

    def score_batch(self, batch: Batch) -> _ScoreArray:
        """Return the metric of each sample of a modified batch; NaN without a target."""
        return self._score_rows(self._prediction_table(batch))

    def _prediction_table(self, batch: Batch) -> PredictionTable:
        outputs: list[Tensor] = []

        def work(start: int, stop: int) -> None:
            with torch.no_grad():
                output = score_tensor(self.setup.predict(batch.take_samples(range(start, stop))))
            if not isinstance(output, Tensor) or not output.dim():
                raise SetupError(f"the model gives {describe_type(output)}; expected a row per sample. Pass score=.")
            is_bfloat16 = output.dtype == torch.bfloat16  # numpy has no bfloat16
            outputs.append(output.detach().float() if is_bfloat16 else output.detach().clone())

        self.runner.run(batch.size, work)
        output, target = torch.cat(outputs), self.batch.target_or_label
        gathered = choose_collector(self.setup, self.batch, output, target, self.batch.size, None)
        if gathered.add(output, target) != batch.size:
            raise SetupError("the target does not have one row per sample; expected one row per sample. Pass unpack=.")
        return gathered.accumulator.table()

    def _score_rows(self, table: PredictionTable) -> _ScoreArray:
        """Return the metric of each row, whose mean is the overall metric."""
        if self.name == "accuracy":
            assert table.right is not None
            has_target = table.target >= 0 if isinstance(table, ClassificationTable) else np.ones(len(table), bool)
            return np.where(has_target, table.right.astype(np.float64), np.nan)
        if self.name == "R²":
            assert isinstance(table, RegressionTable)
            errors = np.asarray(table.target - table.prediction, np.float64)
            return np.asarray(1 - (errors**2 / self.target_variance).mean(1))
        return -np.asarray(table.columns["loss"], np.float64)


def _resolve_metric(table: PredictionTable, metric: str) -> str:
    """Return the metric, by default that of the task; raise SetupError for an unavailable one."""
    regression = isinstance(table, RegressionTable)
    available = {
        "accuracy": table.right is not None,
        "R²": regression and bool(_mean_and_variance(table.target)[1].all())
        if isinstance(table, RegressionTable)
        else False,
        "loss": "loss" in table.columns,
    }
    usable = [name for name, fits in available.items() if fits]
    if metric == "auto" and usable:
        return usable[0]
    if metric not in usable:
        raise SetupError(f"metric is {metric!r}; expected {', '.join(['auto', *usable])}. Choose one.")
    return metric


def _mean_and_variance(target: Any) -> tuple[_ScoreArray, _ScoreArray]:
    values = np.asarray(target, np.float64)
    return values.mean(0), values.var(0)


def _learnable_targets(table: PredictionTable) -> NDArray[Any] | None:
    """Return one target per row, or None."""
    if isinstance(table, ClassificationTable):
        return np.asarray(table.target)
    if isinstance(table, RegressionTable) and table.target.shape[1] == 1:
        return np.asarray(table.target[:, 0], np.float64)
    return None


def _constant_score(table: PredictionTable, metric: str) -> float:
    """Return the score of a constant prediction; NaN if unknown."""
    if metric == "R²":
        return 0.0
    if not isinstance(table, ClassificationTable):
        return float("nan")
    shares = np.bincount(table.target[table.target >= 0]) / max(int((table.target >= 0).sum()), 1)
    if metric == "accuracy":
        return float(shares.max(initial=0))
    return float((shares[shares > 0] * np.log(shares[shares > 0])).sum())


def metric_with_interval(scorer: Scorer) -> Number:
    """Return the metric on these samples with its interval; R² as a ratio."""
    has_score = np.isfinite(scorer.sample_scores)
    rows, weight = scorer.sign * scorer.sample_scores[has_score], scorer.weights[has_score]
    if scorer.name == "accuracy":
        return proportion(int(rows.sum()), len(rows))
    value = float(rows.mean()) if len(rows) else float("nan")
    if scorer.name != "R²":
        return number_from_influence(value, rows - value)
    interval = ratio_estimates(np.array([value]), (rows - value + (1 - value) * (weight - 1))[:, None], weight)
    return Number(value, float(interval.low[0]), float(interval.high[0]))


@dataclass
class PermutationDrops:
    """Drop in the metric per feature, as a mean over pairs of a sample and the donor of its value.

    ``influence`` is the contribution of each scored sample, samples × features; ``counts`` the permutations per
    feature; ``was_interrupted`` is True if an interrupt ended the computation.
    """

    drop: _Floats
    influence: _Floats
    counts: NDArray[np.int64]
    was_interrupted: bool = False


class _PermutationSums:
    """Running sums for one feature."""

    def __init__(self, size: int) -> None:
        self.owner_sums, self.donor_sums = np.zeros(size), np.zeros(size)
        self.total = self.total_squares = 0.0
        self.count = 0

    def add(self, sample_drops: _Floats, donors: NDArray[np.int64]) -> None:
        """Add a permutation; samples without a finite metric count as the mean."""
        sample_drops = np.where(
            np.isfinite(sample_drops),
            sample_drops,
            np.nanmean(sample_drops) if np.isfinite(sample_drops).any() else 0.0,
        )
        self.owner_sums += sample_drops
        self.donor_sums[donors] += sample_drops
        self.total, self.total_squares, self.count = (
            self.total + sample_drops.sum(),
            self.total_squares + (sample_drops**2).sum(),
            self.count + 1,
        )

    def influence(self, weight: _Floats) -> tuple[float, _Floats]:
        """Return the mean and the contribution of each sample; for a ratio if ``weight`` varies."""
        size, pair_count = len(self.owner_sums), len(self.owner_sums) * self.count
        mean = self.total / pair_count
        pair_variance = max(self.total_squares / pair_count - mean**2, 0.0) * size / max(size - 1, 1)
        owner_effect = self.owner_sums / self.count - mean * (weight - 1)
        return mean, pair_influence(owner_effect, self.donor_sums / self.count, pair_variance, self.count)


def permutation_drops(
    scorer: Scorer,
    groups: Sequence[Sequence[InputFeature]],
    repeats: int,
    on_progress: Callable[[int], bool],
    allow_partial: bool = False,
) -> PermutationDrops:
    """Permute every group of features ``repeats`` times.

    ``on_progress`` gets the number of passes done, and returns True to stop; with ``partial``, an interrupt stops, too.
    """
    scored_rows = np.flatnonzero(np.isfinite(scorer.sample_scores))
    sums = [_PermutationSums(len(scored_rows)) for _ in groups]
    try:
        _run_permutations(scorer, groups, sums, scored_rows, repeats if len(scored_rows) > 1 else 0, on_progress)
    except KeyboardInterrupt:
        if not allow_partial:
            raise
        return replace(_collect_drops(sums, scorer.weights[scored_rows]), was_interrupted=True)
    return _collect_drops(sums, scorer.weights[scored_rows])


def _run_permutations(
    scorer: Scorer,
    groups: Sequence[Sequence[InputFeature]],
    sums: Sequence[_PermutationSums],
    scored_rows: NDArray[np.int64],
    repeats: int,
    on_progress: Callable[[int], bool],
) -> None:
    """Permute all groups once, then all again, so that a stop leaves them with similar numbers of permutations."""
    generator, done = torch.Generator().manual_seed(0), 0
    for _ in range(repeats):
        donors = _draw_donors(len(scored_rows), generator)
        donor_rows = torch.arange(scorer.batch.size)
        donor_rows[torch.from_numpy(scored_rows)] = torch.from_numpy(scored_rows[donors])
        for group, feature_sums in zip(groups, sums, strict=True):
            rows = scorer.score_batch(_take_from_donors(scorer, group, donor_rows))
            feature_sums.add((scorer.sample_scores - rows)[scored_rows], donors)
            done += 1
            if on_progress(done):
                return


def _take_from_donors(scorer: Scorer, group: Sequence[InputFeature], donors: torch.Tensor) -> Batch:
    """Take some features from other samples."""
    replacements = dict[int, torch.Tensor]()
    for feature in group:
        leaf = replacements.get(feature.leaf, scorer.inputs.leaves[feature.leaf])
        replacements[feature.leaf] = feature.with_donors(leaf, donors.to(leaf.device))
    return replace(scorer.inputs.with_leaves(replacements).batch, targets=scorer.batch.targets)


def _draw_donors(size: int, generator: torch.Generator) -> NDArray[np.int64]:
    """Return another sample for each, such that each sample is a donor once."""
    order = torch.randperm(size, generator=generator).numpy()
    donors = np.empty(size, np.int64)
    donors[order] = np.roll(order, 1)
    return donors


def _collect_drops(sums: Sequence[_PermutationSums], weight: _Floats) -> PermutationDrops:
    """Return the values of all features, NaN for features that were not reached."""
    size = len(weight)
    drop, influence = np.full(len(sums), np.nan), np.full((size, len(sums)), np.nan)
    for j, feature_sums in enumerate(sums):
        if feature_sums.count:
            drop[j], influence[:, j] = feature_sums.influence(weight)
    return PermutationDrops(drop, influence, np.array([feature_sums.count for feature_sums in sums], np.int64))
