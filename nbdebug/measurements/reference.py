"""A reference learner on the training and validation rows, and the network's score on the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.baselines.input_features import Matrix, feature_matrix, standardize_columns, to_input_rows
from nbdebug.baselines.reference_learner import Floats, ReferenceLearner, ReferencePrediction, Targets
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.loss_curves.run_summary import HIGH_SCORE, RunSummary
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.label_predictability import LabelPredictability
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.random_batches import read_random_batches
from nbdebug.measurements.reading_limit import PATIENCE, ReadingLimit
from nbdebug.measurements.reference_targets import NetworkOutputs, to_targets
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.losses import LossKind, ignore_index, is_torch_loss
from nbdebug.setup.task import LearningTask
from nbdebug.statistics.label_errors import ContradictedLabels, find_contradicted_labels, is_supported
from nbdebug.tensors.pytree import tree_tensors

MAX_ROWS, _MIN_ROWS, _ROWS_PER_BATCH, _SHUFFLES = 2000, 100, 64, 12
_MIN_STEPS = 60  # of a run whose network is compared
_MAX_VALUES, _MIN_SIGMAS, _MIN_REFERENCE_GAIN, _ERROR_RATIO = 25_000_000, 4.0, 0.05, 3.0
_READ_SECONDS, _NETWORK_SECONDS = 0.2, 0.3
_MIN_SHOWN_SHARE = 0.5  # of the target values that stand one step later in the input
_EQUAL_LOSSES = 1e-4  # relative difference
_MAX_SCORE_AXES, _SCALE_OF_SCORES = 2, 2.0
_KINDS_OF_CLASSES: tuple[LossKind, ...] = ("cross-entropy",)
_KINDS_OF_VALUES: tuple[LossKind, ...] = ("squared", "bce-with-logits", "absolute")


@dataclass(frozen=True, eq=False)
class _ReferenceRows:
    """Rows of one split that were read: batches for the network, features and targets for the reference learner.

    ``parts`` are the input tensors of all rows read.
    ``kept`` are the positions, among all rows read, of the rows with a target and without an earlier equal row;
    ``indices`` are their dataset indices.
    """

    batches: list[Batch]
    parts: tuple[Tensor, ...]
    features: Matrix
    targets: Targets
    kept: NDArray[np.int64]
    indices: list[int]

    @cached_property
    def learner(self) -> ReferenceLearner:
        """The learner of these rows."""
        return ReferenceLearner(self.features, self.targets)

    @cached_property
    def prediction(self) -> ReferencePrediction:
        """The out-of-fold predictions of the reference learner."""
        return self.learner.out_of_fold()


@dataclass(frozen=True)
class ReferenceComparison:
    """The scores of the network and of the reference learner on the same rows.

    ``gain`` is how much better the reference is, with its standard error. For classes and labels it is the smaller of
    the gains in accuracy and in balanced accuracy, since a weighted loss trades one for the other.
    """

    metric: str
    network: float
    reference: float
    constant: float
    gain: float
    gain_error: float
    rows: int
    learner: str

    def is_better(self, gap: float) -> bool:
        """Return whether the reference is better by ``gap``, or by half of it with a third of the network's error.

        It must also be better by four standard errors.
        """
        is_large = self.gain >= gap or (
            self.gain >= gap / 2 and 1 - self.network >= _ERROR_RATIO * (1 - self.reference)
        )
        return is_large and self.gain > _MIN_SIGMAS * self.gain_error

    @property
    def learned_share(self) -> float:
        """The share of the reference's gain over a constant prediction that the network has; 0 without such a gain."""
        possible = self.reference - self.constant
        return (self.network - self.constant) / possible if possible > 0 else 0.0

    @property
    def is_informative(self) -> bool:
        """True if the reference learner itself has learned something beyond a constant prediction."""
        return self.reference - self.constant > _MIN_REFERENCE_GAIN


