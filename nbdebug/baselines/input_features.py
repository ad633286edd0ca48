"""Rows of a dataset as a feature matrix."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style, peek_batches, read_sample
from nbdebug.tensors.pytree import tree_tensors

MAX_COLUMNS = 1024
Matrix = NDArray[np.float32]
MAX_ROWS, _READ_CHUNK = 5000, 64


def concatenate_padded(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate batches; pad those of different lengths with trailing zeros."""
    if len({part.dim() for part in parts}) != 1:
        raise NotChecked("the inputs of different batches have different numbers of axes")
    shape = [max(sizes) for sizes in zip(*(part.shape[1:] for part in parts), strict=True)]
    return torch.cat([_pad_to_shape(part, shape) for part in parts])


def _pad_to_shape(part: Tensor, shape: Sequence[int]) -> Tensor:
    padding = [(0, target_size - size) for target_size, size in zip(shape, part.shape[1:], strict=True)]
    flat = [amount for amounts in reversed(padding) for amount in amounts]
    return F.pad(part, flat) if any(flat) else part


def feature_matrix(parts: Sequence[Tensor]) -> Matrix:
    """Return one row per sample from all input tensors; raise NotChecked if there is no tensor."""
    columns = [_tensor_columns(part) for part in parts]
    if not columns:
        raise NotChecked("the inputs have no tensor with a row for each sample")
    combined = torch.cat(columns, 1)
    return np.asarray(torch.nan_to_num(_project_columns(combined), 0.0, 0.0, 0.0).numpy(), np.float32)


def _tensor_columns(part: Tensor) -> Tensor:
    part = part.detach().cpu()
    if part.dim() == 2 and _holds_codes(part):
        return _encode_codes(part.long())
    if part.dim() == 1 and _holds_codes(part[:, None]):
        return _encode_codes(part[:, None].long())
    if part.is_complex():
        part = torch.view_as_real(part)
    part = part.float()
    if part.dim() == 4 and part[0].numel() > MAX_COLUMNS:
        part = _downscale_images(part)
    return part.reshape(len(part), -1)


def _holds_codes(part: Tensor) -> bool:
    """Return whether integers stand for tokens or categories."""
    excluded_dtypes = (torch.uint8, torch.bool)
    return (
        not part.is_floating_point()
        and not part.is_complex()
        and part.dtype not in excluded_dtypes
        and int(part.min()) >= 0
    )


def _encode_codes(codes: Tensor) -> Tensor:
    """Return how often each code occurs, plus one-hot codes by position if they fit.

    Codes from 1,024 on are counted modulo 1,024.
    """
    n_codes = int(codes.max()) + 1
    width = min(n_codes, MAX_COLUMNS)
    counts = torch.zeros(len(codes), width).scatter_add_(1, codes % width, torch.ones(codes.shape))
    if n_codes * codes.shape[1] > MAX_COLUMNS:
        return torch.log1p(counts)
    return torch.cat([torch.log1p(counts), F.one_hot(codes, n_codes).flatten(1).float()], 1)


def _downscale_images(images: Tensor) -> Tensor:
    """Downscale images, channels first or last, to at most 1,024 values."""
    if images.shape[3] <= 4 < images.shape[1]:
        images = images.movedim(3, 1)
    side = max(int((MAX_COLUMNS / images.shape[1]) ** 0.5), 1)
    return F.adaptive_avg_pool2d(images, (min(side, images.shape[2]), min(side, images.shape[3])))


def _project_columns(columns: Tensor) -> Tensor:
    """Return at most 1,024 columns; more are projected randomly (Johnson and Lindenstrauss 1984)."""
    if columns.shape[1] <= MAX_COLUMNS:
        return columns
    projection = torch.randn(columns.shape[1], MAX_COLUMNS, generator=torch.Generator().manual_seed(0))
    projected: Tensor = torch.nan_to_num(columns) @ projection / MAX_COLUMNS**0.5
    return projected


def standardize(train: Matrix, evaluated: Matrix) -> tuple[Any, Any]:
    """Standardize both with the mean and standard deviation of the first."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train)
    return scaler.transform(train), np.clip(scaler.transform(evaluated), -10, 10)


def standardize_columns(features: Matrix) -> Matrix:
    """Return features with zero mean and unit variance in each column, within ten standard deviations."""
    deviations = features - features.mean(0)
    scale = features.std(0)
    standardized: Matrix = np.clip(deviations / np.where(scale > 0, scale, 1.0), -10, 10).astype(np.float32)
    return standardized


@dataclass(frozen=True)
class InputRows:
    """Rows that were read: input tensors, targets, and their positions among the requested rows."""

    parts: tuple[Tensor, ...]
    targets: Any
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def read_training_rows(setup: Setup, deadline: float, excluded_indices: frozenset[int] = frozenset()) -> InputRows:
    """Read up to 5,000 training rows: random ones if the dataset can be read by index, else the first ones."""
    loader = setup.train_loader
    if not is_map_style(loader):
        parsed_batches = (setup.split_batch(raw) for raw, _ in peek_batches(loader, MAX_ROWS, "train_loader"))
        return to_input_rows(_take_until(parsed_batches, deadline))
    order = [index for index in get_visited_indices(loader) if index not in excluded_indices]
    random.Random(0).shuffle(order)
    return read_rows(setup, loader.dataset, loader.collate_fn, order[:MAX_ROWS], deadline)


def read_rows(
    setup: Setup, dataset: Any, collate: Callable[..., Any], order: Sequence[int], deadline: float
) -> InputRows:
    """Read rows by dataset index, in the given order, until the time limit."""
    chunks = (order[start : start + _READ_CHUNK] for start in range(0, len(order), _READ_CHUNK))
    parsed_batches = (setup.split_batch(collate([read_sample(dataset, index) for index in chunk])) for chunk in chunks)
    return to_input_rows(_take_until(parsed_batches, deadline))


def _take_until(parsed_batches: Iterator[Batch], deadline: float) -> Iterator[Batch]:
    """Yield batches until the time limit or until there are 5,000 rows."""
    rows = 0
    for batch in parsed_batches:
        yield batch
        rows += batch.size
        if rows >= MAX_ROWS or time.perf_counter() > deadline:
            return


def to_input_rows(parsed_batches: Iterable[Batch]) -> InputRows:
    """Concatenate batches; raise NotChecked if inputs or targets do not have one row per sample."""
    pairs = [(_per_sample_tensors(batch), batch.target) for batch in islice(parsed_batches, MAX_ROWS)]
    if not pairs or any(len(parts) != len(pairs[0][0]) for parts, _ in pairs):
        raise NotChecked("the inputs could not be read as rows")
    if not all(isinstance(target, Tensor) for _, target in pairs):
        raise NotChecked("the target is not one tensor")
    if len({target.shape[1:] for _, target in pairs}) > 1:
        raise NotChecked("the targets have another shape in each batch")
    parts = tuple(concatenate_padded([parts[i] for parts, _ in pairs]) for i in range(len(pairs[0][0])))
    targets = torch.cat([target.detach().cpu() for _, target in pairs])
    return InputRows(parts, targets, np.arange(len(targets)))


def _per_sample_tensors(batch: Batch) -> list[Tensor]:
    """Return the inputs that have a row for each sample; a learner must not read labels that the model takes too."""
    size = batch.size
    leaves = tree_tensors(batch.unlabeled_inputs)
    return [leaf.detach().cpu() for leaf in leaves if leaf.layout == torch.strided and leaf.dim() and len(leaf) == size]
