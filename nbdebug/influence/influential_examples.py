"""Find the nearest and the most influential training samples for and against a prediction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import as_inputs
from nbdebug.influence.last_layer import (
    LastLayerFeatures,
    custom_loss_note,
    influence_unavailable_reason,
    sample_features,
    score_gradients,
)
from nbdebug.influence.last_layer import collect_last_layer_features as pass_over
from nbdebug.nearest_neighbors import Floats, Metric, nearest_rows
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.result import TextRepr
from nbdebug.setup import Setup
from nbdebug.setup.class_names import class_name
from nbdebug.setup.losses import get_loss_kind
from nbdebug.validation import describe_type, validate_int

if TYPE_CHECKING:
    import pandas

_LIST_TITLES = {
    "nearest for": "most similar, for",
    "nearest against": "most similar, against",
    "pull for": "most influential, for",
    "pull against": "most influential, against",
}
_EXPLANATION_TEXT = (
    "Similar samples have nearly the same features in this layer. The influence of a training sample is the "
    "effect of one gradient step on it, for the last layer and the current weights: toward the prediction (+) or away "
    "from it (-). Poorly fitted samples have a large influence on almost every sample. It describes neither what "
    "happened during training nor the effect of removing the sample."
)
_DUPLICATE_SHARE = 1e-6  # distance, as a share of the typical one, below which samples are identical to the model
_SUSPICIOUS_NEIGHBOR_SHARE = 0.75  # share of neighbors with other labels above which a mispredicted label is suspicious
_RowIndices = NDArray[np.int64]


@dataclass(frozen=True)
class InfluentialExample:
    """A training sample.

    ``key`` is its dataset index, ``distance`` its distance to the explained sample in the layer, ``pull`` its influence
    (the inner product of the gradients by the last layer's weights), ``share`` its share of all absolute influence;
    None if not available. ``twin``: the model cannot distinguish it from the sample. ``odd``: its label differs from
    most of its neighbors and from its prediction.
    """

    key: int
    label: str
    predicted: str
    distance: float
    pull: float | None = None
    share: float | None = None
    twin: bool = False
    odd: bool = False


@dataclass(frozen=True)
class InfluentialExamples(TextRepr):
    """Training samples that support a prediction, and training samples that oppose it.

    ``nearest_for`` are the most similar samples of the class ``prediction``, ``nearest_against`` those of ``rival``;
    for regression those with a target at or above the prediction, and below it. ``influential_for`` and
    ``influential_against`` are those with the largest influence. ``neighbor_agreement`` is the share of the ``k``
    nearest samples with the predicted class; ``farther`` is the share of training samples that are closer to their own
    k-th neighbor than this sample is.
    """

    prediction: str
    rival: str
    nearest_for: tuple[InfluentialExample, ...]
    nearest_against: tuple[InfluentialExample, ...]
    influential_for: tuple[InfluentialExample, ...]
    influential_against: tuple[InfluentialExample, ...]
    layer: str
    samples: int
    k: int
    farther: float
    neighbor_agreement: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    meaning: str = _EXPLANATION_TEXT

    @property
    def groups(self) -> dict[str, tuple[InfluentialExample, ...]]:
        """The four lists by name."""
        return {
            "nearest for": self.nearest_for,
            "nearest against": self.nearest_against,
            "pull for": self.influential_for,
            "pull against": self.influential_against,
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row per example of a list: list, key, label, predicted, distance, pull, share, twin, odd."""
        import pandas as pd

        return pd.DataFrame(
            [{"list": name, **vars(example)} for name, examples in self.groups.items() for example in examples]
        )

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug examples: for {self.prediction}, against {self.rival}; {self.samples} training samples, by "
                 f"{self.layer}"]  # fmt: skip
        for name, examples in self.groups.items():
            if examples:
                lines.append(
                    f"  {_LIST_TITLES[name]}: "
                    + ", ".join(f"{item.key} ({item.label}){_example_flags(item)}" for item in examples)
                )
        lines += [f"  note: {item}" for item in self.notes]
        return "\n".join([*lines, f"  {self.meaning}", f"  {self.seconds:.2f} s; the model is unchanged"])


def _example_flags(example: InfluentialExample) -> str:
    return (" identical to the model" if example.twin else "") + (" suspicious label" if example.odd else "")


