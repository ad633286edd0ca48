"""Suspect labels, the share of wrong labels, and the relation of the labels to the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.class_scores import OutOfFoldScorer, feature_views
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.reference import Reference
from nbdebug.setup import Setup
from nbdebug.statistics.intervals import Number
from nbdebug.statistics.label_noise import FlippedPair, LabelNoise, estimate_label_noise
from nbdebug.tools.data.label_features import Layer, embed_rows
from nbdebug.tools.data.planted_noise import PlantedNoise, plant_noise
from nbdebug.tools.data.predicted_probabilities import rows_of_probabilities
from nbdebug.tools.data.raters import RaterReview
from nbdebug.tools.data.split_profile import SPLIT_NAMES, SplitAccumulator

if TYPE_CHECKING:
    import pandas

_SHUFFLES, _MIN_SIGMAS = 12, 3.0
_POWER_QUANTILE = 1.2816  # of the normal distribution at nine tenths
_SPLITS = ("train", "val")
_MAX_RANKED, _MIN_SUSPECT = 500, 0.5
_ON_INPUTS = "learners on the inputs"


@dataclass(frozen=True)
class _SuspectLabel:
    """A sample with its label, the class that is predicted instead, and the probability that the label is wrong."""

    split: str
    index: int
    label: int
    predicted: int
    probability: float


@dataclass(frozen=True)
class _LabelRelation:
    """Score of predictions of the targets of a split from the inputs, and the score after shuffling the targets.

    ``sigmas`` is the distance in standard deviations of the shuffled scores, or in standard errors if these are larger.
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
    """The labels of one split that look wrong, and how many there are.

    ``ranked`` are the samples whose labels are most probably wrong, the most probable first, and ``noise`` is the
    estimated share of wrong labels with its 95% interval. ``looks_wrong`` is True if wrong labels explain the
    contradictions better than ambiguous inputs. ``pairs`` are pairs of classes that are confused more often than
    others. ``accuracy`` is that of the predictions on ``rows`` labels, and ``source`` says where they come from.
    ``planted`` holds what was noticed of planted wrong labels. ``is_predictable`` is False if the predictions come from
    inputs that say nothing about the labels.
    """

    split: str
    rows: int
    accuracy: float
    ranked: tuple[_SuspectLabel, ...]
    noise: Number
    looks_wrong: bool
    relation: _LabelRelation
    pairs: tuple[FlippedPair, ...] = ()
    planted: tuple[PlantedNoise, ...] = ()
    source: str = _ON_INPUTS
    is_decidable: bool = True
    is_predictable: bool = True

    @property
    def suspects(self) -> tuple[_SuspectLabel, ...]:
        """The samples whose labels are more probably wrong than right; none if that is not decidable."""
        return tuple(item for item in self.ranked if item.probability > _MIN_SUSPECT and self.is_decidable)

    @property
    def noticeable_noise(self) -> PlantedNoise | None:
        """The smallest share that would have been noticed in nine of ten copies; None if there is none."""
        return next((item for item in self.planted if item.is_noticeable), None)


