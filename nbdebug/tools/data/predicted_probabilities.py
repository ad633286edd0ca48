"""Class probabilities that the user passes, by split and dataset index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.validation import argument_error

_SPLITS = ("train", "val")
_TOLERANCE, _MIN_PROBABILITY = 1e-2, 1e-6


def validate_probabilities(pred_probs: Any, sizes: Mapping[str, int | None]) -> dict[str, NDArray[np.float64]]:
    """Return out-of-sample probabilities by split; an array alone is that of training.

    ``sizes`` are the numbers of samples of the datasets. Raises SetupError for another form.
    """
    if pred_probs is None:
        return {}
    by_split = dict(pred_probs) if isinstance(pred_probs, Mapping) else {"train": pred_probs}
    unknown = [split for split in by_split if split not in sizes or split not in _SPLITS]
    if unknown:
        raise argument_error("pred_probs", unknown[0], "a dict with the keys train and val", "Pass the splits read")
    return {split: _validate_array(split, values, sizes[split]) for split, values in by_split.items()}


def _validate_array(split: str, values: Any, size: int | None) -> NDArray[np.float64]:
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, np.float64)
    if size is None:
        raise SetupError(
            f"{split}_loader has no samples with an index; expected a map-style dataset. Leave pred_probs out."
        )
    if array.ndim != 2 or len(array) != size:
        raise SetupError(
            f"pred_probs of {split} has the shape {array.shape}; expected ({size}, classes), a row for each sample of "
            f"{split}_loader.dataset. Predict the whole dataset by cross-validation."
        )
    sums = array.sum(1)
    if not np.isfinite(array).all() or array.min() < 0 or np.abs(sums - 1).max() > _TOLERANCE:
        raise SetupError(
            f"pred_probs of {split} has values from {array.min():.3g} to {array.max():.3g} with sums from "
            f"{sums.min():.3g} to {sums.max():.3g}; expected probabilities. Apply softmax to the logits."
        )
    return array


def rows_of_probabilities(
    probabilities: NDArray[np.float64], indices: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the log probabilities of some samples as scores of one learner; raise SetupError for missing classes."""
    classes = probabilities.shape[1]
    if int(labels.max()) >= classes:
        raise SetupError(
            f"pred_probs has {classes} columns; expected one for each class, and a label is {int(labels.max())}. "
            "Order the columns by class."
        )
    scores: NDArray[np.float64] = np.log(np.maximum(probabilities[indices], _MIN_PROBABILITY))[None]
    return scores
