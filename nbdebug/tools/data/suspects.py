"""Suspect labels, and how well wrong labels would have been noticed, by planting some in a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.reference_learner import ReferenceLearner, Targets
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.reference import Reference, SplitLabels
from nbdebug.setup import Setup
from nbdebug.statistics.label_errors import find_contradicted_labels, look_like_wrong_labels
from nbdebug.tools.data.split_profile import SPLIT_NAMES, SplitAccumulator

if TYPE_CHECKING:
    import pandas

_PLANTED_SHARES, _PLANTINGS, _MIN_NOTICED = (0.02, 0.05, 0.1, 0.2), 10, 9
_SHUFFLES, _MIN_SIGMAS = 12, 3.0
_POWER_QUANTILE = 1.2816  # of the normal distribution at nine tenths
_SPLITS = ("train", "val")


@dataclass(frozen=True)
class _SuspectLabel:
    """A sample whose given class out-of-fold predictions contradict."""

    split: str
    index: int
    label: int
    predicted: int


@dataclass(frozen=True)
class PlantedNoise:
    """A trial in which a ``share`` of the labels of a copy is replaced at random by another class.

    ``noticed`` of ``repetitions`` copies would have been reported; ``listed`` is the mean share of the planted labels
    that are contradicted.
    """

    share: float
    noticed: int
    repetitions: int
    listed: float


@dataclass(frozen=True)
class _LabelRelation:
    """Score of predictions of the targets of a split from the inputs, and the score after shuffling the targets.

    ``sigmas`` is the distance in standard deviations of the shuffled scores.
    """

    metric: str
    score: float
    shuffled: float
    deviation: float
    rows: int

    @property
    def sigmas(self) -> float:
        """The score above that of shuffled targets, in standard deviations."""
        return (self.score - self.shuffled) / max(self.deviation, 1e-6)

    @property
    def is_related(self) -> bool:
        """True if the score exceeds those of shuffled targets by three standard deviations."""
        return self.sigmas > _MIN_SIGMAS

    @property
    def detectable_score(self) -> float:
        """The smallest score that differs from chance with 90% probability."""
        return self.shuffled + (_MIN_SIGMAS + _POWER_QUANTILE) * self.deviation


@dataclass(frozen=True)
class LabelQuality:
    """Suspect labels of one split, the most confident contradiction first.

    ``looks_wrong`` is True if they look like wrong labels rather than ambiguous inputs (rule D111); ``accuracy`` is
    that of the predictions on ``rows`` labels. ``planted`` holds the smallest planted share that would have been
    noticed, and that of 5%.
    """

    split: str
    rows: int
    accuracy: float
    suspects: tuple[_SuspectLabel, ...]
    looks_wrong: bool
    relation: _LabelRelation
    planted: tuple[PlantedNoise, ...] = ()

    @property
    def noticeable_noise(self) -> PlantedNoise | None:
        """The smallest share that would have been noticed in nine of ten copies; None if there is none."""
        return next((item for item in self.planted if item.noticed >= _MIN_NOTICED), None)


@dataclass(frozen=True)
class LabelReview:
    """The labels of the splits; ``reason`` says why they could not be judged, if so."""

    splits: tuple[LabelQuality, ...] = ()
    relations: tuple[tuple[str, _LabelRelation], ...] = ()
    reason: str = ""

    @property
    def suspects(self) -> list[_SuspectLabel]:
        """The suspect labels of all splits."""
        return [suspect for split in self.splits for suspect in split.suspects]

    @property
    def faults(self) -> list[str]:
        """The faults of the labels in words."""
        texts = [
            f"{len(split.suspects):,} of {split.rows:,} {SPLIT_NAMES[split.split]} labels look wrong"
            for split in self.splits
            if split.looks_wrong
        ]
        for name, relation in self.relations:
            if not relation.is_related:
                texts.append(
                    f"{SPLIT_NAMES[name]} targets look unrelated to the inputs: {relation.metric} "
                    f"{relation.score:.3g}, after shuffling {relation.shuffled:.3g}"
                )
        return texts

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per suspect label."""
        import pandas as pd

        rows = [vars(suspect) for suspect in self.suspects]
        return pd.DataFrame(rows, columns=["split", "index", "label", "predicted"])


