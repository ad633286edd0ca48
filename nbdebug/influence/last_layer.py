"""Last-layer features of the training samples, and their loss gradients by the last layer."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs
from nbdebug.inference.outputs import output_table as scores_of
from nbdebug.nearest_neighbors import Floats, Metric, TrainingReference, default_layer, describe_layer
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.collection import collect_predictions
from nbdebug.predictions.embeddings import EmbeddingCollector
from nbdebug.predictions.regression import RegressionTable
from nbdebug.predictions.sample_losses import get_unreduced_loss
from nbdebug.predictions.table import PredictionTable
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import evaluation_mode
from nbdebug.setup.losses import get_loss_kind

_MAX_TRAINING_SAMPLES = 50_000  # training samples that are searched
_LABEL_NEIGHBORS = 8  # neighbors that decide whether a label is suspicious


def score_gradients(loss_fn: Any, scores: Tensor, targets: Tensor) -> Tensor:
    """Return the gradient of each sample's loss by its scores (rows × outputs), in float64.

    Class weights and label smoothing of torch's losses are respected. A custom loss is replaced by cross-entropy for
    labels and by squared error for numbers.
    """
    scores = scores.detach().double().requires_grad_()
    with torch.enable_grad():
        (gradients,) = torch.autograd.grad(_total_loss(loss_fn, scores, targets), scores)
    return gradients


def _total_loss(loss_fn: Any, scores: Tensor, targets: Tensor) -> Tensor:
    """Return the sum of the losses of all samples."""
    kind, weight = get_loss_kind(loss_fn), getattr(loss_fn, "weight", None)
    float_targets = targets.double().reshape(scores.shape) if targets.numel() == scores.numel() else targets
    if kind == "bce":
        weights = None if weight is None else weight.double()
        return F.binary_cross_entropy_with_logits(scores, float_targets, weights, reduction="sum")
    if kind == "other":
        return F.mse_loss(scores, float_targets, reduction="sum") if targets.is_floating_point() else F.cross_entropy(
            scores, targets.long(), reduction="sum"
        )  # fmt: skip
    takes_labels = kind in ("cross-entropy", "nll")
    per_sample_loss = get_unreduced_loss(_to_float64(loss_fn))
    assert per_sample_loss is not None
    losses: Tensor = per_sample_loss(
        scores.log_softmax(1) if kind == "nll" else scores, targets.long() if takes_labels else float_targets
    )
    return losses.sum()


def _to_float64(loss_fn: Any) -> Any:
    """Return a copy of the loss with float64 weights, to match the scores."""
    return copy.deepcopy(loss_fn).cpu().double() if isinstance(loss_fn, nn.Module) else loss_fn


def _matches_outputs(loss_fn: Any, scores: Tensor, outputs: Tensor) -> bool:
    """Check that the model's outputs equal these scores, up to the final activation that the loss expects."""
    activation = {"nll": lambda: scores.log_softmax(1), "bce": scores.sigmoid}.get(get_loss_kind(loss_fn))
    activated = scores if activation is None else activation()
    return activated.shape == outputs.shape and bool(
        torch.allclose(activated, outputs.to(activated), rtol=1e-3, atol=1e-4)
    )


