"""The panel of calibration: whether a confidence of 0.8 is right in eight of ten cases, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.metrics.calibration import Reliability, brier
from nbdebug.metrics.scaling import Scaling
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.one_class import all_chances, has_chances, keep_chance, one_class
from nbdebug.predictions.scores import form_of
from nbdebug.tools.errors.by_class import classes, reliability_of, scaling_of
from nbdebug.tools.errors.numbers import exact, many, one
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import paragraph, table

if TYPE_CHECKING:
    from nbdebug.tools.errors.result import Errors

BARS = 20
MOST = 50  # classes that the page offers by name; others are typed
AT_ONCE = 50_000  # rows that are looked at without being asked
SCALED_AT_ONCE = 100_000  # numbers that a temperature is fitted to without being asked


def fits(errors: Errors) -> bool:
    """Whether there are confidences of rows with a target."""
    found = errors.table
    if not isinstance(found, Predictions) or "confidence" not in found.columns:
        return False
    return bool(((found.target >= 0) & np.isfinite(found.columns["confidence"])).any())


def state(errors: Errors, of: int | str | None = None, now: bool = False, mend: bool = False) -> dict[str, Any]:
    """What the page draws: the bins of confidence, or of the chance of a class ``of``.

    Of many rows nothing is computed until ``now``, and no temperature is fitted to many until ``mend``.
    """
    predictions = classes(errors.table)
    names = list(predictions.classes[:MOST]) if has_chances(predictions) else []
    head = {"names": names, "total": len(predictions.classes), "of": of, "later": False}
    if len(predictions) > AT_ONCE and not (now or mend or of is not None):
        return {**head, "later": True}
    column, sure, right = judged(predictions, of)
    bins = reliability_of(sure, right)
    return {
        **head,
        "column": column,
        **reliability_state(bins),
        "brier": brier_of(predictions) if of is None else one(np.mean((sure.astype(np.float64) - right) ** 2), 5),
        "histogram": histogram(sure, right),
        "unknown": len(predictions) - len(sure),
        "scaling": scaling_state(predictions, mend) if of is None and len(sure) > 1 else None,
    }


def judged(predictions: Predictions, of: int | str | None) -> tuple[str, np.ndarray, np.ndarray]:
    """The column that is looked at, its values where a row has a target, and whether they came true."""
    if of is not None:
        keep_chance(predictions, of)
        found = one_class(predictions, of)
        if found is not None:
            return found.column, found.chance, found.target
    sure = predictions.columns["confidence"]
    known = np.isfinite(sure) & (predictions.target >= 0)
    return "confidence", sure[known], predictions.right[known]


def reliability_state(found: Reliability) -> dict[str, Any]:
    """The bins, each with the range that leads to its rows."""
    columns = {name: many(getattr(found, name)) for name in ("confidence", "accuracy", "low", "high")}
    return {
        "bins": {"counts": found.counts.tolist(), "first": exact(found.first), "last": exact(found.last), **columns},
        "error": one(found.error, 5),
        "chance": one(found.chance, 5),
        "off": found.is_off,
        "over": found.overconfident,
    }


def histogram(sure: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """How many rows in each bar of confidence came true and did not, and the lowest and highest value in it."""
    edges = np.linspace(0, 1, BARS + 1)
    bar = np.clip((sure.astype(np.float64) * BARS).astype(int), 0, BARS - 1)
    first, last = np.full(BARS, np.inf), np.full(BARS, -np.inf)
    np.minimum.at(first, bar, sure)
    np.maximum.at(last, bar, sure)
    counts = {"right": bar[right], "wrong": bar[~right]}
    return {
        "edges": many(edges),
        "first": exact(first),
        "last": exact(last),
        **{name: np.bincount(found, minlength=BARS).tolist() for name, found in counts.items()},
    }


def brier_of(predictions: Predictions) -> float | None:
    """The Brier score over all classes; None where not all scores are kept."""
    if predictions.scores is None:
        return None
    chances = all_chances(predictions)
    known = (predictions.target >= 0) & np.isfinite(chances[:, 0])
    return one(brier(chances[known].astype(np.float64), predictions.target[known].astype(np.int64)), 5)


def scaling_state(predictions: Predictions, mend: bool) -> dict[str, Any] | None:
    """A temperature and what it does; ``{"later": True}`` where it is fitted when asked for, None without scores."""
    if predictions.scores is None:
        return None
    if predictions.scores.size > SCALED_AT_ONCE and not mend:
        return {"later": True}
    found = scaling_of(predictions)
    return {
        "later": False,
        "temperature": one(found.temperature),
        "rows": found.rows,
        "loss": [one(found.loss_before, 5), one(found.loss_after, 5)],
        "error": [one(found.before.error, 5), one(found.after.error, 5)],
        "chance": one(found.after.chance, 5),
        "helps": found.helps,
        "after": {name: many(getattr(found.after, name)) for name in ("confidence", "accuracy")},
        "code": code(predictions, found),
    }


def code(predictions: Predictions, found: Scaling) -> str:
    """The line that divides by the temperature."""
    assert predictions.scores is not None
    at = f"{found.temperature:.3g}"
    if form_of(predictions.scores) == "probabilities":
        return f"probabilities = (model(x).log() / {at}).softmax(-1)"
    if predictions.scores.shape[1] == 2 and not predictions.scores[:, 0].any():
        return f"probability = (model(x) / {at}).sigmoid()"
    return f"probabilities = (model(x) / {at}).softmax(-1)"


def html(state: dict[str, Any]) -> str:
    """The same as a plain table."""
    if state["later"]:
        return paragraph("Calibration: errors.calibration() gives the bins.")
    bins = state["bins"]
    columns = (bins["confidence"], bins["accuracy"], bins["low"], bins["high"], bins["counts"])
    body = [
        [f"{c:.3f}", f"{a:.3f}", f"{low:.3f} to {high:.3f}", str(n)]
        for c, a, low, high, n in zip(*columns, strict=True)
    ]
    said = (
        f"Calibration error {state['error']:.3f}; a calibrated model would have up to {state['chance']:.3f} by chance."
    )
    return paragraph(said) + table(body, (state["column"], "came true", "if calibrated", "samples"))


PANEL = Panel("calibration", "Calibration", fits, state, html)
