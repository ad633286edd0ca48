"""A token that is frequent in one split and rare in the other, such as the one that stands for unknown words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.partial_streams import check_no_ordered_stream
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup

_MIN_ROWS, _MIN_POSITIONS = 30, 3
_MIN_SHARE, _MIN_RATIO = 0.15, 10.0
_MIN_ROW_SHARE = 0.5  # of the samples of a split that contain the token


@dataclass(frozen=True)
class TokenShares:
    """A token of an input, and its share of all tokens in training and in validation, without padding."""

    input_index: int
    token: int
    train: float
    val: float


@measurement
def token_shares(setup: Setup, tables: dict[str, SplitTable]) -> TokenShares | None:
    """The token whose share of the validation tokens differs most from that of the training tokens; None if similar."""
    if len(tables) < 2:
        raise NotChecked("there is no validation loader")
    check_no_ordered_stream(setup, tables)
    train, val = tables["train"], tables["val"]
    if min(len(train), len(val)) < _MIN_ROWS:
        raise NotChecked(f"needs {_MIN_ROWS} readable samples of each split")
    pairs = [pair for pair in enumerate(zip(train.inputs, val.inputs, strict=False)) if all(map(_are_tokens, pair[1]))]
    differing = [shares for index, parts in pairs for shares in _differing_tokens(index, *parts)]
    return max(differing, key=lambda shares: abs(shares.val - shares.train), default=None)


def _are_tokens(part: Tensor) -> bool:
    is_whole = not part.is_floating_point() and part.dtype not in (torch.bool, torch.uint8)
    return is_whole and part.dim() == 2 and part.shape[1] >= _MIN_POSITIONS and int(part.min()) >= 0


def _differing_tokens(index: int, train: Tensor, val: Tensor) -> Iterator[TokenShares]:
    """Yield the tokens of one input that are frequent in one split only."""
    real = [part[~_padding(part)] for part in (train, val)]
    for token in _frequent_tokens(real[0]) | _frequent_tokens(real[1]):
        shares = [_mean(tokens == token) for tokens in real]
        row_share = max(_mean((part == token).any(1)) for part in (train, val))
        if max(shares) >= _MIN_RATIO * min(shares) and row_share >= _MIN_ROW_SHARE:
            yield TokenShares(index, token, *shares)


def _frequent_tokens(tokens: Tensor) -> set[int]:
    values, counts = tokens.unique(return_counts=True)  # type: ignore[no-untyped-call]
    return {int(value) for value in values[counts >= max(_MIN_SHARE * len(tokens), 1)].tolist()}


def _mean(is_token: Tensor) -> float:
    return float(is_token.double().mean()) if len(is_token) else 0.0


def _padding(part: Tensor) -> Tensor:
    """Return which tokens are padding: runs of the same token at the end, or at the start, of two samples or more."""
    for columns in (part.flip(1), part):
        filler = columns[:, 0].mode().values
        run = (columns == filler).int().cumprod(1).bool()
        if int((run.sum(1) > 1).sum()) >= 2:
            return run.flip(1) if columns is not part else run
    return torch.zeros_like(part, dtype=torch.bool)
