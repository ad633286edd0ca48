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
TOP = 5
PIECE, LEAST_ROWS = 1 << 14, 1 << 8  # numbers that are worked on at a time stay in the cache; rows of them
LOOK = 1 << 11  # rows that tell logits from probabilities
FEW = 64  # classes: up to here columns are worked through faster than rows
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
    for at in range(0, len(scores), LOOK):
        some = scores[at : at + LOOK]
        some = some[np.isfinite(some).all(1)]
        if len(some):
            fits = some.min() >= 0 and bool((np.abs(some.sum(1) - 1) < CLOSE).all())
            return "probabilities" if fits else "logits"
    return "logits"


def digest(scores: Floats, target: Labels, form: Form | None = None, top: int = TOP) -> Digest:
    """What is kept of scores, rows × classes, some rows at a time so that memory stays small."""
    form = form or form_of(scores)
    rows = max(PIECE // scores.shape[1], LEAST_ROWS)
    starts = range(0, max(len(scores), 1), rows)
    parts = [piece(scores[at : at + rows], target[at : at + rows], form, top) for at in starts]
    best, chances, margin, entropy, loss, broken = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Digest(best, chances, margin, entropy, loss, form, int(broken.sum()))


def piece(scores: Floats, target: Labels, form: Form, top: int) -> tuple[Any, ...]:
    """The columns of some rows, and which of these are broken."""
    scores = np.asfortranarray(scores) if scores.shape[1] <= FEW else scores
    broken = np.asarray(~np.isfinite(scores).all(1))
    some = bool(broken.any())
    chances, logs = softmaxed(np.where(broken[:, None], 0, scores) if some else scores, form)
    best, found = best_first(chances, min(top, scores.shape[1]))
    entropy = 0 - np.einsum("ij,ij->i", chances, np.maximum(logs, LEAST))
    own = -logs[np.arange(len(target)), np.maximum(target, 0)]
    margin = found[:, 0] - found[:, 1]
    for one in (found, margin, entropy, own) if some else ():
        one[broken] = np.nan
    own[target < 0] = np.nan
    return best, found, margin, entropy.astype(np.float32), own, broken


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


def best_first(chances: Floats, top: int) -> tuple[NDArray[np.int32], Floats]:
    """The likeliest classes of each row in order, and their chances; of equal ones the first, as argmax takes it.

    The bits of a chance, which order as it does, and the number of its class make one whole number to sort.
    """
    bits = np.ascontiguousarray(np.maximum(chances, 0)).view(np.int32)
    keys = (~bits).astype(np.int64) << 32 | np.arange(chances.shape[1])
    if chances.shape[1] > 4 * top:  # of fewer, finding the first takes as long as sorting all
        keys = np.partition(keys, top - 1, axis=1)[:, :top]
    keys = np.sort(keys, axis=1)[:, :top]
    return keys.astype(np.int32), (~(keys >> 32)).astype(np.int32).view(np.float32)
