"""Labels compared with the ratings of several raters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.statistics.rater_agreement import fit_rater_model, krippendorff_alpha
from nbdebug.tools.data.split_profile import SPLIT_NAMES
from nbdebug.validation import argument_error

_SPLITS = ("train", "val")
_MIN_AGREEMENT = 0.667  # below it, Krippendorff 2004 (Content Analysis) draws no conclusions
_MIN_PROBABILITY = 0.9
_MAX_LISTED = 500


@dataclass(frozen=True)
class _ContradictedLabel:
    """A sample whose raters agree on another class than its label, with the probability of that class."""

    split: str
    index: int
    label: int
    consensus: int
    probability: float


@dataclass(frozen=True)
class RaterReview:
    """The ratings of one split.

    ``agreement`` is Krippendorff's alpha, ``accuracy`` has the expected share of correct ratings of each rater, and
    ``contradicted`` are the labels that the raters contradict, the most certain first, of ``rows`` rated samples.
    """

    split: str
    rows: int
    agreement: float
    accuracy: tuple[float, ...]
    contradicted: tuple[_ContradictedLabel, ...]

    @property
    def is_reliable(self) -> bool:
        """True if the raters agree enough for conclusions."""
        return self.agreement >= _MIN_AGREEMENT

    @property
    def text(self) -> str:
        """The ratings in words."""
        worst = int(np.argmin(self.accuracy))
        return (
            f"{SPLIT_NAMES[self.split]}: the agreement of {len(self.accuracy)} raters is {self.agreement:.2f} "
            f"(Krippendorff's alpha); rater {worst} is right in {self.accuracy[worst]:.0%}; they contradict "
            f"{len(self.contradicted):,} of {self.rows:,} labels"
        )


def validate_ratings(ratings: Any, sizes: Mapping[str, int | None]) -> dict[str, NDArray[np.int64]]:
    """Return the ratings by split, -1 where missing; an array alone is that of training.

    ``sizes`` are the numbers of samples of the datasets. Raises SetupError for another form.
    """
    if ratings is None:
        return {}
    by_split = dict(ratings) if isinstance(ratings, Mapping) else {"train": ratings}
    unknown = [split for split in by_split if split not in sizes or split not in _SPLITS]
    if unknown:
        raise argument_error("ratings", unknown[0], "a dict with the keys train and val", "Pass the splits read")
    return {split: _validate_array(split, values, sizes[split]) for split, values in by_split.items()}


def _validate_array(split: str, values: Any, size: int | None) -> NDArray[np.int64]:
    try:
        array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, np.float64)
    except (TypeError, ValueError) as error:
        raise SetupError(
            f"ratings of {split} has no numbers ({error}); expected classes. Pass class numbers."
        ) from error
    if size is None or array.ndim != 2 or len(array) != size or array.shape[1] < 2:
        raise SetupError(
            f"ratings of {split} has the shape {array.shape}; expected ({size or 'samples'}, raters) with two raters "
            f"or more, a row for each sample of {split}_loader.dataset. Put NaN where a rating is missing."
        )
    whole = np.where(np.isnan(array) | (array < 0), -1, array)
    if (whole != np.round(whole)).any():
        raise SetupError(f"ratings of {split} has fractions; expected class numbers. Round them to classes.")
    return whole.astype(np.int64)


def review_ratings(
    ratings: Mapping[str, NDArray[np.int64]], tables: Mapping[str, SplitTable]
) -> tuple[RaterReview, ...]:
    """Compare the labels that were read with the consensus of their raters."""
    reviews = [_review_split(tables[split], values) for split, values in ratings.items() if split in tables]
    return tuple(review for review in reviews if review is not None)


def _review_split(table: SplitTable, ratings: NDArray[np.int64]) -> RaterReview | None:
    """Return the review of a split; None without one class for each sample."""
    if table.labels is None:
        return None
    indices = np.asarray(table.indices)
    labels, rated = table.labels.numpy(), ratings[indices]
    kept = (rated >= 0).any(1) & (labels >= 0)
    indices, labels, rated = indices[kept], labels[kept], rated[kept]
    if not len(labels):
        return None
    classes = int(max(labels.max(), rated.max())) + 1
    model = fit_rater_model(rated, classes)
    consensus, certainty = model.probabilities.argmax(1), model.probabilities.max(1)
    wrong = np.flatnonzero((consensus != labels) & (certainty > _MIN_PROBABILITY))
    wrong = wrong[np.argsort(-certainty[wrong], kind="stable")][:_MAX_LISTED]
    contradicted = tuple(
        _ContradictedLabel(table.split, int(indices[i]), int(labels[i]), int(consensus[i]), float(certainty[i]))
        for i in wrong
    )
    agreement = krippendorff_alpha(rated, classes)
    return RaterReview(table.split, len(labels), agreement, tuple(model.accuracy.tolist()), contradicted)