class Reference:
    """Measures a split when it is first asked for, since most rules need the reference in few runs only."""

    def __init__(self, setup: Setup, task: LearningTask, loss_kind: LossKind) -> None:
        self.setup, self.task, self.loss_kind = setup, task, loss_kind
        self._splits: dict[str, _ReferenceRows | NotChecked] = {}
        self._comparisons: dict[str, ReferenceComparison | NotChecked] = {}

    def rows(self, split: str = "train") -> _ReferenceRows:
        """Return the rows of a split; raise NotChecked with the reason if the reference cannot learn them."""
        if split not in self._splits:
            try:
                self._splits[split] = self._read(split)
            except (NotChecked, SetupError) as reason:
                self._splits[split] = NotChecked(f"no reference learner could be fitted: {reason}")
        result = self._splits[split]
        if isinstance(result, NotChecked):
            raise result.without_frames()
        return result

    def comparison(self, split: str = "train") -> ReferenceComparison:
        """Return the scores of the network, in eval mode, and of the reference on the same rows of a split."""
        if split not in self._comparisons:
            try:
                self._comparisons[split] = self._compare(self.rows(split))
            except NotChecked as reason:
                self._comparisons[split] = reason.without_frames()
        result = self._comparisons[split]
        if isinstance(result, NotChecked):
            raise result.without_frames()
        return result

    def _read(self, split: str) -> _ReferenceRows:
        if self.setup.step_fn is not None:
            raise NotChecked("step_fn hides inputs and targets")
        if split == "val" and self.setup.val_loader is None:
            raise NotChecked("there is no validation loader")
        batches = list(
            read_random_batches(
                self.setup,
                split,
                max_rows=MAX_ROWS,
                batch_size=_ROWS_PER_BATCH,
                max_values=_MAX_VALUES,
                limit=ReadingLimit(_READ_SECONDS, 2 * _MIN_ROWS),
            )
        )
        rows = to_input_rows(batches)
        if any(map(_repeats_input, batches)):
            raise NotChecked("the targets are the inputs, which a learner without a bottleneck copies")
        if batches and all(map(_shows_next_steps, batches)):
            raise NotChecked("the targets are later steps of the inputs, which a causal model does not see yet")
        targets, labeled = to_targets(self.task, self.loss_kind, rows.targets, ignore_index(self.setup.loss_fn))
        features = feature_matrix(rows.parts)
        kept = np.intersect1d(labeled, _first_of_equal_rows(features))
        if len(kept) < _MIN_ROWS:
            raise NotChecked(f"{len(kept)} different rows with a target are too few; {_MIN_ROWS} are needed")
        indices = [index for batch in batches for index in batch.indices or ()]
        return _ReferenceRows(
            batches,
            rows.parts,
            standardize_columns(features[kept]),
            targets.take(kept),
            kept,
            [indices[row] for row in kept] if len(indices) == len(rows) else kept.tolist(),
        )

    def _compare(self, rows: _ReferenceRows) -> ReferenceComparison:
        network = self._network_predictions(rows)
        compared = len(network)
        if compared < _MIN_ROWS:
            raise NotChecked(f"the network answered only {compared} rows within {PATIENCE * _NETWORK_SECONDS:.2g} s")
        targets, prediction = rows.targets.take(slice(compared)), rows.prediction
        reference = prediction.predictions[:compared]
        gains = [score(reference) - score(network) for score in (targets.agreement, targets.balanced_agreement)]
        smallest = min(gains, key=lambda gain: float(gain.mean()))
        return ReferenceComparison(
            targets.metric,
            float(targets.agreement(network).mean()),
            float(targets.agreement(reference).mean()),
            targets.constant_score,
            float(smallest.mean()),
            float(smallest.std() / compared**0.5),
            compared,
            prediction.learner,
        )

    def _network_predictions(self, rows: _ReferenceRows) -> Floats:
        """Return the predictions for the rows that the network answers in time, in eval mode.

        It is processor time, so that the load of the machine does not change the verdict.
        """
        network = NetworkOutputs(self.loss_kind, rows.targets.kind)
        started = time.thread_time()
        model = self.setup.eager_model
        with in_mode(model, False), torch.no_grad():
            for batch in rows.batches:
                try:
                    output = self.setup.predict(batch)
                except Exception as error:
                    raise NotChecked(f"the network raised {type(error).__name__}: {error}") from None
                network.add(output, batch.size)
                patience = 1 if network.rows >= 2 * _MIN_ROWS else PATIENCE
                if time.thread_time() - started > patience * _NETWORK_SECONDS:
                    break
        answered = rows.kept[rows.kept < network.rows]
        return network.predictions(answered, rows.targets.take(slice(len(answered))))