def review_labels(setup: Setup, accumulators: Sequence[SplitAccumulator], seed: int = 0) -> LabelReview:
    """Review the labels of the first 2,000 samples that were read of each split, with a kernel ridge on the inputs."""
    read = {item.reader.split: item for item in accumulators if item.raw_batches}
    if "train" not in read:
        return LabelReview(reason="the training samples cannot be collated")
    batches = {split: accumulator.raw_batches for split, accumulator in read.items()}
    measurements = Measurements(replace(setup, train_loader=batches["train"], val_loader=batches.get("val")))
    indices = {split: accumulator.indices for split, accumulator in read.items()}
    try:
        reference: Reference = measurements["reference"]
        relations = tuple((split, _measure_relation(reference, split)) for split in _splits_with_rows(reference))
    except (NotChecked, SetupError) as reason:
        return LabelReview(reason=str(reason))
    try:
        contradicted: dict[str, SplitLabels] = measurements["contradicted_labels"]
    except (NotChecked, SetupError) as reason:
        return LabelReview(relations=relations, reason=str(reason))
    by_split = dict(relations)
    generator = np.random.default_rng(seed)
    splits = [
        _judge_split(reference, split, labels, indices[split], by_split[split], generator)
        for split, labels in contradicted.items()
    ]
    return LabelReview(tuple(splits), relations)


def _splits_with_rows(reference: Reference) -> Iterator[str]:
    """Yield the splits that the reference can learn; raise NotChecked if the training split is none of them."""
    for split in _SPLITS:
        try:
            if reference.rows(split).targets.constant_score >= 1:
                raise NotChecked(f"all {SPLIT_NAMES[split]} samples have one class")
        except NotChecked:
            if split == "train":
                raise
            continue
        yield split


def _measure_relation(reference: Reference, split: str) -> _LabelRelation:
    rows = reference.rows(split)
    shuffled = rows.learner.shuffled_scores(_SHUFFLES)
    score = rows.learner.kernel_ridge.score
    deviation = float(shuffled.std(ddof=1))
    return _LabelRelation(rows.targets.metric, score, float(shuffled.mean()), deviation, len(rows.targets))


def _judge_split(
    reference: Reference,
    split: str,
    labels: SplitLabels,
    indices: Sequence[int],
    relation: _LabelRelation,
    generator: np.random.Generator,
) -> LabelQuality:
    """Judge the contradicted labels of a split; ``indices`` are the dataset indices of the rows in order."""
    result = labels.contradicted
    suspects = tuple(
        _SuspectLabel(split, int(indices[labels.indices[row]]), int(labels.labels[row]), int(predicted))
        for row, predicted in zip(result.rows.tolist(), result.predicted.tolist(), strict=True)
    )
    learner = reference.rows(split).learner
    return LabelQuality(
        split,
        len(labels.labels),
        labels.score,
        suspects,
        look_like_wrong_labels(result, labels.labels, labels.score),
        relation,
        tuple(_plant_shares(learner, generator)) if relation.is_related else (),
    )


def _plant_shares(learner: ReferenceLearner, generator: np.random.Generator) -> Iterator[PlantedNoise]:
    """Yield what is noticed of ever larger shares of planted wrong labels, until nine of ten copies are noticed."""
    for share in _PLANTED_SHARES:
        planted = _plant(learner, share, generator)
        yield planted
        if planted.noticed >= _MIN_NOTICED:
            return


def _plant(learner: ReferenceLearner, share: float, generator: np.random.Generator) -> PlantedNoise:
    labels, classes = learner.targets.classes, learner.targets.columns.shape[1]
    noticed, listed = 0, []
    for _ in range(_PLANTINGS):
        rows = generator.permutation(len(labels))[: max(round(share * len(labels)), 1)]
        changed: NDArray[np.int64] = labels.copy()
        changed[rows] = (labels[rows] + generator.integers(1, classes, len(rows))) % classes
        targets = Targets("classes", np.eye(classes)[changed])
        prediction = learner.with_targets(targets).kernel_ridge
        contradicted = find_contradicted_labels(prediction.class_probabilities(), changed)
        noticed += look_like_wrong_labels(contradicted, changed, prediction.score)
        listed.append(float(np.isin(rows, contradicted.rows).mean()))
    return PlantedNoise(share, noticed, _PLANTINGS, float(np.mean(listed)))
