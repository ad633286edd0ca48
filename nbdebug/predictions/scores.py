"""Scores of classes to what is kept of them: the best few, the confidence, the margin, the entropy and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.labels import Labels

Form = Literal["logits", "probabilities"]
Floats = NDArray[np.float32]
TOP, ROWS = 5, 1 << 14
LEAST = -1e30  # stands for the logarithm of zero where it is multiplied by zero
CLOSE = 1e-3  # how far a row of probabilities may be off one


@dataclass(frozen=True)
class Digest:
    """What is kept of scores, a row each: ``top`` are classes, the likeliest first, ``chances`` their probabilities.

    ``loss`` is the cross-entropy against the targets, NaN where there is none. Rows with a score that is no number
    have NaN throughout, and ``broken`` counts them.
    """

    top: NDArray[np.int32]
    chances: Floats
    margin: Floats
    entropy: Floats
    loss: Floats
    form: Form
    broken: int


def as_scores(values: Any) -> Floats:
    """Scores, rows × classes; one score a row is that of the second of two classes.

    Raises SetupError for other shapes.
    """
    found = values.detach().float().cpu().numpy() if hasattr(values, "detach") else np.asarray(values, np.float32)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim == 1:
        zero_to_one = bool(len(found)) and np.nanmin(found) >= 0 and np.nanmax(found) <= 1
        found = np.stack([1 - found if zero_to_one else np.zeros_like(found), found], 1)
    if found.ndim != 2 or found.shape[1] < 2:
        raise SetupError(f"predictions has shape {found.shape}; expected rows × classes. Reshape it.")
    return np.asarray(found, np.float32)


def form_of(scores: Floats) -> Form:
    """Whether rows of scores are probabilities: from 0 to 1 with a sum of one."""
    some = scores[np.isfinite(scores).all(1)][:ROWS]
    if len(some) and some.min() >= 0 and bool((np.abs(some.sum(1) - 1) < CLOSE).all()):
        return "probabilities"
    return "logits"


def digest(scores: Floats, target: Labels, form: Form | None = None, top: int = TOP) -> Digest:
    """What is kept of scores, rows × classes, some rows at a time so that memory stays small."""
    form = form or form_of(scores)
    parts = [piece(scores[at : at + ROWS], target[at : at + ROWS], form, top) for at in range(0, len(scores), ROWS)]
    if not parts:
        parts = [piece(scores, target, form, top)]
    best, chances, margin, entropy, loss, broken = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Digest(best, chances, margin, entropy, loss, form, int(broken.sum()))


def piece(scores: Floats, target: Labels, form: Form, top: int) -> tuple[Any, ...]:
    """The columns of some rows, and which of these are broken."""
    broken = np.asarray(~np.isfinite(scores).all(1))
    chances, logs = softmaxed(np.where(broken[:, None], 0, scores) if broken.any() else scores, form)
    best = best_first(chances, min(top, scores.shape[1]))
    found = np.take_along_axis(chances, best, 1)
    entropy = 0 - np.einsum("ij,ij->i", chances, np.maximum(logs, LEAST))
    own = -logs[np.arange(len(target)), np.maximum(target, 0)]
    margin = found[:, 0] - found[:, 1]
    for one in (found, margin, entropy, own):
        one[broken] = np.nan
    own[target < 0] = np.nan
    return best.astype(np.int32), found, margin, entropy.astype(np.float32), own, broken


def probabilities(scores: Floats, form: Form = "logits") -> Floats:
    """The softmax of logits; probabilities as they are."""
    return softmaxed(scores, form)[0]


def softmaxed(scores: Floats, form: Form) -> tuple[Floats, Floats]:
    """Probabilities and their logarithms; those of logits stay exact where a probability is too small for a float."""
    if form == "probabilities":
        with np.errstate(divide="ignore", invalid="ignore"):
            return scores, np.log(scores)
    shifted = scores - scores.max(1, keepdims=True, initial=-np.inf)
    raised = np.exp(shifted)
    total = raised.sum(1, keepdims=True)
    return np.asarray(raised / total, np.float32), np.asarray(shifted - np.log(total), np.float32)


def best_first(chances: Floats, top: int) -> NDArray[np.int64]:
    """The likeliest classes of each row in order; of equal ones the first, as argmax takes it."""
    if chances.shape[1] <= 4 * top:
        return np.argsort(-chances, axis=1, kind="stable")[:, :top]
    some = np.sort(np.argpartition(-chances, top - 1, axis=1)[:, :top], axis=1)
    order = np.argsort(-np.take_along_axis(chances, some, 1), axis=1, kind="stable")
    found = np.take_along_axis(some, order, 1)
    found[:, 0] = chances.argmax(1)
    return found
