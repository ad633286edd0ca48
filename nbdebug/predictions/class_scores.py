"""Class scores: top classes, confidence, margin, entropy and loss; soft labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.labels import Labels, to_array

_ScoreForm = Literal["logits", "probabilities"]
Floats = NDArray[np.float32]
N_TOP_CLASSES = 5
_CHUNK_ELEMENTS, _MIN_CHUNK_ROWS = (
    1 << 14,
    1 << 8,
)  # elements per chunk, which fit into the cache; minimum rows per chunk
_FORM_CHECK_ROWS = 1 << 11  # rows from which logits and probabilities are distinguished
_MAX_COLUMN_MAJOR_CLASSES = 64  # up to this many classes, column-major arrays are faster
_LOG_ZERO = -1e30  # replaces log(0) where it is multiplied by 0
_PROBABILITY_TOLERANCE = 1e-3  # tolerance for the sum of a row of probabilities
SOFT_TARGETS_NOTE = "targets are soft labels: the label is the most probable class, and the loss uses all probabilities"


@dataclass(frozen=True)
class _ScoreSummary:
    """A summary of scores, one row each.

    ``top`` are classes, most probable first, with their ``probabilities``. ``loss`` is the cross-entropy, NaN without a
    target. Rows with a non-finite score are NaN throughout; ``n_non_finite`` counts them.
    """

    top: NDArray[np.int32]
    probabilities: Floats
    margin: Floats
    entropy: Floats
    loss: Floats
    form: _ScoreForm
    n_non_finite: int


def parse_scores(values: Any) -> Floats:
    """Return scores, rows × classes; a single score per row is that of the second of two classes.

    Raises SetupError for other shapes.
    """
    scores = values.detach().float().cpu().numpy() if hasattr(values, "detach") else np.asarray(values, np.float32)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1:
        zero_to_one = bool(len(scores)) and np.nanmin(scores) >= 0 and np.nanmax(scores) <= 1
        scores = np.stack([1 - scores if zero_to_one else np.zeros_like(scores), scores], 1)
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise SetupError(f"predictions has shape {scores.shape}; expected rows × classes. Reshape it.")
    return np.asarray(scores, np.float32)


def detect_form(scores: Floats) -> _ScoreForm:
    """Return "probabilities" if rows of scores lie in 0 to 1 and sum to one, else "logits"."""
    for start in range(0, len(scores), _FORM_CHECK_ROWS):
        chunk = scores[start : start + _FORM_CHECK_ROWS]
        chunk = chunk[np.isfinite(chunk).all(1)]
        if len(chunk):
            is_distribution = chunk.min() >= 0 and bool((np.abs(chunk.sum(1) - 1) < _PROBABILITY_TOLERANCE).all())
            return "probabilities" if is_distribution else "logits"
    return "logits"


def summarize_scores(
    scores: Floats, target: Labels, form: _ScoreForm | None = None, top: int = N_TOP_CLASSES
) -> _ScoreSummary:
    """Summarize scores, rows × classes, in chunks to limit memory."""
    form = form or detect_form(scores)
    rows = max(_CHUNK_ELEMENTS // scores.shape[1], _MIN_CHUNK_ROWS)
    starts = range(0, max(len(scores), 1), rows)
    parts = [
        _summarize_chunk(scores[start : start + rows], target[start : start + rows], form, top) for start in starts
    ]
    top_indices, top_probabilities, margin, entropy, loss, is_non_finite = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    return _ScoreSummary(top_indices, top_probabilities, margin, entropy, loss, form, int(is_non_finite.sum()))


def _summarize_chunk(scores: Floats, target: Labels, form: _ScoreForm, top: int) -> tuple[Any, ...]:
    """Return the summary columns of some rows, and which rows are non-finite."""
    scores = np.asfortranarray(scores) if scores.shape[1] <= _MAX_COLUMN_MAJOR_CLASSES else scores
    is_non_finite = np.asarray(~np.isfinite(scores).all(1))
    has_non_finite = bool(is_non_finite.any())
    probabilities, log_probabilities = _probabilities_and_logs(
        np.where(is_non_finite[:, None], 0, scores) if has_non_finite else scores, form
    )
    top_indices, top_probabilities = top_classes(probabilities, min(top, scores.shape[1]))
    entropy = 0 - np.einsum("ij,ij->i", probabilities, np.maximum(log_probabilities, _LOG_ZERO))
    loss = -log_probabilities[np.arange(len(target)), np.maximum(target, 0)]
    margin = top_probabilities[:, 0] - top_probabilities[:, 1]
    for column in (top_probabilities, margin, entropy, loss) if has_non_finite else ():
        column[is_non_finite] = np.nan
    loss[target < 0] = np.nan
    return top_indices, top_probabilities, margin, entropy.astype(np.float32), loss, is_non_finite


def to_probabilities(scores: Floats, form: _ScoreForm = "logits") -> Floats:
    """Return the softmax of logits; probabilities are returned unchanged."""
    return _probabilities_and_logs(scores, form)[0]


def _probabilities_and_logs(scores: Floats, form: _ScoreForm) -> tuple[Floats, Floats]:
    """Return probabilities and their logarithms, which are exact even if the probability underflows."""
    if form == "probabilities":
        with np.errstate(divide="ignore", invalid="ignore"):
            return scores, np.log(scores)
    shifted = scores - scores.max(1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(shifted)
    total = exponentials.sum(1, keepdims=True)
    return np.asarray(exponentials / total, np.float32), np.asarray(shifted - np.log(total), np.float32)


def top_classes(probabilities: Floats, top: int) -> tuple[NDArray[np.int32], Floats]:
    """Return the most probable classes of each row and their probabilities; ties as in argmax.

    The sort key is one integer: the bits of the probability, which have the same order, followed by the class index.
    """
    bits = np.ascontiguousarray(np.maximum(probabilities, 0)).view(np.int32)
    keys = (~bits).astype(np.int64) << 32 | np.arange(probabilities.shape[1])
    if probabilities.shape[1] > 4 * top:  # with fewer classes, a partition takes as long as a full sort
        keys = np.partition(keys, top - 1, axis=1)[:, :top]
    keys = np.sort(keys, axis=1)[:, :top]
    return keys.astype(np.int32), (~(keys >> 32)).astype(np.int32).view(np.float32)


def parse_soft_targets(targets: Any) -> Floats | None:
    """Return targets as probabilities, rows × classes; None for other targets and for one-hot rows."""
    if isinstance(targets, (list, tuple)) and targets and isinstance(targets[0], str):
        return None
    values = to_array(targets)
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind != "f" or not len(values):
        return None
    if (
        not (values.min() >= 0 and bool((np.abs(values.sum(1) - 1) < _PROBABILITY_TOLERANCE).all()))
        or np.isin(values, (0, 1)).all()
    ):
        return None
    return np.asarray(values, np.float32)


def soft_cross_entropy(scores: Floats, target: Floats, form: _ScoreForm) -> NDArray[np.float32]:
    """Return the cross-entropy against soft labels."""
    log_probabilities = _probabilities_and_logs(scores, form)[1]
    return np.asarray(-np.where(target > 0, target * log_probabilities, 0).sum(1), np.float32)
