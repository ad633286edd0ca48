"""Labels that lag behind the inputs by a growing number of rows, as after rows were removed from one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Subset

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.label_predictability import LabelProbe, to_features
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.source.assignments import find_assignments
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_children

_MAX_ROWS, _MIN_ROWS, _MAX_CLASSES, _MAX_SECONDS = 400, 80, 20, 0.3
_LAGS_PER_ROW = 1 / 8  # the largest lag that is tried, as a share of the rows
_SHIFTS = 12  # other parts of the labels, which have no relation to the rows but the same order
_ROUNDS, _LAST_ROUNDS, _STARTS_KEPT = 3, 5, 3
_JUMP_COST, _MAX_JUMP = 1.0, 2
_RIDGE_STRENGTH = 0.1
_MAX_ATTRIBUTES, _PROBED_ROWS = 50, 5
_UNRELATED_SIGMA, MIN_EXPLAINED = 2.0, 0.6


@dataclass(frozen=True)
class LabelLag:
    """How far the label of each row is from it, and how well labels that far away are predicted from the rows.

    ``direction`` is 1 if labels are taken from later rows, and -1 from earlier ones. ``first`` and ``last`` are the
    distances at the first and the last of ``rows``. The scores are explained variances of the labels.
    """

    direction: Literal[1, -1]
    first: int
    last: int
    rows: int
    score: float
    chance_score: float
    chance_std: float

    @property
    def sigma(self) -> float:
        """The score above chance, in standard deviations of the scores of other parts of the labels."""
        return (self.score - self.chance_score) / max(self.chance_std, 1e-6)


@dataclass(frozen=True)
class UnequalLengths:
    """Two attributes of a dataset from which the parts of a sample are read by one index, and their lengths."""

    names: tuple[str, str]
    lengths: tuple[int, int]
    line: SourceLine | None


@dataclass(frozen=True)
class LabelAlignment:
    """What could have separated unrelated labels from their inputs."""

    lag: LabelLag | None = None
    unequal_lengths: UnequalLengths | None = None

    def has_cause(self, min_sigma: float) -> bool:
        """Return whether labels of other rows are related to the inputs, or the stored lengths differ."""
        return (self.lag is not None and self.lag.sigma >= min_sigma) or self.unequal_lengths is not None


@slow_measurement
def label_alignment(setup: Setup, label_probe: LabelProbe) -> LabelAlignment:
    """The lag of training labels that have no relation to the inputs, and stored arrays of different lengths."""
    train = label_probe.within.get("train")
    if train is None or train.sigma >= _UNRELATED_SIGMA or not is_map_style(setup.train_loader):
        return LabelAlignment()
    dataset: Any = setup.train_loader.dataset
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    try:
        x, labels = _read_rows(setup, dataset)
    except NotChecked:
        raise
    except Exception as error:
        raise NotChecked(f"the dataset could not be read in its order: {error}") from error
    lag = (_measure_lag(x, labels, 1) or _measure_lag(x, labels, -1)) if len(x) >= _MIN_ROWS else None
    return LabelAlignment(lag, _find_unequal_lengths(dataset))


def _read_rows(setup: Setup, dataset: Any) -> tuple[Tensor, Tensor]:
    """Return the features and classes of the first rows of a dataset, in its own order."""
    limit, samples = ReadingLimit(_MAX_SECONDS, _MIN_ROWS), list[Any]()
    while len(samples) < min(len(dataset), _MAX_ROWS) and not limit.ends_after(len(samples)):
        samples.append(dataset[len(samples)])
    if len(samples) < min(len(dataset), _MIN_ROWS):
        raise NotChecked(limit.reason(len(samples), len(dataset)))
    batch = setup.split_batch(setup.train_loader.collate_fn(samples))
    labels = batch.targets[0].reshape(-1).long().cpu()
    tensors = [t for t in tree_children(batch.args).values() if isinstance(t, Tensor) and len(t) == len(labels)]
    features = torch.cat([to_features(t.detach().cpu()) for t in tensors], 1)
    if not bool(features.isfinite().all()) or int(labels.min()) < 0 or int(labels.max()) >= _MAX_CLASSES:
        raise NotChecked("the inputs are not finite, or the labels are no classes")
    return (features - features.mean(0)) / features.std(0).clamp_min(1e-6), labels


def _measure_lag(x: Tensor, labels: Tensor, direction: Literal[1, -1]) -> LabelLag | None:
    """Find the monotone lag with which labels are predicted best, and do the same for other parts of the labels.

    None if the labels along the best lag are not predicted well.
    """
    count, lags = len(x), max(2, int(_LAGS_PER_ROW * len(x)))
    rows = torch.arange(count - lags) + (lags if direction < 0 else 0)
    predictor, columns = _leave_one_out_matrix(x[rows]), _standardize_columns(labels)
    distances = direction * torch.arange(lags)

    def find_best(shifts: list[int]) -> tuple[Tensor, Tensor]:
        shifted = torch.stack([columns.roll(shift, 0) for shift in shifts])
        return _search(predictor, shifted[:, rows[:, None] + distances])

    scores, paths = find_best([0])
    if scores[0] < MIN_EXPLAINED:
        return None
    generator = torch.Generator().manual_seed(0)
    others, _ = find_best(torch.randint(2 * lags, count - 2 * lags, (_SHIFTS,), generator=generator).tolist())
    first, last = int(paths[0, 0]), int(paths[0, -1])
    return LabelLag(direction, first, last, len(rows), float(scores[0]), float(others.mean()), float(others.std()))


def _search(predictor: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best score and path for each of several parts of the labels, by improving several linear lags.

    In turns, labels are predicted from the other rows by kernel ridge regression, and the lag that agrees best with the
    predictions is the path with the largest sum. ``candidates`` has the columns of the label of each row at each lag.
    """
    parts, rows, lags, _ = candidates.shape
    paths = torch.stack([*_linear_paths(rows, lags)]).expand(parts, -1, -1)
    for _ in range(_ROUNDS):
        paths = _find_best_paths(_agreement(predictor, candidates, paths))
    best = _score(predictor, candidates, paths).topk(min(_STARTS_KEPT, paths.shape[1]), 1).indices
    paths = paths.gather(1, best.unsqueeze(2).expand(-1, -1, rows))
    for _ in range(_LAST_ROUNDS):
        paths = _find_best_paths(_agreement(predictor, candidates, paths))
    scores, numbers = _score(predictor, candidates, paths).max(1)
    return scores, paths[torch.arange(parts), numbers]


