"""Tables of outputs and targets that a pass kept whole, with the user's own loss of each sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.predictions.arrays import array
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.losses import per_sample
from nbdebug.predictions.multilabel import Form, MultiLabel
from nbdebug.predictions.regression import Regression
from nbdebug.setup import Setup
from nbdebug.setup.losses import ignore_index, named

FORMS: dict[str, Form] = {"bce": "probabilities", "bce-with-logits": "logits"}
INSTEAD = "the loss is {}: your own loss gives no value for a single sample"


def classification(setup: Setup, output: Tensor, target: Any) -> Predictions:
    """One class of several for each sample, by scores of all of them."""
    ignored = ignore_index(setup.loss_fn)
    table = Predictions.of(output, target, class_names=setup.class_names, ignore_index=ignored)
    if is_plain(setup.loss_fn):
        return table
    return lossy(setup, table, own_loss(setup, output, target))


def is_plain(loss_fn: Any) -> bool:
    """Whether a loss is cross-entropy with nothing set, as the table has it already."""
    if type(loss_fn) is nn.CrossEntropyLoss:
        return loss_fn.weight is None and not loss_fn.label_smoothing
    return loss_fn is F.cross_entropy


def binary(setup: Setup, output: Tensor, target: Any) -> Predictions:
    """One of two classes, by one score for the second; a target between 0 and 1 counts as the nearer of them."""
    score, form = output.reshape(len(output)).float(), FORMS.get(named(setup.loss_fn))
    first = torch.zeros_like(score) if form == "logits" else 1 - score
    notes: tuple[str, ...] = ()
    hard = target
    if isinstance(target, Tensor) and target.is_floating_point():
        hard = target.reshape(len(target))
        between = (hard > 0) & (hard < 1)
        if between.any():
            notes = (f"{int(between.sum())} targets lie between 0 and 1: the label is the nearer of them",)
        hard = (hard >= 0.5).long().where(hard >= 0, -1)
    scores = torch.stack([first, score], 1) if form else score
    table = Predictions.of(scores, hard, class_names=setup.class_names)
    return lossy(setup, table.replaced(notes=table.notes + notes), own_loss(setup, output, target))


def multi_label(setup: Setup, output: Tensor, target: Tensor) -> MultiLabel:
    """Any of several labels for each sample, by a score for each."""
    form, loss = FORMS.get(named(setup.loss_fn)), own_loss(setup, output, target)
    table = MultiLabel.of(output, target, class_names=setup.class_names, form=form, loss=loss)
    return table.replaced(notes=table.notes + instead(setup, loss, "binary cross-entropy"))


def regression(setup: Setup, output: Tensor, target: Tensor) -> Regression:
    """Real numbers."""
    output, target = output.reshape(len(output), -1), target.reshape(len(target), -1)
    loss = per_sample(setup.loss_fn, output, target)
    names = setup.class_names if setup.class_names and len(setup.class_names) == output.shape[1] else None
    table = Regression.of(output, target, output_names=names, loss="squared" if loss is None else loss)
    return table.replaced(notes=table.notes + instead(setup, loss, "the squared residual"))


def own_loss(setup: Setup, output: Tensor, target: Any) -> Tensor | None:
    """The user's loss of each sample, where it can be had."""
    return per_sample(setup.loss_fn, output, target) if isinstance(target, Tensor) else None


def lossy(setup: Setup, table: Predictions, loss: Tensor | None) -> Predictions:
    """The table with the user's own loss, which is none where there is no target."""
    if loss is None:
        return table.replaced(notes=table.notes + instead(setup, loss, "cross-entropy"))
    values = np.where(table.target < 0, np.float32(np.nan), array(loss).astype(np.float32))
    return table.replaced(columns={**table.columns, "loss": values})


def instead(setup: Setup, loss: Tensor | None, what: str) -> tuple[str, ...]:
    """What is said where the user's own loss could not be had."""
    return (INSTEAD.format(what),) if loss is None and setup.loss_fn is not None else ()
