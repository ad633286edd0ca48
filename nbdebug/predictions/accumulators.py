"""Accumulators of the batches of a pass, and tables of whole outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.labels import to_array
from nbdebug.predictions.multilabel import MultiLabelTable, ScoreForm
from nbdebug.predictions.regression import RegressionTable
from nbdebug.predictions.sample_losses import per_sample_loss
from nbdebug.predictions.table import PredictionTable
from nbdebug.setup import Setup
from nbdebug.setup.losses import get_loss_kind, ignore_index

Adapt = Callable[[Any, Any], tuple[Any, Any]]
_MAX_SEPARATE_BATCHES = 16  # batches that are stored separately before they are concatenated
_SCORE_FORMS: dict[str, ScoreForm] = {"bce": "probabilities", "bce-with-logits": "logits"}
LOSS_NOTE = "the loss is {}: your own loss function has no per-sample value"


class _Accumulator(Protocol):
    """Accumulates batches and makes a table of them."""

    def add(self, output: Any, target: Any) -> None:
        """Add a batch."""

    def table(self) -> PredictionTable:
        """Return the table of all batches."""


def keep_layout(output: Any, target: Any) -> tuple[Any, Any]:
    """Return output and target unchanged."""
    return output, target


@dataclass
class BatchCollector:
    """An accumulator, and ``adapt``, which converts output and target to the shape that it expects."""

    accumulator: _Accumulator
    adapt: Adapt = keep_layout

    def add(self, output: Any, target: Any) -> int:
        """Add a batch and return its number of rows."""
        output, target = self.adapt(output, target)
        self.accumulator.add(output, target)
        return target.shape[0] if isinstance(target, Tensor) else len(target)


class OutputAccumulator:
    """Stores whole outputs on their device until the pass ends, without synchronization.

    Batches are concatenated in groups. Many small tensors that stay alive would fragment the memory that batches reuse,
    and an output that is a view would keep its base alive; but one concatenation per batch, right after a forward pass,
    takes 10 µs and more.
    """

    def __init__(self, make_table: Callable[[Tensor, Any], PredictionTable]) -> None:
        self.make_table = make_table
        self.separate, self.concatenated = list[tuple[Any, Any]](), list[tuple[Any, Any]]()

    def add(self, output: Tensor, target: Any) -> None:
        """Add a batch."""
        self.separate.append((output, target))
        if len(self.separate) == _MAX_SEPARATE_BATCHES:
            self.concatenate_separate()

    def concatenate_separate(self) -> None:
        """Concatenate the separate batches."""
        if self.separate:
            outputs, targets = zip(*self.separate, strict=True)
            self.concatenated.append((concatenate(outputs), concatenate(targets)))
            self.separate.clear()

    def table(self) -> PredictionTable:
        """Return the table of all batches."""
        self.concatenate_separate()
        outputs, targets = zip(*self.concatenated, strict=True)
        return self.make_table(concatenate(outputs), concatenate(targets))


def concatenate(parts: Sequence[Any]) -> Any:
    """Concatenate tensors or lists of texts; raise RuntimeError for tensors that do not match."""
    are_tensors = isinstance(parts[0], Tensor)
    return torch.cat([part.detach() for part in parts]) if are_tensors else [*chain(*parts)]


def make_classification_table(setup: Setup, output: Tensor, target: Any) -> ClassificationTable:
    """Return a table of single-label classification from scores of all classes."""
    ignored_label = ignore_index(setup.loss_fn)
    table = ClassificationTable.from_arrays(output, target, class_names=setup.class_names, ignore_index=ignored_label)
    if _is_plain_cross_entropy(setup.loss_fn):
        return table
    return _with_user_loss(setup, table, _get_user_loss(setup, output, target))


def _is_plain_cross_entropy(loss_fn: Any) -> bool:
    """Return whether a loss is cross-entropy with default options, which the table computes itself."""
    if type(loss_fn) is nn.CrossEntropyLoss:
        return loss_fn.weight is None and not loss_fn.label_smoothing
    return loss_fn is F.cross_entropy


def make_binary_table(setup: Setup, output: Tensor, target: Any) -> ClassificationTable:
    """Return a table of binary classification from one score; targets between 0 and 1 are rounded."""
    score, form = output.reshape(len(output)).float(), _SCORE_FORMS.get(get_loss_kind(setup.loss_fn))
    first_score = torch.zeros_like(score) if form == "logits" else 1 - score
    notes: tuple[str, ...] = ()
    hard_target = target
    if isinstance(target, Tensor) and target.is_floating_point():
        hard_target = target.reshape(len(target))
        is_soft = (hard_target > 0) & (hard_target < 1)
        if is_soft.any():
            notes = (f"{int(is_soft.sum())} targets lie between 0 and 1: the label is the nearer of the two",)
        hard_target = (hard_target >= 0.5).long().where(hard_target >= 0, -1)
    scores = torch.stack([first_score, score], 1) if form else score
    table = ClassificationTable.from_arrays(scores, hard_target, class_names=setup.class_names)
    return _with_user_loss(setup, table.replace(notes=table.notes + notes), _get_user_loss(setup, output, target))


def make_multilabel_table(setup: Setup, output: Tensor, target: Tensor) -> MultiLabelTable:
    """Return a table of multi-label classification, one score per label."""
    form, loss = _SCORE_FORMS.get(get_loss_kind(setup.loss_fn)), _get_user_loss(setup, output, target)
    table = MultiLabelTable.from_arrays(output, target, class_names=setup.class_names, form=form, loss=loss)
    return table.replace(notes=table.notes + _fallback_loss_notes(setup, loss, "binary cross-entropy"))


def make_regression_table(setup: Setup, output: Tensor, target: Tensor) -> RegressionTable:
    """Return a regression table."""
    output, target = output.reshape(len(output), -1), target.reshape(len(target), -1)
    loss = per_sample_loss(setup.loss_fn, output, target)
    names = setup.class_names if setup.class_names and len(setup.class_names) == output.shape[1] else None
    table = RegressionTable.from_arrays(output, target, output_names=names, loss="squared" if loss is None else loss)
    return table.replace(notes=table.notes + _fallback_loss_notes(setup, loss, "the squared residual"))


def _get_user_loss(setup: Setup, output: Tensor, target: Any) -> Tensor | None:
    return per_sample_loss(setup.loss_fn, output, target) if isinstance(target, Tensor) else None


def _with_user_loss(setup: Setup, table: ClassificationTable, loss: Tensor | None) -> ClassificationTable:
    """Set the loss column to the user's own loss; rows without a target have none."""
    if loss is None:
        return table.replace(notes=table.notes + _fallback_loss_notes(setup, loss, "cross-entropy"))
    values = np.where(table.target < 0, np.float32(np.nan), to_array(loss).astype(np.float32))
    return table.replace(columns={**table.columns, "loss": values})


def _fallback_loss_notes(setup: Setup, loss: Tensor | None, fallback: str) -> tuple[str, ...]:
    """Return a note if the user's own loss is not available."""
    return (LOSS_NOTE.format(fallback),) if loss is None and setup.loss_fn is not None else ()