def _standardize_columns(labels: Tensor) -> Tensor:
    """Return one column for each class that occurs, with zero mean and unit variance."""
    one_hot = F.one_hot(labels, int(labels.max()) + 1).float()
    one_hot = one_hot[:, one_hot.any(0)]
    return (one_hot - one_hot.mean(0)) / one_hot.std(0).clamp_min(1e-6)


def _linear_paths(rows: int, lags: int) -> Iterator[Tensor]:
    """Yield lags that grow evenly from one of several starts to one of several ends."""
    share = torch.arange(rows) / rows
    for start in sorted({0, lags // 4, lags // 2, 3 * lags // 4}):
        for end in range(start, lags, max(1, lags // 8)):
            yield (start + (end - start) * share).long()


def _leave_one_out_matrix(x: Tensor) -> Tensor:
    """Return the matrix that predicts the targets of each row from those of the others, by kernel ridge regression."""
    squared_distances = torch.cdist(x, x).square()
    kernel = torch.exp(-squared_distances / squared_distances.median().clamp_min(1e-6))
    inverse = torch.linalg.inv(kernel + _RIDGE_STRENGTH * torch.eye(len(x)))
    predictor: Tensor = torch.eye(len(x)) - inverse / inverse.diagonal()[:, None]
    return predictor


def _predict(predictor: Tensor, candidates: Tensor, paths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the labels along each path (shifts × paths × rows × columns), and their predictions."""
    index = paths[..., None, None].expand(-1, -1, -1, 1, candidates.shape[-1])
    chosen = candidates.unsqueeze(1).expand(-1, paths.shape[1], -1, -1, -1).gather(3, index).squeeze(3)
    return chosen, predictor @ chosen


def _agreement(predictor: Tensor, candidates: Tensor, paths: Tensor) -> Tensor:
    """Return how well each label agrees with the prediction of its row, for each lag."""
    _, predictions = _predict(predictor, candidates, paths)
    predictions = predictions / predictions.std((2, 3), keepdim=True).clamp_min(1e-6)
    agreement: Tensor = torch.einsum("spnc,snlc->spnl", predictions, candidates) / candidates.shape[-1]
    return agreement


def _score(predictor: Tensor, candidates: Tensor, paths: Tensor) -> Tensor:
    """Return the explained variance of the labels along each path, each row predicted from the others."""
    chosen, predictions = _predict(predictor, candidates, paths)
    explained: Tensor = 1 - (chosen - predictions).square().mean((2, 3)) / chosen.var((2, 3))
    return explained


def _find_best_paths(agreement: Tensor) -> Tensor:
    """Return the lags that never decrease with the largest sum of agreement, less a cost for each jump."""
    parts, starts, rows, lags = agreement.shape
    totals = torch.full((rows, parts, starts, _MAX_JUMP + lags), -torch.inf)  # no jump starts before the first lag
    sums = totals[..., _MAX_JUMP:]
    sums[0] = agreement[:, :, 0]
    for row in range(1, rows):
        best = sums[row - 1]
        for jump in range(1, _MAX_JUMP + 1):
            best = torch.maximum(best, totals[row - 1, ..., _MAX_JUMP - jump : -jump] - jump * _JUMP_COST)
        torch.add(best, agreement[:, :, row], out=sums[row])
    path = [sums[-1].argmax(-1, keepdim=True)]
    jumps = torch.arange(_MAX_JUMP + 1)
    for row in range(rows - 2, -1, -1):
        options = totals[row].gather(-1, path[-1] + _MAX_JUMP - jumps) - jumps * _JUMP_COST
        path.append(path[-1] - options.argmax(-1, keepdim=True))
    return torch.cat(path[::-1], -1)


def _find_unequal_lengths(dataset: Any) -> UnequalLengths | None:
    """Return the attributes that hold two parts of the samples by index but have different lengths."""
    stored = {
        name: value
        for name, value in list(vars(dataset).items() if hasattr(dataset, "__dict__") else ())[:_MAX_ATTRIBUTES]
        if hasattr(value, "__getitem__") and hasattr(value, "__len__") and not isinstance(value, (str, dict))
    }
    owners: list[str] = []
    for part in tree_children(dataset[0]):
        matching = [name for name, value in stored.items() if _holds_part(dataset, value, part)]
        if len(matching) == 1:
            owners += matching
    lengths = {name: len(stored[name]) for name in owners}
    if len(set(lengths.values())) < 2:
        return None
    shortest, longest = min(lengths, key=lambda name: lengths[name]), max(lengths, key=lambda name: lengths[name])
    lines = find_assignments(dataset, shortest)
    return UnequalLengths((shortest, longest), (lengths[shortest], lengths[longest]), lines[-1] if lines else None)


def _holds_part(dataset: Any, stored: Any, part: Any) -> bool:
    """Return whether a stored sequence has a part of some samples at their indices."""
    step = max(1, len(dataset) // _PROBED_ROWS)
    try:
        pairs = [(torch.as_tensor(stored[i]), torch.as_tensor(dataset[i][part])) for i in range(0, len(dataset), step)]
    except (TypeError, ValueError, IndexError, KeyError, RuntimeError):
        return False
    return all(a.shape == b.shape and bool((a == b).all()) for a, b in pairs)
