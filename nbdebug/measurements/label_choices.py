"""How often a loss is lower for the label of a sample than for any other label: the accuracy of any kind of output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.random_batches import read_random_batches
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_ROWS, _MIN_ROWS, _ROWS_PER_BATCH, _MAX_VALUES = 500, 100, 100, 25_000_000
_READ_SECONDS = 0.2
_MAX_LABELS, _MAX_LOSSES = 10, 2000
_EQUAL_LOSSES = 1e-3  # relative difference between the loss of a batch and the mean or the sum over its samples


class LabelChoices:
    """Measures the accuracy when it is first asked for, since few runs need it."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def accuracy(self) -> float | None:
        """Return the share of validation samples whose label has the lowest loss of all labels; None if unknown.

        Each of up to 500 samples gets the loss of its output and each label alone, in eval mode. The loss of a batch
        must be the mean or the sum of those of its samples: a loss that compares samples has no choice of labels.
        """
        try:
            batches = [*self._read()]
            labels = torch.cat([torch.empty(0), *(_get_labels(batch) for batch in batches)])
            values = sorted(set(labels.tolist()))
            if len(labels) < _MIN_ROWS or not 2 <= len(values) <= _MAX_LABELS:
                return None
            with in_mode(self.setup.eager_model, False), torch.no_grad():
                choices = [*self._iterate_choices(batches, values)]
        except (NotChecked, SetupError):
            return None
        return sum(choices) / len(choices)

    def _read(self) -> list[Batch]:
        limit = ReadingLimit(_READ_SECONDS, 2 * _MIN_ROWS)
        if self.setup.val_loader is None or self.setup.step_fn is not None:
            raise NotChecked("there are no validation samples")
        return [
            *read_random_batches(
                self.setup,
                "val",
                max_rows=_MAX_ROWS,
                batch_size=_ROWS_PER_BATCH,
                max_values=_MAX_VALUES,
                limit=limit,
            )
        ]

    def _iterate_choices(self, batches: list[Batch], values: list[float]) -> Iterator[bool]:
        """Yield whether the label of a sample has the lowest loss, for whole batches within the limit of losses."""
        count = 0
        for batch in batches:
            if count and (count + batch.size) * len(values) > _MAX_LOSSES:
                return
            count += batch.size
            yield from self._choices(batch, values)

    def _choices(self, batch: Batch, values: list[float]) -> list[bool]:
        """Return whether the label of each sample has the lowest loss; a loss that ignores the labels has none."""
        output = _predict(self.setup, batch)
        samples = [self._losses(output, batch, row, values) for row in range(batch.size)]
        labels = _get_labels(batch).tolist()
        own = [losses[values.index(label)] for losses, label in zip(samples, labels, strict=True)]
        loss = compute_loss_value(self.setup, output, batch)
        if all(abs(total - loss) > _EQUAL_LOSSES * abs(loss) for total in (sum(own), sum(own) / len(own))):
            raise NotChecked("the loss of a batch is neither the mean nor the sum over its samples")
        return [sum(loss <= value for loss in losses) == 1 for value, losses in zip(own, samples, strict=True)]

    def _losses(self, output: object, batch: Batch, row: int, values: list[float]) -> list[float]:
        """Return the loss of one sample with each label."""
        alone, own = _take_row(output, row, batch.size), batch.take_samples([row])
        return [
            compute_loss_value(self.setup, alone, replace(own, targets=(torch.full_like(own.targets[0], value),)))
            for value in values
        ]


@measurement
def label_choices(setup: Setup) -> LabelChoices:
    """How often the loss of a validation sample is lower for its label than for others, measured when a rule asks."""
    return LabelChoices(setup)


def _predict(setup: Setup, batch: Batch) -> object:
    try:
        return setup.predict(batch)
    except Exception as error:
        raise NotChecked(f"the model raised {type(error).__name__}: {error}") from None


def _get_labels(batch: Batch) -> Tensor:
    """Return the label of each sample; raise NotChecked if there is not one whole number for each."""
    target = batch.targets[0] if len(batch.targets) == 1 else None
    if not isinstance(target, Tensor) or target.is_complex() or target.numel() != batch.size:
        raise NotChecked("the samples do not have one label each")
    labels = target.detach().reshape(-1).double().cpu()
    if not bool((labels == labels.round()).all()):
        raise NotChecked("the targets are no labels")
    return labels


def _take_row(output: object, row: int, size: int) -> object:
    """Return the part of an output for one sample; raise NotChecked if a tensor has no row for each."""
    if any(not tensor.dim() or len(tensor) != size for tensor in tree_tensors(output)):
        raise NotChecked("the output does not have one row per sample")
    return tree_map(output, lambda leaf: leaf[row : row + 1] if isinstance(leaf, Tensor) else leaf)
