"""The panel of calibration: accuracy per confidence bin, and the temperature that corrects it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.formatting import finite_or_none, html_paragraph, html_table, round_all_decimals, round_decimals
from nbdebug.metrics.calibration import CalibrationCurve, TemperatureScaling, brier_score
from nbdebug.predictions.class_scores import detect_form
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.one_vs_rest import (
    add_probability_column,
    get_all_probabilities,
    get_one_vs_rest,
    has_probabilities,
)
from nbdebug.tools.errors.data import check_classification, compute_reliability, fit_temperature
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

_HISTOGRAM_BARS = 20
_MAX_CLASSES_ON_PAGE = 50  # classes offered by name on the page
MAX_ROWS_WITHOUT_REQUEST = 50_000  # rows computed without a request
MAX_SCORES_WITHOUT_REQUEST = 100_000  # scores that a temperature is fitted to without a request


def _fits(errors: ErrorData) -> bool:
    table = errors.table
    if not isinstance(table, ClassificationTable) or "confidence" not in table.columns:
        return False
    return bool(((table.target >= 0) & np.isfinite(table.columns["confidence"])).any())


def state(errors: ErrorData, of: int | str | None = None, now: bool = False, mend: bool = False) -> dict[str, Any]:
    """Return the calibration of the confidence, or of the probability of class ``of``.

    Large tables are computed only on request: ``now`` for the bins, ``mend`` for the temperature.
    """
    predictions = check_classification(errors.table)
    names = list(predictions.classes[:_MAX_CLASSES_ON_PAGE]) if has_probabilities(predictions) else []
    head = {"names": names, "total": len(predictions.classes), "of": of, "later": False}
    if len(predictions) > MAX_ROWS_WITHOUT_REQUEST and not (now or mend or of is not None):
        return {**head, "later": True}
    column, confidence, right = _confidence_and_outcome(predictions, of)
    bins = compute_reliability(confidence, right)
    return {
        **head,
        "column": column,
        **_reliability_state(bins),
        "brier": _brier_state(predictions)
        if of is None
        else round_decimals(np.mean((confidence.astype(np.float64) - right) ** 2), 5),
        "histogram": _histogram(confidence, right),
        "unknown": len(predictions) - len(confidence),
        "scaling": _temperature_state(predictions, mend) if of is None and len(confidence) > 1 else None,
    }


def _confidence_and_outcome(
    predictions: ClassificationTable, of: int | str | None
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the column, its values where a row has a target, and whether the rows are correct."""
    if of is not None:
        add_probability_column(predictions, of)
        class_scores = get_one_vs_rest(predictions, of)
        if class_scores is not None:
            return class_scores.column, class_scores.probability, class_scores.target
    confidence = predictions.columns["confidence"]
    has_target = np.isfinite(confidence) & (predictions.target >= 0)
    return "confidence", confidence[has_target], predictions.right[has_target]


def _reliability_state(reliability: CalibrationCurve) -> dict[str, Any]:
    """Return the bins, each with the range that selects its rows."""
    columns = {
        name: round_all_decimals(getattr(reliability, name)) for name in ("confidence", "accuracy", "low", "high")
    }
    return {
        "bins": {
            "counts": reliability.counts.tolist(),
            "first": finite_or_none(reliability.lowest),
            "last": finite_or_none(reliability.highest),
            **columns,
        },
        "error": round_decimals(reliability.calibration_error, 5),
        "chance": round_decimals(reliability.chance_error, 5),
        "off": reliability.is_miscalibrated,
        "over": reliability.is_overconfident,
    }


def _histogram(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Return correct and wrong rows per bar of confidence, with the lowest and highest value in each."""
    edges = np.linspace(0, 1, _HISTOGRAM_BARS + 1)
    bar = np.clip((confidence.astype(np.float64) * _HISTOGRAM_BARS).astype(int), 0, _HISTOGRAM_BARS - 1)
    first, last = np.full(_HISTOGRAM_BARS, np.inf), np.full(_HISTOGRAM_BARS, -np.inf)
    np.minimum.at(first, bar, confidence)
    np.maximum.at(last, bar, confidence)
    counts = {"right": bar[right], "wrong": bar[~right]}
    return {
        "edges": round_all_decimals(edges),
        "first": finite_or_none(first),
        "last": finite_or_none(last),
        **{name: np.bincount(bars, minlength=_HISTOGRAM_BARS).tolist() for name, bars in counts.items()},
    }


def _brier_state(predictions: ClassificationTable) -> float | None:
    """Return the Brier score over all classes; None without all scores."""
    if predictions.scores is None:
        return None
    probabilities = get_all_probabilities(predictions)
    has_target = (predictions.target >= 0) & np.isfinite(probabilities[:, 0])
    return round_decimals(
        brier_score(probabilities[has_target].astype(np.float64), predictions.target[has_target].astype(np.int64)), 5
    )


def _temperature_state(predictions: ClassificationTable, mend: bool) -> dict[str, Any] | None:
    """Return the fitted temperature; ``{"later": True}`` for large tables, None without scores."""
    if predictions.scores is None:
        return None
    if predictions.scores.size > MAX_SCORES_WITHOUT_REQUEST and not mend:
        return {"later": True}
    scaling = fit_temperature(predictions)
    return {
        "later": False,
        "temperature": round_decimals(scaling.temperature),
        "rows": scaling.rows,
        "loss": [round_decimals(scaling.loss_before, 5), round_decimals(scaling.loss_after, 5)],
        "error": [
            round_decimals(scaling.before.calibration_error, 5),
            round_decimals(scaling.after.calibration_error, 5),
        ],
        "chance": round_decimals(scaling.after.chance_error, 5),
        "helps": scaling.helps,
        "after": {name: round_all_decimals(getattr(scaling.after, name)) for name in ("confidence", "accuracy")},
        "code": _temperature_code(predictions, scaling),
    }


def _temperature_code(predictions: ClassificationTable, scaling: TemperatureScaling) -> str:
    """Return the line of code that applies the temperature."""
    assert predictions.scores is not None
    temperature = f"{scaling.temperature:.3g}"
    if detect_form(predictions.scores) == "probabilities":
        return f"probabilities = (model(x).log() / {temperature}).softmax(-1)"
    if predictions.scores.shape[1] == 2 and not predictions.scores[:, 0].any():
        return f"probability = (model(x) / {temperature}).sigmoid()"
    return f"probabilities = (model(x) / {temperature}).softmax(-1)"


def _html(state: dict[str, Any]) -> str:
    if state["later"]:
        return html_paragraph("Calibration: errors.calibration() gives the bins.")
    bins = state["bins"]
    columns = (bins["confidence"], bins["accuracy"], bins["low"], bins["high"], bins["counts"])
    body = [
        [f"{c:.3f}", f"{a:.3f}", f"{low:.3f} to {high:.3f}", str(n)]
        for c, a, low, high, n in zip(*columns, strict=True)
    ]
    text = f"Expected calibration error {state['error']:.3f} (up to {state['chance']:.3f} by chance)."
    return html_paragraph(text) + html_table(body, (state["column"], "accuracy", "if calibrated", "samples"))


PANEL = Panel("calibration", "Calibration", _fits, state, _html)