@measurement
def prediction_loss_kind(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind,
    torch_loss_kind: LossKind | NotChecked,
) -> LossKind:
    """The kind of a loss whose outputs are predictions: one of torch's, or "other" for targets of -1 and 1.

    A loss that the user wrote is of a kind if it has the value of torch's loss for two different outputs.
    """
    if not isinstance(torch_loss_kind, NotChecked):
        return torch_loss_kind
    if loss_kind == "other" and (kind := _kind_by_values(setup, first_pass, output)) is not None:
        return kind
    if loss_kind != "other" or not _judges_signs(setup, first_pass.batch, output):
        raise torch_loss_kind
    return loss_kind


def _kind_by_values(setup: Setup, first_pass: ForwardPass, output: Any) -> LossKind | None:
    """Return the kind of torch's loss that the user's has the value of, for the output and for random scores."""
    batch, loss = first_pass.batch, first_pass.loss
    target = batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or not output.is_floating_point():
        return None
    if loss is None or len(batch.targets) != 1 or output.dim() > _MAX_SCORE_AXES:
        return None
    kinds = _KINDS_OF_VALUES if target.is_floating_point() else _KINDS_OF_CLASSES
    scores, value = output.detach(), float(loss.detach())
    matching = [kind for kind in kinds if is_torch_loss(kind, scores, target, value)]
    if not matching:
        return None
    other = torch.randn(scores.shape, generator=torch.Generator().manual_seed(0)).to(scores) * _SCALE_OF_SCORES
    try:
        with torch.no_grad():
            other_value = compute_loss_value(setup, other, batch)
    except NotChecked:
        return None
    return next((kind for kind in matching if is_torch_loss(kind, other, target, other_value)), None)


def _judges_signs(setup: Setup, batch: Batch, output: Any) -> bool:
    """Return whether the loss is the same with all signs reversed, and lower for scores with the signs of the targets.

    A logistic or a hinge loss of the product of score and target is.
    """
    target = batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape != target.shape:
        return False
    if not bool((target.abs() == 1).all()) or not bool((target < 0).any()):
        return False
    scores, reversed_batch = output.detach(), replace(batch, targets=(-target,))
    signed = target * (scores.abs() + 1)
    with torch.no_grad():
        try:
            loss, of_reversed = (
                compute_loss_value(setup, *pair) for pair in ((scores, batch), (-scores, reversed_batch))
            )
            right, wrong = (compute_loss_value(setup, values, batch) for values in (signed, -signed))
        except NotChecked:
            return False
    return abs(loss - of_reversed) <= _EQUAL_LOSSES * abs(loss) and right < wrong


@measurement
def reference(setup: Setup, task: LearningTask, prediction_loss_kind: LossKind) -> Reference:
    """How well a kernel ridge or a forest learns up to 2,000 rows in a second, measured when a rule asks."""
    if task.name in ("reconstruction", "other"):
        raise NotChecked(f"the task is {task.name}, for which there is no reference learner")
    return Reference(setup, task, prediction_loss_kind)


def compare_with_reference(summary: RunSummary, reference: Reference) -> ReferenceComparison | None:
    """Return the comparison on the training rows after a run; None without one, or if the run needs none.

    A run whose training score on the fixed samples is high needs none, and one of few steps has not been trained. One
    that minimizes another loss than the known one, or that feeds other inputs, is not described by these rows. The
    outputs of a model whose loss ends as NaN or Inf are no predictions.
    """
    score, is_short = summary.train.last_score, summary.step_count < _MIN_STEPS
    is_lost = bool(len(summary.loss)) and not np.isfinite(summary.loss[-1])
    if not summary.loss_is_known or is_short or is_lost or (score is not None and score >= HIGH_SCORE):
        return None
    try:
        return reference.comparison("train")
    except NotChecked:
        return None


def _repeats_input(batch: Batch) -> bool:
    """Return whether the target of a batch holds the values of one of its inputs, as for an autoencoder."""
    target = batch.target_or_label
    if not isinstance(target, Tensor) or target.numel() <= batch.size or not target.is_floating_point():
        return False
    inputs = (tensor for tensor in tree_tensors((batch.args, batch.kwargs)) if tensor.numel() == target.numel())
    return any(torch.equal(tensor.flatten().to(target.dtype), target.flatten()) for tensor in inputs)


