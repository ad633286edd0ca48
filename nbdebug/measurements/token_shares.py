"""A token that is frequent in one split and rare in the other, such as the one that stands for unknown words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement

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
def token_shares(tables: dict[str, SplitTable]) -> TokenShares | None:
    """The token whose share of the validation tokens differs most from that of the training tokens; None if similar."""
    if len(tables) < 2:
        raise NotChecked("there is no validation loader")
    train, val = tables["train"], tables["val"]
    if min(len(train), len(val)) < _MIN_ROWS:
        raise NotChecked(f"needs {_MIN_ROWS} readable samples of each split")
    candidates = [
        shares
        for index, (first, second) in enumerate(zip(train.inputs, val.inputs, strict=False))
        if _are_tokens(first) and _are_tokens(second)
        for shares in [_compare(index, first, second)]
        if shares is not None
    ]
    return max(candidates, key=lambda shares: abs(shares.val - shares.train), default=None)


def _are_tokens(part: Tensor) -> bool:
    is_whole = not part.is_floating_point() and part.dtype not in (torch.bool, torch.uint8)
    return is_whole and part.dim() == 2 and part.shape[1] >= _MIN_POSITIONS and int(part.min()) >= 0


def _compare(index: int, train: Tensor, val: Tensor) -> TokenShares | None:
    """Return the token of one input that dominates one split only."""
    size = int(max(train.max(), val.max())) + 1
    shares, row_shares = zip(*(_shares(part, size) for part in (train, val)), strict=True)
    smaller, larger = torch.minimum(*shares), torch.maximum(*shares)
    is_common = (larger >= _MIN_SHARE) & (torch.maximum(*row_shares) >= _MIN_ROW_SHARE)
    differs = is_common & (larger >= _MIN_RATIO * smaller)
    if not bool(differs.any()):
        return None
    token = int((larger * differs).argmax())
    return TokenShares(index, token, float(shares[0][token]), float(shares[1][token]))


def _shares(part: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the share of each token in all tokens, and the share of the samples that contain it.

    Padding does not count.
    """
    is_real = ~_padding(part)
    counts = torch.bincount(part[is_real], minlength=size).double()
    kept = part.where(is_real, torch.full_like(part, size)).long()
    present = torch.zeros(len(part), size + 1, dtype=torch.bool).scatter_(1, kept, True)[:, :size]
    return counts / counts.sum().clamp_min(1), present.double().mean(0)


def _padding(part: Tensor) -> Tensor:
    """Return which tokens are padding: runs of the same token at the end, or at the start, of two samples or more."""
    for columns in (part.flip(1), part):
        filler = columns[:, 0].mode().values
        run = (columns == filler).int().cumprod(1).bool()
        if int((run.sum(1) > 1).sum()) >= 2:
            return run.flip(1) if columns is not part else run
    return torch.zeros_like(part, dtype=torch.bool)