@dataclass(frozen=True, eq=False)
class LastLayerFeatures:
    """Training samples: their features (``vectors``) in ``layer``, and their predictions (``table``)."""

    setup: Setup
    entry: Any
    vectors: Floats
    table: ClassificationTable | RegressionTable
    metric: Metric = "cosine"

    @property
    def layer(self) -> str:
        """Description of the layer."""
        return describe_layer(self.entry)

    @property
    def is_classification(self) -> bool:
        """Check for classification, as opposed to regression."""
        return isinstance(self.table, ClassificationTable)

    @cached_property
    def reference(self) -> TrainingReference:
        """The features as neighbors of each other, with labels."""
        labels = self.table.target if isinstance(self.table, ClassificationTable) else None
        return TrainingReference(self.vectors, labels, self.metric, min(_LABEL_NEIGHBORS, len(self.vectors) - 1))

    @property
    def linear_layer(self) -> nn.Linear | None:
        """The linear layer whose input the features are, or None."""
        if not isinstance(self.entry, tuple):
            return None
        name = self.entry[0]
        module = self.setup.eager_model.get_submodule(name) if isinstance(name, str) else name
        return module if isinstance(module, nn.Linear) else None

    def layer_scores(self, points: Floats) -> Tensor:
        """Return the output of the last layer for features, rows × outputs, in float64."""
        assert self.linear_layer is not None
        with torch.no_grad():
            weight, bias = self.linear_layer.weight.detach().cpu().double(), self.linear_layer.bias
            outputs = torch.as_tensor(points).double() @ weight.T
            return outputs if bias is None else outputs + bias.detach().cpu().double()

    @cached_property
    def residuals(self) -> Tensor:
        """The gradient of each training sample's loss by its scores; zeros without a label."""
        has_label = (
            self.table.target >= 0
            if self.is_classification
            else np.isfinite(self.table.target).reshape(len(self.vectors))
        )
        rows = np.nonzero(has_label)[0]
        scores = self.layer_scores(self.vectors[rows])
        gradients = torch.zeros(len(self.vectors), scores.shape[1], dtype=torch.float64)
        gradients[rows] = score_gradients(
            self.setup.loss_fn, scores, torch.as_tensor(np.asarray(self.table.target)[rows])
        )
        return gradients

    def key(self, row: int) -> int:
        """Return the dataset index of a training sample, else its row in the pass."""
        return int(row if self.table.index is None else self.table.index[row])

    def find_row(self, key: int | None) -> int:
        """Return the row of a training sample, -1 if it is not in the data."""
        if key is None or self.table.index is None:
            return -1
        rows = np.nonzero(self.table.index == key)[0]
        return int(rows[0]) if len(rows) else -1


def collect_last_layer_features(setup: Setup, layer: Any = None, metric: Metric = "cosine") -> LastLayerFeatures:
    """Collect the inputs of the last linear layer in one pass over the training data; changes no user objects.

    For another ``layer``, collects its output. Raises SetupError for a layer without one row per sample, and for tasks
    other than single-label classification and regression of one number.
    """
    entry = default_layer(setup.eager_model) if layer is None else layer
    table: PredictionTable = collect_predictions(
        setup, setup.train_loader, lambda rows: rows >= _MAX_TRAINING_SAMPLES, embed=entry
    )
    if table.embedding is None or len(table.embedding) != len(table) or len(table) < 2:
        raise SetupError(f"layer is {layer!r}; expected one with one output row per sample. Choose another layer.")
    is_single_number = isinstance(table, RegressionTable) and table.prediction.reshape(len(table), -1).shape[1] == 1
    if not (isinstance(table, ClassificationTable) or is_single_number):
        raise SetupError(
            f"the task is {table.task}; expected one class or one number per sample. "
            "Find neighbors with dbg.errors().neighbors()."
        )
    assert isinstance(table, (ClassificationTable, RegressionTable))
    return LastLayerFeatures(setup, entry, table.embedding, table, metric)


def sample_features(features: LastLayerFeatures, inputs: ModelInputs) -> tuple[Floats, Tensor]:
    """Return the features of samples, and the outputs of the model for them."""
    model, size = features.setup.eager_model, inputs.size
    batch = inputs.copy().batch.to(features.setup.model_device)
    with (
        evaluation_mode(model, features.setup.mutable_objects),
        torch.no_grad(),
        EmbeddingCollector(model, features.entry) as embedding,
    ):
        outputs = scores_of(features.setup.predict(batch), size).detach().cpu().clone()
        embedding.add(size)
        points: NDArray[np.float32] = embedding.array()
    return points, outputs


def influence_unavailable_reason(features: LastLayerFeatures, points: Floats, outputs: Tensor) -> str:
    """Return the reason why influence is not available; empty if it is."""
    if features.linear_layer is None:
        return f"{features.layer} is not the input of a linear layer, so influence is not available"
    if (
        features.is_classification
        and outputs.shape[1] == 1
        and get_loss_kind(features.setup.loss_fn) in ("cross-entropy", "nll")
    ):
        return "there is only one class, so influence is not available"
    if not _matches_outputs(features.setup.loss_fn, features.layer_scores(points), outputs.double()):
        return "the last linear layer does not produce the scores, so influence is not available"
    return ""


def custom_loss_note(features: LastLayerFeatures) -> str:
    """Return a note on a custom loss."""
    if get_loss_kind(features.setup.loss_fn) != "other":
        return ""
    substitute = "cross-entropy" if features.is_classification else "squared error"
    return f"the loss is custom; influence is computed with {substitute} instead"
