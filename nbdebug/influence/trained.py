"""The training samples as the last layer is given them, with how each of them pulls at that layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.attribution.given import count
from nbdebug.attribution.problem import cut
from nbdebug.attribution.quiet import quiet
from nbdebug.attribution.scores import table as scores_of
from nbdebug.exceptions import SetupError
from nbdebug.influence.residuals import gives, residuals
from nbdebug.neighbors import Reference
from nbdebug.neighbors.layer import said, usual_layer
from nbdebug.neighbors.search import Floats, Metric
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.collect import collect
from nbdebug.predictions.embedding import Embedding
from nbdebug.predictions.regression import Regression
from nbdebug.predictions.table import Table
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import named

MOST = 50_000  # training samples that are looked among
K = 8  # neighbors that tell whether a label is odd


@dataclass(frozen=True, eq=False)
class Trained:
    """Training samples: what ``layer`` is given of each (``points``), and what was said of them (``table``)."""

    setup: Setup
    entry: Any
    points: Floats
    table: Predictions | Regression
    metric: Metric = "cosine"

    @property
    def layer(self) -> str:
        """The layer in words."""
        return said(self.entry)

    @property
    def classes(self) -> bool:
        """Whether samples are of classes, not numbers."""
        return isinstance(self.table, Predictions)

    @cached_property
    def reference(self) -> Reference:
        """The points as neighbors of each other, with their labels."""
        labels = self.table.target if isinstance(self.table, Predictions) else None
        return Reference(self.points, labels, self.metric, min(K, len(self.points) - 1))

    @property
    def last(self) -> nn.Linear | None:
        """The linear layer whose input the points are, if they are that."""
        if not isinstance(self.entry, tuple):
            return None
        name = self.entry[0]
        found = self.setup.eager.get_submodule(name) if isinstance(name, str) else name
        return found if isinstance(found, nn.Linear) else None

    def scores(self, points: Floats) -> Tensor:
        """What the last layer makes of points, rows × outputs, in float64."""
        assert self.last is not None
        with torch.no_grad():
            weight, bias = self.last.weight.detach().cpu().double(), self.last.bias
            found = torch.as_tensor(points).double() @ weight.T
            return found if bias is None else found + bias.detach().cpu().double()

    @cached_property
    def residuals(self) -> Tensor:
        """The gradient of each training sample's loss by the scores; zeros where it has no label."""
        known = self.table.target >= 0 if self.classes else np.isfinite(self.table.target).reshape(len(self.points))
        rows = np.nonzero(known)[0]
        scores = self.scores(self.points[rows])
        found = torch.zeros(len(self.points), scores.shape[1], dtype=torch.float64)
        found[rows] = residuals(self.setup.loss_fn, scores, torch.as_tensor(np.asarray(self.table.target)[rows]))
        return found

    def key(self, row: int) -> int:
        """By what a training sample is known: its place in the data set, else its row in the pass."""
        return int(row if self.table.index is None else self.table.index[row])

    def row(self, key: int | None) -> int:
        """The row of a sample of the training data set; -1 where it is none of them."""
        if key is None or self.table.index is None:
            return -1
        found = np.nonzero(self.table.index == key)[0]
        return int(found[0]) if len(found) else -1


def trained(setup: Setup, layer: Any = None, metric: Metric = "cosine") -> Trained:
    """One pass over the training data, as the input of the last linear layer; nothing of the user's changes.

    ``layer`` is another one, by its output. Raises SetupError for a layer without a row a sample, and for tasks that
    are neither of one class a sample nor of one number.
    """
    entry = usual_layer(setup.eager) if layer is None else layer
    table: Table = collect(setup, setup.train_loader, lambda rows: rows >= MOST, embed=entry)
    if table.embedding is None or len(table.embedding) != len(table) or len(table) < 2:
        raise SetupError(f"layer is {layer!r}; expected one that gives a row for each sample. Take another layer.")
    one_number = isinstance(table, Regression) and table.prediction.reshape(len(table), -1).shape[1] == 1
    if not (isinstance(table, Predictions) or one_number):
        raise SetupError(
            f"the task is {table.task}; expected one class or one number a sample. "
            "Look for neighbors with dbg.errors().neighbors()."
        )
    assert isinstance(table, (Predictions, Regression))
    return Trained(setup, entry, table.embedding, table, metric)


def met(found: Trained, inputs: Batch) -> tuple[Floats, Tensor]:
    """Samples as the layer is given them, and the model's outputs for them."""
    model, size = found.setup.eager, count(inputs)
    own = cut(inputs, torch.arange(size)).to(found.setup.home)
    with quiet(model, found.setup.owned), torch.no_grad(), Embedding(model, found.entry) as heard:
        outputs = scores_of(found.setup.predict(own), size).detach().cpu().clone()
        heard.add(size)
        points: NDArray[np.float32] = heard.array()
    return points, outputs


def no_pull(found: Trained, points: Floats, outputs: Tensor) -> str:
    """Why gradients of the last layer cannot be told; empty where they can."""
    if found.last is None:
        return f"{found.layer} is not the input of a linear layer, so how samples pull at it is not told"
    if found.classes and outputs.shape[1] == 1 and named(found.setup.loss_fn) in ("cross-entropy", "nll"):
        return "there is one class only, which nothing pulls away from"
    if not gives(found.setup.loss_fn, found.scores(points), outputs.double()):
        return "the last linear layer does not give the scores, so how samples pull at it is not told"
    return ""


def own_loss(found: Trained) -> str:
    """A word on a loss that is not torch's."""
    if named(found.setup.loss_fn) != "other":
        return ""
    taken = "cross-entropy" if found.classes else "squared error"
    return f"the loss is your own; for the pull it is taken for {taken}"
