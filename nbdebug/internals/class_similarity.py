"""Summaries of activations, their similarity to class means, and the samples to compare with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs, check_same_shapes
from nbdebug.inference.model_runner import ModelRunner
from nbdebug.internals.layers import LayerCall
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup

_MIN_SQUARED_LENGTH = 1e-24  # squared length that counts as zero
MAX_VECTOR_LENGTH = 4096
_MAX_SAMPLES = 256
TIME_LIMIT, _MIN_SAMPLES = 4.0, 16  # time limit for running samples, and minimum number of samples
MAX_ROWS, _MAX_VALUES = 32, 2**20  # samples, and input values, per forward pass


class ClassMeans:
    """Sums of the activations of one layer by class."""

    def __init__(self, classes: Tensor, length: int) -> None:
        self.classes = classes
        self.sums = torch.zeros(len(classes), length, dtype=torch.float64)
        self.counts = torch.zeros(len(classes), dtype=torch.float64)

    def membership(self, labels: Tensor) -> Tensor:
        """Return samples × classes, 1 if a sample has the class."""
        return (labels[:, None] == self.classes).double()

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add samples of any classes."""
        membership = self.membership(labels)
        self.sums += membership.T @ vectors.double()
        self.counts += membership.sum(0)

    def cosines(self, vectors: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the cosines of samples to the class means, samples × classes; NaN for a class without samples.

        ``labels`` are passed for samples that were added: each is left out of the mean of its own class. Only the inner
        products of the sample and the class sums are needed.
        """
        vectors = vectors.double()
        size = len(self.classes)
        membership = torch.zeros(len(vectors), size, dtype=torch.float64) if labels is None else self.membership(labels)
        counts = self.counts - membership
        has_samples = counts > 0
        share = torch.where(has_samples, 1 / counts.clamp_min(1), 0)
        means = torch.cat([(-membership * share)[..., None], torch.diag_embed(share)], 2)
        center = means.sum(1, keepdim=True) / has_samples.sum(1).clamp_min(1)[:, None, None]
        own_weights = torch.zeros(len(vectors), 1, size + 1, dtype=torch.float64)
        own_weights[..., 0] = 1
        sample_offsets, mean_offsets, products = own_weights - center, means - center, self.inner_products(vectors)
        dots = (mean_offsets @ products @ sample_offsets.mT)[..., 0]
        lengths = ((mean_offsets @ products) * mean_offsets).sum(2) * (
            (sample_offsets @ products) * sample_offsets
        ).sum(2)
        similarity = dots / lengths.clamp_min(_MIN_SQUARED_LENGTH).sqrt()
        return torch.where(has_samples & (lengths > _MIN_SQUARED_LENGTH), similarity, torch.nan)

    def inner_products(self, vectors: Tensor) -> Tensor:
        """Return the inner products of each sample and the sums, samples × (1 + classes) × (1 + classes)."""
        size = len(self.classes) + 1
        matrix = torch.empty(len(vectors), size, size, dtype=torch.float64)
        matrix[:, 1:, 1:] = self.sums @ self.sums.T
        matrix[:, 0, 1:] = matrix[:, 1:, 0] = vectors @ self.sums.T
        matrix[:, 0, 0] = vectors.square().sum(1)
        return matrix


@dataclass(frozen=True)
class ActivationSummary:
    """Root mean square, mean and share of zeros, samples × 3; vectors, samples × values."""

    sizes: Tensor
    vectors: Tensor


def summarize_activations(values: Tensor, layer: LayerCall) -> ActivationSummary:
    """Summarize activations with samples first."""
    flat = values.flatten(1) if values.dim() > 1 else values[:, None]
    size = flat.shape[1]
    sizes = torch.stack([flat.norm(dim=1) / size**0.5, flat.mean(1), 1 - _count_nonzero_rows(flat) / size], 1)
    return ActivationSummary(sizes.cpu(), sample_vectors(values, layer).float().cpu())


def _count_nonzero_rows(flat: Tensor) -> Tensor:
    """Count the nonzero values of each row; on a CPU, numpy is ten times faster than torch."""
    if flat.device.type != "cpu":
        return flat.count_nonzero(1)
    return torch.tensor([np.count_nonzero(row) for row in flat.numpy()])


def sample_vectors(values: Tensor, layer: LayerCall) -> Tensor:
    """Average the positions of a sequence and pool large maps; leave other activations as they are."""
    if values.dim() == 3 and layer.channels_last:
        return _pool_to_limit(values.mean(1))
    if values.dim() < 3:
        return _pool_to_limit(values.flatten(1) if values.dim() > 1 else values[:, None])
    maps = (values.movedim(-1, 1) if layer.channels_last else values).flatten(3)
    channels, max_positions = maps.shape[1], max(1, MAX_VECTOR_LENGTH // maps.shape[1])
    if maps.dim() == 4 and maps[0, 0].numel() > max_positions:
        side = max(1, int(max_positions**0.5))
        maps = F.adaptive_avg_pool2d(maps, (min(side, maps.shape[2]), min(side, maps.shape[3])))
    elif maps.dim() == 3 and maps.shape[2] > max_positions:
        maps = F.adaptive_avg_pool1d(maps, max_positions)
    return _pool_to_limit(maps.reshape(len(maps), channels, -1).flatten(1))


def _pool_to_limit(flat: Tensor) -> Tensor:
    """Pool a vector to the maximum length."""
    if flat.shape[1] <= MAX_VECTOR_LENGTH:
        return flat
    return F.adaptive_avg_pool1d(flat[:, None], MAX_VECTOR_LENGTH)[:, 0]


@dataclass(frozen=True)
class ComparisonSamples:
    """Inputs of samples and the classes of all of them in order, None if unknown.

    ``may_use_predictions`` allows to use predicted classes, because there are no targets.
    """

    batches: tuple[ModelInputs, ...]
    labels: Tensor | None = None
    may_use_predictions: bool = False

    def __len__(self) -> int:
        return sum(inputs.size for inputs in self.batches)

    def take_first(self, size: int) -> ComparisonSamples:
        """Return at most ``size`` samples."""
        chosen: list[ModelInputs] = []
        for inputs in self.batches:
            remaining = size - sum(part.size for part in chosen)
            if remaining > 0:
                chosen.append(inputs.take(torch.arange(min(remaining, inputs.size))))
        return ComparisonSamples(
            tuple(chosen), self.labels if self.labels is None else self.labels[:size], self.may_use_predictions
        )

    def iterate_chunks(self, limited: bool = True) -> Iterator[ModelInputs]:
        """Yield chunks of samples; stops early if they take too long."""
        deadline, done = time.perf_counter() + TIME_LIMIT, 0
        for inputs in self.batches:
            widest = max(leaf[0].numel() for _, leaf in inputs.named_tensors if leaf.dim())
            rows = max(1, min(MAX_ROWS, _MAX_VALUES // max(widest, 1)))
            for start in range(0, inputs.size, rows):
                if limited and done >= _MIN_SAMPLES and time.perf_counter() > deadline:
                    return
                part = inputs.take(torch.arange(start, min(start + rows, inputs.size)))
                done += part.size
                yield part

    def without(self, sample: ModelInputs) -> ComparisonSamples:
        """Remove a sample that is one of them."""
        remaining: list[ModelInputs] = []
        masks: list[Tensor] = []
        for inputs in self.batches:
            is_other = ~_equals_sample(inputs, sample)
            masks.append(is_other)
            if bool(is_other.any()):
                remaining.append(inputs if bool(is_other.all()) else inputs.take(is_other.nonzero()[:, 0]))
        labels = self.labels if self.labels is None else self.labels[torch.cat(masks)]
        return ComparisonSamples(tuple(remaining), labels, self.may_use_predictions)


def _equals_sample(inputs: ModelInputs, sample: ModelInputs) -> Tensor:
    """Check which samples have the same inputs as a sample."""
    is_equal = torch.ones(inputs.size, dtype=torch.bool)
    for index, _, leaf in inputs.sample_leaves:
        if index >= len(sample.leaves):  # labels, which the sample has not
            break
        sample_leaf = sample.leaves[index]
        if leaf.shape[1:] != sample_leaf.shape[1:]:
            return torch.zeros_like(is_equal)
        is_equal &= (leaf == sample_leaf).flatten(1).all(1).cpu() if leaf.dim() > 1 else (leaf == sample_leaf).cpu()
    return is_equal


def get_comparison_samples(
    setup_or_model: Any, runner: ModelRunner, background: Any, labels: Any, reference: ModelInputs | None = None
) -> ComparisonSamples:
    """Return the given background, else the first training samples of a Setup.

    Raises SetupError if there is neither, and for samples of another format than ``reference``.
    """
    if isinstance(background, ComparisonSamples):
        return background
    if background is not None:
        inputs = runner.inputs(background, "background")
        if reference is not None and any(map(_differs_in_format, reference.leaves, inputs.leaves)):
            check_same_shapes(reference, inputs)
        classes = background.target_or_label if labels is None and isinstance(background, Batch) else labels
        return ComparisonSamples((inputs,), to_classes(classes, inputs.size), classes is None)
    if not isinstance(setup_or_model, Setup):
        raise SetupError("background is None; expected samples to compare with. Pass background= and labels=.")
    return _training_samples(setup_or_model, runner)


def _differs_in_format(leaf: Any, second_leaf: Any) -> bool:
    """Check for inputs with incompatible shapes; sequence lengths may differ."""
    if not (isinstance(leaf, Tensor) and isinstance(second_leaf, Tensor)):
        return False
    table = leaf.dim() == 2 and leaf.is_floating_point()
    return leaf.dim() != second_leaf.dim() or (table and leaf.shape[1] != second_leaf.shape[1])


def _training_samples(setup: Setup, runner: ModelRunner) -> ComparisonSamples:
    """Return the first samples of the training loader with their classes, without consuming the loader."""
    batches: list[ModelInputs] = []
    labels: list[Tensor | None] = []
    may_use_predictions = True
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        for batch in setup.batches(_MAX_SAMPLES, "train"):
            inputs = ModelInputs.of(batch)
            row_count = min(inputs.size, _MAX_SAMPLES - sum(item.size for item in batches))
            batch_labels = to_classes(batch.target_or_label, inputs.size)
            may_use_predictions = may_use_predictions and batch.target_or_label is None
            labels.append(None if batch_labels is None else batch_labels[:row_count])
            batches.append(runner.inputs(inputs.take(torch.arange(row_count))))
            if sum(item.size for item in batches) >= _MAX_SAMPLES:
                break
    present = [item for item in labels if item is not None]
    return ComparisonSamples(
        tuple(batches), torch.cat(present) if present and len(present) == len(labels) else None, may_use_predictions
    )


def to_classes(target: Any, size: int) -> Tensor | None:
    """Convert targets to one class per sample; None if they are not classes."""
    if target is None or (isinstance(target, (tuple, list)) and not all(isinstance(value, int) for value in target)):
        return None
    values = torch.as_tensor(target).detach().cpu()
    if values.dim() == 2 and values.shape == (size, values.shape[1]) and values.shape[1] > 1:
        one_hot = bool(((values == 0) | (values == 1)).all() and (values.sum(1) == 1).all())
        return values.argmax(1) if one_hot else None
    if values.numel() != size:
        return None
    values = values.reshape(-1)
    return values.long() if bool((values == values.round()).all() and (values >= 0).all()) else None
