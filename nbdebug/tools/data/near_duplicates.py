"""Near duplicates among the rows of all splits, by an index of perceptual signatures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.statistics.intervals import benjamini_hochberg
from nbdebug.tools.data.row_index import RowIndex

_Matrix = NDArray[np.float32]
_MAX_COLUMNS, _IMAGE_SIDE, _HASHED_TOKENS = 256, 12, 192
NEIGHBORS, _MIN_ROWS, _LEVEL, _MAX_RATIO = 20, 60, 0.01, 0.6
_MIN_DIMENSION, _MAX_DIMENSION = 1.0, 60.0
_MIN_DETAIL_CORRELATION, _DETAIL_SIDE = 0.45, 32
_HASH_FACTOR, _HASH_SHIFT, _PAIR_FACTORS = 2_654_435_761, 20, (1_000_003, 8_191)
_MIN_SHARED_TOKENS = 0.9


def signatures(parts: Sequence[Tensor]) -> _Matrix | None:
    """Return one row of numbers for each sample, close for samples that look alike; None for inputs of other kinds.

    Images are scaled to 12 × 12 gray pixels with mean 0 and length 1, so that brightness and contrast do not count.
    Columns of tables and series are standardized, and tokens are counted.
    """
    columns = [_part_signature(part) for part in parts if part.numel() and not part.is_complex()]
    if not columns:
        return None
    joined = torch.cat(columns, 1)
    return np.ascontiguousarray(torch.nan_to_num(joined, 0.0, 0.0, 0.0).numpy(), np.float32)


def _part_signature(part: Tensor) -> Tensor:
    if _is_tokens(part):
        return _count_tokens(part)
    values = part.float()
    if values.dim() >= 3 and min(values.shape[-2:]) >= 4:
        gray = values.reshape(len(values), -1, *values.shape[-2:]).mean(1, keepdim=True)
        height, width = (min(side, _IMAGE_SIDE) for side in values.shape[-2:])
        flat = F.adaptive_avg_pool2d(gray, (height, width)).flatten(1)
        return F.normalize(flat - flat.mean(1, keepdim=True), dim=1)
    flat = values.reshape(len(values), -1)
    if flat.shape[1] > _MAX_COLUMNS:
        flat = F.adaptive_avg_pool1d(flat[:, None], _MAX_COLUMNS)[:, 0]
    flat = torch.nan_to_num(flat, 0.0, 0.0, 0.0)
    spread = flat.std(0)
    standardized: Tensor = ((flat - flat.mean(0)) / torch.where(spread > 0, spread, 1.0)).clamp(-10, 10)
    return standardized


def _is_tokens(part: Tensor) -> bool:
    return part.dim() == 2 and not part.is_floating_point() and part.shape[1] > 2


def _count_tokens(tokens: Tensor) -> Tensor:
    """Return the square roots of the shares of hashed tokens and of pairs of neighbors, without the most common one."""
    tokens = tokens.long()
    padding = tokens[:, -1].mode().values
    words = torch.cat([tokens, tokens[:, 1:] * _PAIR_FACTORS[0] + tokens[:, :-1] * _PAIR_FACTORS[1]], 1)
    words = (words * _HASH_FACTOR) >> _HASH_SHIFT  # tokens that fall together must not do so in their pairs too
    is_word = torch.cat([tokens != padding, (tokens[:, 1:] != padding) & (tokens[:, :-1] != padding)], 1)
    counts = torch.zeros(len(tokens), _HASHED_TOKENS).scatter_add_(1, words.remainder(_HASHED_TOKENS), is_word.float())
    return (counts / counts.sum(1, keepdim=True).clamp_min(1)).sqrt()


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of rows that are closer than chance explains, the closest first, with the ratios of their distances.

    A ratio is the distance of a pair to that of the twentieth neighbor. ``dimension`` is the median of the local
    dimensions of the rows; ``rows`` is their number. ``doubtful`` are the ratios of pairs of neighbors that are close,
    but not closer than chance explains.
    """

    pairs: tuple[tuple[int, int], ...]
    ratios: tuple[float, ...]
    dimension: float
    rows: int
    doubtful: Mapping[tuple[int, int], float] = field(default_factory=dict)

    @property
    def detectable_ratio(self) -> float:
        """The largest ratio of a single pair among all rows that would have been selected."""
        if not self.rows:
            return 0.0
        chance = _LEVEL / self.rows
        return float(min(-np.expm1(np.log1p(-chance) / (NEIGHBORS - 1)), 1.0) ** (1 / self.dimension))