def _shows_next_steps(batch: Batch) -> bool:
    """Return whether most target values of each row are values of the same row of an input, as in a next-step target.

    A learner that reads the whole row copies them; a recurrent or causal network predicts each before it reads it.
    """
    target = batch.target_or_label
    if not isinstance(target, Tensor) or not target.is_floating_point() or target.numel() <= batch.size:
        return False
    rows = target.detach().reshape(len(target), -1)
    inputs = [tensor for tensor in tree_tensors((batch.args, batch.kwargs)) if tensor.numel() == target.numel()]
    for tensor in inputs:
        values = tensor.detach().reshape(len(target), -1).to(rows.dtype)
        shown = (rows[:, :-1] == values[:, 1:]).float().mean() if values.shape == rows.shape else 0.0
        if float(shown) > _MIN_SHOWN_SHARE:
            return True
    return False


def _first_of_equal_rows(features: Matrix) -> NDArray[np.int64]:
    """Return the first position of each different row; copies would give away the targets of left-out rows."""
    keys = np.ascontiguousarray(features).view(f"V{features.shape[1] * features.itemsize}")[:, 0]
    first: dict[bytes, int] = {}
    for position, key in enumerate(keys.tolist()):
        first.setdefault(key, position)
    return np.array(sorted(first.values()), np.int64)


@dataclass(frozen=True)
class SplitLabels:
    """The labels of one split that the out-of-fold predictions of the reference learner contradict."""

    contradicted: ContradictedLabels
    learner: ReferenceLearner
    indices: list[int]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The given class of each row."""
        return self.learner.targets.classes

    @property
    def score(self) -> float:
        """The accuracy of the predictions."""
        return self.learner.kernel_ridge.score

    @cached_property
    def is_supported_by_trees(self) -> bool:
        """Whether random trees contradict these labels too; True if there are too many values to grow trees."""
        trees = self.learner.trees
        predicted = self.learner.kernel_ridge.predictions.argmax(1)
        return trees is None or is_supported(self.contradicted, self.labels, predicted, trees.predictions.argmax(1))


def _iterate_splits(reference: Reference) -> Iterator[tuple[str, _ReferenceRows]]:
    """Yield each split with its rows; raise NotChecked if the training split has none."""
    for split in ("train", "val"):
        try:
            rows = reference.rows(split)
        except NotChecked:
            if split == "train":
                raise
            continue
        yield split, rows


@slow_measurement
def contradicted_labels(reference: Reference) -> dict[str, SplitLabels]:
    """The labels of each split that the out-of-fold predictions of a kernel ridge regression contradict."""
    results: dict[str, SplitLabels] = {}
    for split, rows in _iterate_splits(reference):
        if rows.targets.kind != "classes":
            raise NotChecked("the targets are not one class per row")
        prediction = rows.learner.kernel_ridge
        contradicted = find_contradicted_labels(prediction.class_probabilities(), rows.targets.classes)
        results[split] = SplitLabels(contradicted, rows.learner, rows.indices)
    return results


@slow_measurement
def target_relations(reference: Reference) -> dict[str, LabelPredictability]:
    """How well real-valued targets and multiple labels of each split are predicted, next to shuffled ones.

    A few outliers can make up most of the variance: the better of the scores with and without them counts.
    """
    results: dict[str, LabelPredictability] = {}
    for split, rows in _iterate_splits(reference):
        if rows.targets.kind == "classes":
            raise NotChecked("the targets are one class per row")
        limited = rows.targets.limit_outliers()
        learners = [rows.learner] if limited is rows.targets else [rows.learner, rows.learner.with_targets(limited)]
        results[split] = max(map(_measure_relation, learners), key=lambda relation: relation.sigma)
    return results


def _measure_relation(learner: ReferenceLearner) -> LabelPredictability:
    shuffled = learner.shuffled_scores(_SHUFFLES)
    return LabelPredictability(
        learner.kernel_ridge.score,
        float(shuffled.mean()),
        float(shuffled.std(ddof=1)),
        len(learner.targets),
        learner.targets.metric,
    )
