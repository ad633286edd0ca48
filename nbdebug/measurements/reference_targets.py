"""Targets and network outputs in the form that a reference learner scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nbdebug.baselines.reference_learner import Floats, TargetKind, Targets
from nbdebug.exceptions import NotChecked
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.setup.task import LearningTask

_MAX_CLASSES, _MAX_COLUMNS = 1000, 64
_BINARY_LOSSES = ("bce", "bce-with-logits")
_REGRESSION_LOSSES = ("squared", "absolute")


def to_targets(
    task: LearningTask, loss_kind: LossKind, targets: Tensor, ignored: int
) -> tuple[Targets, NDArray[np.int64]]:
    """Return the targets as columns, and the rows that have one; raise NotChecked for other kinds of targets.

    Targets of -1 and 1, for a loss that is none of torch's usual ones, are labels.
    """
    flat = targets.detach().cpu().reshape(len(targets), -1)
    if not flat.shape[1] or flat.shape[1] > _MAX_COLUMNS:
        raise NotChecked(f"each row has {flat.shape[1]} targets; at most {_MAX_COLUMNS} can be learned")
    is_sign = loss_kind == "other" and bool((flat.abs() == 1).all())
    flat = (flat + 1) / 2 if is_sign else flat
    is_label = loss_kind not in _REGRESSION_LOSSES and bool(((flat == 0) | (flat == 1)).all())
    if flat.shape[1] == 1 and not is_sign and (is_label or _is_class_index(task, loss_kind, flat)):
        return _class_targets(flat[:, 0].long(), ignored)
    if flat.shape[1] > 1 and not is_sign and task.name == "classification":
        if not flat.is_floating_point():
            raise NotChecked("each row has several classes")
        return _class_targets(flat.argmax(1), ignored)
    columns = flat.double().numpy()
    labeled = np.flatnonzero(np.isfinite(columns).all(1))
    kind: TargetKind = "labels" if is_sign or (is_label and flat.shape[1] > 1) else "values"
    if not len(labeled) or not columns[labeled].var(0).sum() > 0:
        raise NotChecked("all targets are equal")
    return Targets(kind, np.nan_to_num(columns).astype(np.float32)), labeled


def _is_class_index(task: LearningTask, loss_kind: LossKind, flat: Tensor) -> bool:
    if loss_kind in _REGRESSION_LOSSES or task.name == "regression":
        return False
    return not flat.is_floating_point() or loss_kind in ("cross-entropy", "nll")


def _class_targets(labels: Tensor, ignored: int) -> tuple[Targets, NDArray[np.int64]]:
    is_labeled = (labels >= 0) & (labels != ignored)
    if not bool(is_labeled.any()) or int(labels.max()) >= _MAX_CLASSES:
        raise NotChecked(f"the targets are no class indices below {_MAX_CLASSES}")
    if int(torch.count_nonzero(torch.bincount(labels[is_labeled]))) < 2:
        raise NotChecked("the rows that were read are all of one class")
    one_hot = F.one_hot(labels.clamp_min(0), max(int(labels.max()) + 1, 2)).float().numpy()
    return Targets("classes", one_hot), np.flatnonzero(is_labeled.numpy())


class NetworkOutputs:
    """Collects the outputs of a network and brings them into the form of a reference learner's predictions."""

    def __init__(self, loss_kind: LossKind, kind: TargetKind) -> None:
        self.loss_kind, self.kind = loss_kind, kind
        self.outputs: list[Tensor] = []
        self.rows = 0

    def add(self, output: Any, size: int) -> None:
        """Add the output of a batch; raise NotChecked if it does not have one row per sample."""
        scores = score_tensor(output)
        if not isinstance(scores, Tensor) or not scores.dim() or len(scores) != size or scores.is_complex():
            raise NotChecked("the output does not have one row per sample")
        self.outputs.append(scores.detach().float().cpu().reshape(size, -1))
        self.rows += size

    def predictions(self, rows: NDArray[np.int64], targets: Targets) -> Floats:
        """Return the predictions of some rows in the form of the targets; raise NotChecked if they have another one."""
        if len({output.shape[1] for output in self.outputs}) != 1:
            raise NotChecked("the outputs of different batches have different sizes")
        output = torch.nan_to_num(torch.cat(self.outputs)).numpy()[rows].astype(np.float64)
        width, columns = output.shape[1], targets.columns.shape[1]
        if self.kind == "classes" and width >= columns:
            return output
        centered = output - (0.5 if self.loss_kind == "bce" else 0.0)
        if self.kind == "classes" and width == 1 and columns == 2:
            return np.hstack([-centered, centered])
        if self.kind == "labels" and width == columns:
            return centered + 0.5
        if self.kind == "values" and width == columns:
            return output if self.loss_kind in _REGRESSION_LOSSES else _rescaled(output, targets)
        raise NotChecked(f"the network has {width} outputs per row for {columns} targets")


def _rescaled(output: Floats, targets: Targets) -> Floats:
    """Return the outputs on the scale of the targets, by linear regression: logits of soft labels have other units."""
    centered, expected = output - output.mean(0), targets.columns - targets.columns.mean(0)
    slopes = (centered * expected).sum(0) / np.maximum((centered**2).sum(0), 1e-12)
    result: Floats = targets.columns.mean(0) + slopes * centered
    return result
