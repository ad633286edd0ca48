"""Codes of categories in the inputs that stand for other categories in the validation split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement

_MIN_CODES, _MAX_CODES, _MIN_ROWS, _MAX_COLUMNS = 4, 300, 5, 200
_MAX_CODES_BY_MEANS = 30  # of more codes, some exchange makes almost any means agree
_FIRST_ROWS = 1_000
_ROUNDING = 1e-9
_MIN_MOVED, _MIN_SIGMA, _MAX_RENUMBERED_SIGMA = 2, 5.0, 2.5
_MAX_SIGMA_OF_BOTH, _MIN_BROKEN = 1.5, 0.5
_SHUFFLES = 20
_MAX_CERTAIN_SIGMA, _MIN_OTHER_SIGMA = 2.5, 4.0  # a pair is certain if it is this close and all others this far
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RenumberedCodes:
    """A column of whole numbers whose mean targets agree between the splits only after the codes are renumbered.

    ``codes`` has the validation code and the training code of the same mean target, for the codes that differ;
    ``certain_codes`` are those of them that fit no other code.
    ``sigma`` is the root mean square of the differences of the mean targets of all ``count`` codes as they are, in
    standard errors; ``renumbered_sigma`` is that after renumbering. ``share_sigmas`` are both for the shares of the
    samples with each code; None if the shares were not compared. ``values`` are the validation codes.
    """

    input_index: int
    column: int | None
    codes: dict[int, int]
    certain_codes: dict[int, int]
    count: int
    sigma: float
    renumbered_sigma: float
    share_sigmas: tuple[float, float] | None
    values: _Floats = field(repr=False, compare=False)


@dataclass(frozen=True)
class _CodeStatistics:
    """Mean targets of the rows of each code and their squared standard errors, and the share of the rows."""

    codes: list[Any]
    means: _Floats
    variances: _Floats
    shares: _Floats
    rows: int


@dataclass(frozen=True)
class _Renumbering:
    """The training code of each validation code, which of these are certain, and the differences."""

    codes: dict[Any, Any]
    certain: list[Any]
    sigma: float
    renumbered_sigma: float
    share_sigmas: tuple[float, float] | None = None


@measurement
def renumbered_codes(tables: dict[str, SplitTable]) -> RenumberedCodes | None:
    """The first input column whose codes stand for other categories in validation, by the mean target of each code.

    A target that drifts moves the mean of each code, and no exchange of codes explains that. An exchange that is linear
    in the codes is a change of scale, as of inverted pixels, and does not count.
    """
    if tables.keys() < {"train", "val"}:
        raise NotChecked("needs the samples of both splits")
    train_targets, val_targets = (tables[split].target_values() for split in ("train", "val"))
    if train_targets is None or val_targets is None:
        raise NotChecked("the targets are not one number per sample")
    for input_index, column, train_codes, val_codes in _code_columns(tables["train"], tables["val"]):
        train, val = _statistics(train_codes, train_targets), _statistics(val_codes, val_targets)
        match = _match_means(train, val) or _match_means_and_shares(train, val)
        if match is None or _is_linear(match.codes):
            continue
        moved = {int(own): int(other) for own, other in match.codes.items() if own != other}
        certain = {code: moved[code] for code in map(int, match.certain) if code in moved}
        sigmas = match.sigma, match.renumbered_sigma, match.share_sigmas
        return RenumberedCodes(input_index, column, moved, certain, len(match.codes), *sigmas, val_codes)
    return None


def _is_linear(codes: dict[Any, Any]) -> bool:
    own, other = np.array([*codes]), np.array([*codes.values()])
    return bool(np.ptp(np.diff(other) / np.diff(own)) < _ROUNDING)


def _code_columns(train: SplitTable, val: SplitTable) -> Iterator[tuple[int, int | None, Any, Any]]:
    """Yield the columns of a few whole numbers that both splits share: input, column, and values of both splits."""
    for index, (train_part, val_part) in enumerate(zip(train.inputs, val.inputs, strict=False)):
        if train_part.dim() > 2 or train_part.shape[1:] != val_part.shape[1:] or train_part.is_complex():
            continue
        columns = range(min(train_part.shape[1], _MAX_COLUMNS)) if train_part.dim() == 2 else (None,)
        for column in columns:
            parts = [part if column is None else part[:, column] for part in (train_part, val_part)]
            if not _may_be_codes(parts[0]):
                continue
            own, other = (part.double().numpy() for part in parts)
            if _are_whole(own) and _are_whole(other) and len(np.unique(own)) <= _MAX_CODES:
                yield index, column, own, other


def _may_be_codes(column: Tensor) -> bool:
    """Return whether the first values are whole and all lie far enough apart for the fewest codes, at little cost."""
    if not len(column) or not _are_whole(column[:_FIRST_ROWS].double().numpy()):
        return False
    least, most = column.aminmax()
    return float(most) - float(least) >= _MIN_CODES - 1


def _are_whole(values: _Floats) -> bool:
    return bool((values == np.round(values)).all())


def _statistics(values: Any, targets: _Floats) -> _CodeStatistics:
    """Return the statistics of the codes with enough rows."""
    codes = [code for code in np.unique(values) if (values == code).sum() >= _MIN_ROWS]
    groups = [targets[values == code] for code in codes]
    rows = np.array([len(group) for group in groups])
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / max(rows.sum() - len(groups), 1)
    means = np.array([group.mean() for group in groups])
    return _CodeStatistics(codes, means, np.maximum(within, 1e-12) / rows, rows / len(values), len(values))


def _select(statistics: _CodeStatistics, codes: list[Any]) -> _CodeStatistics:
    kept = [statistics.codes.index(code) for code in codes]
    means, variances = statistics.means[kept], statistics.variances[kept]
    return _CodeStatistics(codes, means, variances, statistics.shares[kept], statistics.rows)


def _squared_differences(train: _CodeStatistics, val: _CodeStatistics) -> _Floats:
    """Return the squared differences of the mean targets of each validation and training code, in standard errors."""
    squared: _Floats = (val.means[:, None] - train.means) ** 2 / (val.variances[:, None] + train.variances)
    return squared


def _match_means(train: _CodeStatistics, val: _CodeStatistics) -> _Renumbering | None:
    """Return the training code of each validation code, if renumbering explains different means; else None."""
    codes = [code for code in val.codes if code in set(train.codes)]
    if not _MIN_CODES <= len(codes) <= _MAX_CODES_BY_MEANS or len(train.codes) > _MAX_CODES_BY_MEANS:
        return None
    squared = _squared_differences(_select(train, codes), _select(val, codes))
    own = squared.diagonal()
    if (own > _MIN_SIGMA**2).sum() < _MIN_MOVED:
        return None
    order = _assign(squared)
    sigma, renumbered_sigma = _root_mean(own), _root_mean(squared[np.arange(len(order)), order])
    if not _explains(own, order != np.arange(len(order))) or not renumbered_sigma < _MAX_RENUMBERED_SIGMA:
        return None
    renumbering = {code: codes[j] for code, j in zip(codes, order, strict=True)}
    return _Renumbering(renumbering, _certain_codes(codes, squared, order), sigma, renumbered_sigma)


def _match_means_and_shares(train: _CodeStatistics, val: _CodeStatistics) -> _Renumbering | None:
    """Return the training code of each validation code, if renumbering explains both different means and shares.

    Each code must have a counterpart of its own mean and share: with shares shuffled among the codes, no exchange fits
    as well. The means of moved codes are as far apart as those of any two codes, which a drift does not do.
    """
    shared = [code for code in val.codes if code in set(train.codes)]
    if len(shared) < _MIN_CODES or len(val.codes) > len(train.codes):
        return None
    own = _squared_differences(_select(train, shared), _select(val, shared)).diagonal()
    if (own > _MIN_SIGMA**2).sum() < _MIN_MOVED:
        return None
    means, shares = _squared_differences(train, val), _squared_share_differences(train, val, val.shares)
    order, rows = _assign(means + shares), np.arange(len(val.codes))
    renumbering = {code: train.codes[j] for code, j in zip(val.codes, order, strict=True)}
    is_moved = np.array([renumbering[code] != code for code in shared])
    sigma, share_sigma = _root_mean(means[rows, order]), _root_mean(shares[rows, order])
    if not _explains(own, is_moved) or max(sigma, share_sigma) > _MAX_SIGMA_OF_BOTH:
        return None
    if own[is_moved].mean() < _MIN_BROKEN * means.mean() or not _needs_pairs(train, val, means, shares, order):
        return None
    own_shares = shares[[val.codes.index(code) for code in shared], [train.codes.index(code) for code in shared]]
    certain = _certain_codes(val.codes, means + shares, order)
    return _Renumbering(renumbering, certain, _root_mean(own), sigma, (_root_mean(own_shares), share_sigma))


def _certain_codes(codes: list[Any], squared: _Floats, order: NDArray[np.intp]) -> list[Any]:
    """Return the codes that agree with the code which they are assigned to, and no other pair of either."""
    agreeing, close = squared <= _MAX_CERTAIN_SIGMA**2, squared < _MIN_OTHER_SIGMA**2
    is_only = (close.sum(1) == 1) & (close.sum(0)[order] == 1)
    return [code for row, code in enumerate(codes) if agreeing[row, order[row]] and is_only[row]]


def _squared_share_differences(train: _CodeStatistics, val: _CodeStatistics, val_shares: _Floats) -> _Floats:
    """Return the squared differences of the shares of each validation and training code, in standard errors."""
    pooled = (val_shares[:, None] * val.rows + train.shares * train.rows) / (val.rows + train.rows)
    errors = pooled * (1 - pooled) * (1 / val.rows + 1 / train.rows)
    squared: _Floats = (val_shares[:, None] - train.shares) ** 2 / np.maximum(errors, 1e-12)
    return squared


def _needs_pairs(
    train: _CodeStatistics, val: _CodeStatistics, means: _Floats, shares: _Floats, order: NDArray[np.intp]
) -> bool:
    """Return whether the codes fit worse, by any exchange, once their shares are shuffled among them."""
    rows, random = np.arange(len(order)), np.random.default_rng(0)
    least = (means + shares)[rows, order].mean()
    for _ in range(_SHUFFLES):
        cost = means + _squared_share_differences(train, val, random.permutation(val.shares))
        if cost[rows, _assign(cost)].mean() <= least:
            return False
    return True


def _explains(own: _Floats, is_moved: NDArray[np.bool_]) -> bool:
    """Return whether all codes with different means are moved, and enough of them."""
    differs = own > _MIN_SIGMA**2
    return bool(differs[is_moved].sum() >= _MIN_MOVED and not differs[~is_moved].any())


def _assign(cost: _Floats) -> NDArray[np.intp]:
    """Return the column of each row in the cheapest assignment."""
    from scipy.optimize import linear_sum_assignment

    columns: NDArray[np.intp] = linear_sum_assignment(cost)[1]
    return columns


def _root_mean(squared: _Floats) -> float:
    return float(squared.mean() ** 0.5)