def find_near_pairs(points: _Matrix) -> NearPairs:
    """Find the rows that are closer to another row than chance explains.

    Where points are spread evenly around a row in m dimensions, the nearest of its k neighbors has less than a share r
    of the distance of the k-th with probability 1 - (1 - r^m)^(k - 1). Rows are selected at a false discovery rate of
    1% (Benjamini and Hochberg), and by a ratio below 0.6. m is the median of the local dimensions (Levina and Bickel
    2004, Maximum Likelihood Estimation of Intrinsic Dimension).
    """
    if len(points) < _MIN_ROWS:
        return NearPairs((), (), 0.0, 0)
    distances, neighbors = RowIndex(points).nearest(points, np.arange(len(points)), NEIGHBORS)
    farthest = distances[:, -1]
    usable = np.isfinite(farthest) & (farthest > 0)
    ratios = np.where(usable, distances[:, 0] / np.where(usable, farthest, 1), 1.0).astype(np.float64)
    dimension = _median_dimension(distances[usable])
    chance = -np.expm1((NEIGHBORS - 1) * np.log1p(-np.minimum(ratios**dimension, 1 - 1e-12)))
    is_close, is_likely = ratios < _MAX_RATIO, benjamini_hochberg(chance, len(chance)) > _LEVEL
    pairs = _pair_with_nearest(np.flatnonzero(is_close & ~is_likely), neighbors, ratios)
    doubtful = _pair_with_nearest(np.flatnonzero(is_close & is_likely), neighbors, ratios)
    ordered = sorted(pairs, key=lambda key: pairs[key])
    return NearPairs(tuple(ordered), tuple(pairs[key] for key in ordered), dimension, len(points), doubtful)


def _pair_with_nearest(
    rows: NDArray[np.int64], neighbors: NDArray[np.int64], ratios: NDArray[np.float64]
) -> dict[tuple[int, int], float]:
    """Return the pairs of some rows and their nearest neighbors, with the smaller ratio of both."""
    pairs: dict[tuple[int, int], float] = {}
    for row in rows.tolist():
        other = int(neighbors[row, 0])
        key = (min(row, other), max(row, other))
        pairs[key] = min(float(ratios[row]), pairs.get(key, 1.0))
    return pairs


def have_same_details(images: Tensor, pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return for each pair of images whether they agree in detail, not only in their shades.

    ``images`` has the shape (rows, channels, height, width). The details are what a blur of 5 × 5 pixels removes from
    at most 32 × 32; they must have a correlation of 0.45. Copies of patches of photographs as JPEG of quality 30 to 80
    have 0.58 or more in 98%, and different smooth patches, such as sky, at most 0.42.
    """
    first, second = (_details(images[[pair[side] for pair in pairs]]) for side in (0, 1))
    agrees: NDArray[np.bool_] = (F.cosine_similarity(first, second, dim=1) > _MIN_DETAIL_CORRELATION).numpy()
    return agrees


def _details(images: Tensor) -> Tensor:
    gray = torch.nan_to_num(images.float().mean(1, keepdim=True), 0.0, 0.0, 0.0)
    height, width = (min(side, _DETAIL_SIDE) for side in gray.shape[-2:])
    gray = F.adaptive_avg_pool2d(gray, (height, width))
    blurred = F.avg_pool2d(F.pad(gray, (2, 2, 2, 2), mode="replicate"), 5, 1)
    details: Tensor = (gray - blurred).flatten(1)
    return details - details.mean(1, keepdim=True)


def have_same_tokens(parts: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return for each pair of rows whether nine tenths of the tokens of the longer text are in the other one too.

    Short texts that differ in a word are no copies, such as "one of the best movies" and "one of the worst movies".
    Inputs other than texts do not count.
    """
    agrees = np.ones(len(pairs), dtype=bool)
    for part in filter(_is_tokens, parts):
        padding = part[:, -1].mode().values
        for number, pair in enumerate(pairs):
            first, second = (Counter(row[row != padding].tolist()) for row in part[list(pair)])
            longer = max(first.total(), second.total())
            agrees[number] &= (first & second).total() >= _MIN_SHARED_TOKENS * longer
    return agrees


def _median_dimension(distances: _Matrix) -> float:
    """Return the median local dimension, from the outer ten of the twenty neighbors of each row.

    In m dimensions, m · log(T_k / T_j) of the distances to the j-th and the k-th neighbor has the mean 1/j + ... +
    1/(k-1).
    """
    if not len(distances):
        return _MIN_DIMENSION
    inner = np.arange(NEIGHBORS // 2, NEIGHBORS)
    expected = sum(float((1 / np.arange(j, NEIGHBORS)).sum()) for j in inner)
    logs = np.log(distances[:, -1:] / np.maximum(distances[:, inner - 1], 1e-30)).sum(1)
    return float(np.clip(np.median(expected / np.maximum(logs, 1e-6)), _MIN_DIMENSION, _MAX_DIMENSION))