@dataclass(frozen=True)
class LabelReview:
    """The labels of the splits; ``reason`` says why they could not be judged, if so.

    ``unjudged`` has the reason for each single split that could not be judged. ``raters`` compares the labels with the
    ratings that the user passes.
    """

    splits: tuple[LabelQuality, ...] = ()
    relations: tuple[tuple[str, _LabelRelation], ...] = ()
    reason: str = ""
    unjudged: tuple[tuple[str, str], ...] = ()
    raters: tuple[RaterReview, ...] = ()

    def get_split(self, split: str) -> LabelQuality | None:
        """Return the labels of a split, "train" or "val"; None if they were not judged."""
        return next((item for item in self.splits if item.split == split), None)

    @property
    def suspects(self) -> list[_SuspectLabel]:
        """The suspect labels of all splits."""
        return [suspect for split in self.splits for suspect in split.suspects]

    @property
    def faults(self) -> list[str]:
        """The faults of the labels in words."""
        texts = [
            f"{len(split.suspects):,} of {split.rows:,} {SPLIT_NAMES[split.split]} labels look wrong; the share of "
            f"wrong labels is {split.noise.percent()}"
            for split in self.splits
            if split.looks_wrong
        ]
        for name, relation in self.relations:
            if not relation.is_related:
                texts.append(
                    f"{SPLIT_NAMES[name]} targets look unrelated to the inputs: {relation.metric} "
                    f"{relation.score:.3g}, after shuffling {relation.shuffled:.3g}"
                )
        texts += [review.text for review in self.raters if review.contradicted or not review.is_reliable]
        return texts

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per suspect label."""
        import pandas as pd

        rows = [vars(suspect) for suspect in self.suspects]
        return pd.DataFrame(rows, columns=["split", "index", "label", "predicted", "probability"])


def review_labels(
    setup: Setup,
    accumulators: Sequence[SplitAccumulator],
    seed: int = 0,
    pred_probs: Any = None,
    layer: Layer | None = None,
) -> LabelReview:
    """Review the labels of the first 2,000 samples that were read of each split.

    ``pred_probs`` are out-of-sample class probabilities by split, one row for each sample of the dataset; without them,
    learners on the inputs, or on the outputs of a ``layer`` of the model, leave out the sample.
    """
    read = {item.reader.split: item for item in accumulators if item.raw_batches}
    if "train" not in read:
        return LabelReview(reason="the training samples cannot be collated")
    batches = {split: accumulator.raw_batches for split, accumulator in read.items()}
    measurements = Measurements(replace(setup, train_loader=batches["train"], val_loader=batches.get("val")))
    try:
        reference: Reference = measurements["reference"]
        judged, unjudged = _splits_with_rows(reference, [split for split in _SPLITS if split in read])
        relations = tuple((split, _measure_relation(reference, split)) for split in judged)
    except (NotChecked, SetupError) as reason:
        return LabelReview(reason=str(reason))
    if any(reference.rows(split).targets.kind != "classes" for split, _ in relations):
        return LabelReview(relations=relations, reason="the targets are not one class per row")
    generator = np.random.default_rng(seed)
    splits = [
        _judge_split(reference, relation, read[split], (pred_probs or {}).get(split), layer, generator)
        for split, relation in relations
    ]
    return LabelReview(tuple(_leave_open(item, splits) for item in splits), relations, unjudged=unjudged)


def _leave_open(quality: LabelQuality, splits: Sequence[LabelQuality]) -> LabelQuality:
    """Leave the labels of a split undecided if a larger split shows that its inputs are too ambiguous.

    The ambiguity is that of the task. A few samples show it less reliably, and then look certain but wrongly labeled.
    """
    larger = [item for item in splits if item.rows > quality.rows and item.source == quality.source]
    if all(item.is_decidable for item in larger):
        return quality
    noise = replace(quality.noise, low=0.0)
    return replace(quality, noise=noise, looks_wrong=False, is_decidable=False, pairs=(), planted=())


def _splits_with_rows(reference: Reference, splits: Sequence[str]) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return the splits that the reference can learn, and the reasons for others; raise NotChecked for training."""
    judged, unjudged = list[str](), list[tuple[str, str]]()
    for split in splits:
        try:
            if reference.rows(split).targets.constant_score >= 1:
                raise NotChecked(f"all {SPLIT_NAMES[split]} samples have one class")
            judged.append(split)
        except NotChecked as reason:
            if split == "train":
                raise
            unjudged.append((split, str(reason)))
    return judged, tuple(unjudged)


def _measure_relation(reference: Reference, split: str) -> _LabelRelation:
    """Measure how much better the targets are predicted than shuffled ones.

    The scores of shuffled targets often equal that of a constant, so that a few of them show too little of their
    spread. It is at least the standard error of the gain over a constant.
    """
    rows = reference.rows(split)
    targets, prediction = rows.targets, rows.learner.kernel_ridge
    shuffled = rows.learner.shuffled_scores(_SHUFFLES)
    constant = np.broadcast_to(targets.columns.mean(0), targets.columns.shape)
    gains = targets.agreement(prediction.predictions) - targets.agreement(constant)
    deviation = max(float(shuffled.std(ddof=1)), float(gains.std()) / len(gains) ** 0.5)
    return _LabelRelation(targets.metric, prediction.score, float(shuffled.mean()), deviation, len(targets))


def _judge_split(
    reference: Reference,
    relation: _LabelRelation,
    accumulator: SplitAccumulator,
    probabilities: NDArray[np.float64] | None,
    layer: Layer | None,
    generator: np.random.Generator,
) -> LabelQuality:
    """Judge the labels of a split by ``probabilities``, else by learners on a layer, else by learners on the inputs."""
    split = accumulator.reader.split
    rows = reference.rows(split)
    labels, classes = rows.targets.classes, rows.targets.columns.shape[1]
    indices = np.asarray(accumulator.indices)[rows.indices]
    is_predictable = relation.is_related or probabilities is not None or layer is not None
    planted: tuple[PlantedNoise, ...] = ()
    if probabilities is not None:
        scores, source = rows_of_probabilities(probabilities, indices, labels), "pred_probs"
    else:
        if layer is None:
            views, source = feature_views([part[rows.kept] for part in rows.parts]), _ON_INPUTS
        else:
            embedded, source = embed_rows(reference.setup, rows.batches, layer)
            views = [embedded[rows.kept]]
        scorer = OutOfFoldScorer(views)
        scores = scorer.scores(labels, classes)
        planted = tuple(plant_noise(scorer, labels, classes, generator)) if is_predictable else ()
    noise = estimate_label_noise(scores, labels)
    return LabelQuality(
        split,
        len(labels),
        float((noise.scored_class == labels).mean()),
        _rank_labels(split, noise, labels, indices),
        noise.rate,
        noise.looks_wrong and is_predictable,
        relation,
        noise.unusual_pairs(labels) if noise.looks_wrong else (),
        planted,
        source,
        noise.is_decidable,
        is_predictable,
    )


def _rank_labels(
    split: str, noise: LabelNoise, labels: NDArray[np.int64], indices: NDArray[np.int64]
) -> tuple[_SuspectLabel, ...]:
    """Return the labels that are most probably wrong."""
    order = np.argsort(-noise.wrong, kind="stable")[:_MAX_RANKED].tolist()
    return tuple(
        _SuspectLabel(split, int(indices[row]), int(labels[row]), int(noise.replacement[row]), float(noise.wrong[row]))
        for row in order
    )