def influential_examples(
    setup: Setup,
    inputs: Any,
    *,
    rival: int | str | None = None,
    truth: int | None = None,
    key: int | None = None,
    k: int = 6,
    layer: Any = None,
    metric: Metric = "cosine",
    features: LastLayerFeatures | None = None,
) -> InfluentialExamples:
    """Find the training samples that support the prediction for one sample, and those that oppose it.

    Similarity is measured on the input of the last linear layer, or on the output of ``layer``. Opposing samples have
    the class ``rival``: by default the true class if the prediction is wrong, else the runner-up. Influence is the
    inner product of two loss gradients by the last layer, (residual · residual)(input · input + 1): the last
    checkpoint's term of TracIn (Pruthi et al. 2020, arXiv:2002.08484), which equals those of representer points (Yeh et
    al. 2018, arXiv:1811.09720). The sample counts as labeled with its prediction. ``key`` is its dataset index if it is
    a training sample. ``features`` holds an earlier pass over the training data. The user's objects stay unchanged.
    Raises SetupError for unknown classes, and for tasks other than classification and regression.
    """
    start_time = time.perf_counter()
    if not isinstance(setup, Setup):
        raise SetupError(
            f"setup is {describe_type(setup)}; expected a Setup with a training loader. Pass the setup of a "
            "Debugger, dbg.setup."
        )
    sample = as_inputs(inputs, setup.eager_model)
    if sample.size != 1:
        raise SetupError(f"inputs has {sample.size} samples; expected one. Pass x[:1].")
    k = validate_int("k", k, advice="Pass more")
    last_layer = features or pass_over(setup, layer, metric)
    points, outputs = sample_features(last_layer, sample)
    search = _ExampleSearch(last_layer, points, outputs, last_layer.find_row(key), k)
    return (
        search.classification_examples(rival, truth, start_time)
        if last_layer.is_classification
        else search.regression_examples(start_time)
    )


