"""Inputs of any kind as a plain matrix: pixels as they are, tokens as counts, categories as columns of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked

MOST_COLUMNS = 1024
Matrix = NDArray[np.float32]


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """Batches laid one after the other; where they were padded to different lengths, the short ones get zeros."""
    if len({one.dim() for one in parts}) != 1:
        raise NotChecked("the inputs of different rows have different numbers of axes")
    shape = [max(sizes) for sizes in zip(*(one.shape[1:] for one in parts), strict=True)]
    return torch.cat([padded(one, shape) for one in parts])


def padded(part: Tensor, shape: Sequence[int]) -> Tensor:
    """A batch with zeros behind it along every axis but the first."""
    behind = [(0, want - have) for want, have in zip(shape, part.shape[1:], strict=True)]
    flat = [one for pair in reversed(behind) for one in pair]
    return F.pad(part, flat) if any(flat) else part


def matrix(parts: Sequence[Tensor]) -> Matrix:
    """One row a sample, of all parts of the input; raises NotChecked where there is nothing to take."""
    columns = [part_columns(one) for one in parts]
    if not columns:
        raise NotChecked("the inputs have no tensor with a row for each sample")
    whole = torch.cat(columns, 1)
    return np.asarray(torch.nan_to_num(narrowed(whole), 0.0, 0.0, 0.0).numpy(), np.float32)


def part_columns(part: Tensor) -> Tensor:
    """The columns of one tensor."""
    part = part.detach().cpu()
    if part.dim() == 2 and is_coded(part):
        return coded(part.long())
    if part.dim() == 1 and is_coded(part[:, None]):
        return coded(part[:, None].long())
    if part.is_complex():
        part = torch.view_as_real(part)
    part = part.float()
    if part.dim() == 4 and part[0].numel() > MOST_COLUMNS:
        part = shrunken(part)
    return part.reshape(len(part), -1)


def is_coded(part: Tensor) -> bool:
    """Whether whole numbers stand for tokens or categories."""
    kinds = (torch.uint8, torch.bool)
    return not part.is_floating_point() and not part.is_complex() and part.dtype not in kinds and int(part.min()) >= 0


def coded(codes: Tensor) -> Tensor:
    """How often each code occurs, past a thousand of them those with the same remainder together; and, where it fits,
    which code stands at which place."""
    many = int(codes.max()) + 1
    width = min(many, MOST_COLUMNS)
    counts = torch.zeros(len(codes), width).scatter_add_(1, codes % width, torch.ones(codes.shape))
    if many * codes.shape[1] > MOST_COLUMNS:
        return torch.log1p(counts)
    return torch.cat([torch.log1p(counts), F.one_hot(codes, many).flatten(1).float()], 1)


def shrunken(images: Tensor) -> Tensor:
    """Images, channels first or last, with so few pixels that they fit."""
    if images.shape[3] <= 4 < images.shape[1]:
        images = images.movedim(3, 1)
    side = max(int((MOST_COLUMNS / images.shape[1]) ** 0.5), 1)
    return F.adaptive_avg_pool2d(images, (min(side, images.shape[2]), min(side, images.shape[3])))


def narrowed(columns: Tensor) -> Tensor:
    """At most so many columns; more are mixed at random, which keeps distances (Johnson and Lindenstrauss 1984)."""
    if columns.shape[1] <= MOST_COLUMNS:
        return columns
    mixing = torch.randn(columns.shape[1], MOST_COLUMNS, generator=torch.Generator().manual_seed(0))
    mixed: Tensor = torch.nan_to_num(columns) @ mixing / MOST_COLUMNS**0.5
    return mixed


def standardized(train: Matrix, others: Matrix) -> tuple[Any, Any]:
    """Both with the mean and the spread of the first taken out."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train)
    return scaler.transform(train), np.clip(scaler.transform(others), -10, 10)