@dataclass(frozen=True, eq=False)
class _ExampleSearch:
    """A sample to compare with the training samples; ``own_row`` is its row among them, or -1."""

    features: LastLayerFeatures
    points: Floats
    outputs: Tensor
    own_row: int
    k: int

    def classification_examples(
        self, rival: int | str | None, truth: int | None, start_time: float
    ) -> InfluentialExamples:
        """Compare samples of the predicted class with those of the rival class."""
        table = self.features.table
        assert isinstance(table, ClassificationTable)
        predicted, rival_class = self.compared_classes(rival, truth)
        influences, notes = self.influences(torch.tensor([predicted]))
        for class_index in dict.fromkeys((predicted, rival_class)):
            if not len(self.without_self(table.target == class_index)):
                notes.append(f"no training sample has the label {self.class_name(class_index)}")
        pairs = [self.without_self(table.target == label) for label in (predicted, rival_class)]
        neighbors = self.features.reference.find_neighbors(self.points, own=np.array([self.own_row]))
        neighbor_labels = table.target[neighbors.reference_rows[0]]
        agreement = (
            float((neighbor_labels == predicted)[neighbor_labels >= 0].mean()) if (neighbor_labels >= 0).any() else None
        )
        return self._build_result(
            self.class_name(predicted), self.class_name(rival_class), pairs, influences, notes, agreement, start_time
        )

    def regression_examples(self, start_time: float) -> InfluentialExamples:
        """Compare samples with targets at or above the prediction with those below."""
        prediction = float(self.outputs[0, 0])
        target = np.asarray(self.features.table.target).reshape(len(self.features.vectors))
        influences, notes = self.influences(None)
        pairs = [self.without_self(target >= prediction), self.without_self(target < prediction)]
        return self._build_result(
            f"{prediction:.4g} or more", f"less than {prediction:.4g}", pairs, influences, notes, None, start_time
        )

    def _build_result(
        self,
        prediction: str,
        rival: str,
        pairs: list[_RowIndices],
        influences: Tensor | None,
        notes: list[str],
        agreement: Any,
        start_time: float,
    ) -> InfluentialExamples:
        row_lists = [self.nearest_rows(rows) for rows in pairs]
        row_lists += [
            np.zeros(0, np.int64) if influences is None else self.most_influential(influences, sign) for sign in (1, -1)
        ]
        near_for, near_against, influential_for, influential_against = (
            self.describe_rows(rows, influences) for rows in row_lists
        )
        reference = self.features.reference
        farther = float(reference.find_neighbors(self.points, own=np.array([self.own_row])).distance_rank[0])
        return InfluentialExamples(
            prediction, rival, near_for, near_against, influential_for, influential_against, self.features.layer,
            len(self.features.vectors), reference.k, farther, agreement, tuple(note for note in notes if note),
            time.perf_counter() - start_time,
        )  # fmt: skip

    def compared_classes(self, rival: int | str | None, truth: int | None) -> tuple[int, int]:
        """Return the predicted class and the class to compare with; raise SetupError for an unknown class."""
        scores = self.outputs[0]
        if len(scores) == 1:
            predicted = int(scores[0] > (0.5 if self.has_probability_output else 0.0))
            ranking = [predicted, 1 - predicted]
        else:
            ranking = [int(class_index) for class_index in scores.argsort(descending=True)]
        if rival is None:
            wrong = truth is not None and truth != ranking[0] and 0 <= truth < len(ranking)
            return ranking[0], int(truth) if wrong and truth is not None else ranking[1]
        names = list(self.features.table.classes)  # type: ignore[union-attr]
        rival_index = names.index(rival) if rival in names else rival
        if rival_index == ranking[0] or not isinstance(rival_index, int) or not 0 <= rival_index < len(ranking):
            problem_text = (
                f"rival is {rival!r}, which is the predicted class"
                if rival_index == ranking[0]
                else f"rival is {rival!r}"
            )
            raise SetupError(f"{problem_text}; expected another class, 0 to {len(ranking) - 1}. Pass one of these.")
        return ranking[0], rival_index

    @property
    def has_probability_output(self) -> bool:
        """Check for a single output that is a probability."""
        return get_loss_kind(self.features.setup.loss_fn) == "bce"

    def class_name(self, number: int) -> str:
        return class_name(self.features.table.classes, number)  # type: ignore[union-attr]

    def without_self(self, mask: NDArray[np.bool_]) -> _RowIndices:
        """Return the selected training rows, without the sample itself."""
        rows = np.nonzero(mask)[0]
        return np.asarray(rows[rows != self.own_row])

    def nearest_rows(self, rows: _RowIndices) -> _RowIndices:
        """Return the nearest of some training rows."""
        if not len(rows):
            return rows
        _, order = nearest_rows(self.points, self.features.vectors[rows], min(self.k, len(rows)), self.features.metric)
        return np.asarray(rows[order[0]])

    def influences(self, predicted: Tensor | None) -> tuple[Tensor | None, list[str]]:
        """Return the influence of each training sample, and notes; for regression, positive means upward."""
        features = self.features
        reason = influence_unavailable_reason(features, self.points, self.outputs)
        if reason:
            return None, [reason]
        scores = features.layer_scores(self.points)
        own_residuals = (
            -torch.ones_like(scores)
            if predicted is None
            else score_gradients(features.setup.loss_fn, scores, predicted)
        )
        similarity = torch.as_tensor(features.vectors).double() @ torch.as_tensor(self.points[0]).double()
        has_bias = features.linear_layer is not None and features.linear_layer.bias is not None
        return (features.residuals @ own_residuals[0]) * (similarity + has_bias), [custom_loss_note(features)]

    def most_influential(self, influences: Tensor, sign: int) -> _RowIndices:
        """Return the training rows with the largest influence of one sign."""
        signed = (influences * sign).numpy().copy()
        if self.own_row >= 0:
            signed[self.own_row] = -np.inf
        order = np.argsort(-signed, kind="stable")[: self.k]
        return np.asarray(order[signed[order] > 0])

    def describe_rows(self, rows: _RowIndices, influences: Tensor | None) -> tuple[InfluentialExample, ...]:
        """Describe some training samples."""
        if not len(rows):
            return ()
        table, reference = self.features.table, self.features.reference
        distances, order = nearest_rows(self.points, self.features.vectors[rows], len(rows), self.features.metric)
        distance_by_row = dict(zip(order[0].tolist(), distances[0].tolist(), strict=True))
        typical_distance = float(np.median(reference.typical_distances)) or 1.0
        suspicious = self.suspicious_labels(rows)
        total_influence = float(influences.abs().sum()) if influences is not None else 0.0
        result = []
        for i, row in enumerate(rows):
            row_text = table.describe_row(int(row))
            influence = None if influences is None else float(influences[row])
            share = None if influence is None or not total_influence else abs(influence) / total_influence
            is_duplicate = distance_by_row[i] <= _DUPLICATE_SHARE * typical_distance
            label_and_prediction = row_text.get("target", ""), row_text.get("prediction", "")
            result.append(
                InfluentialExample(
                    self.features.key(int(row)),
                    *label_and_prediction,
                    distance_by_row[i],
                    influence,
                    share,
                    is_duplicate,
                    bool(suspicious[i]),
                )
            )
        return tuple(result)

    def suspicious_labels(self, rows: _RowIndices) -> NDArray[np.bool_]:
        """Check for labels that differ from both the prediction and most neighbors of a sample."""
        table = self.features.table
        if not isinstance(table, ClassificationTable):
            return np.zeros(len(rows), bool)
        labels = table.target[rows]
        neighbors = self.features.reference.find_neighbors(self.features.vectors[rows], labels, own=rows)
        assert neighbors.label_disagreement is not None
        has_other_neighbors = np.nan_to_num(neighbors.label_disagreement) >= _SUSPICIOUS_NEIGHBOR_SHARE
        return np.asarray(has_other_neighbors & (table.prediction[rows] != labels) & (labels >= 0))
