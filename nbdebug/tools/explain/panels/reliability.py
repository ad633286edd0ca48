"""The panel of reliability: whether the attribution can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.attribution import METHODS
from nbdebug.formatting import format_value, html_paragraph, html_table, round_number, round_numbers
from nbdebug.tools.explain.backgrounds import get_background
from nbdebug.tools.explain.page_state import class_name
from nbdebug.tools.explain.request import request_from_controls
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.attribution.reliability import Reliability, ReliabilityMeasure
    from nbdebug.tools.explain.data import ExplanationData


def _fits(explanation: ExplanationData) -> bool:
    """Check whether the attribution has more than one value."""
    return bool(explanation.attribution.flat.shape[1] > 1)


def measure_reliability(explanation: ExplanationData, **request: Any) -> Reliability:
    """Measure the reliability of an attribution, once; takes the parameters of ``attribute``."""
    from nbdebug.attribution.reliability import examine

    query = explanation.request.replace(**request)
    key = ("reliability", query.key)
    if key not in explanation._cache:
        background = get_background(explanation.inputs, explanation.background_inputs, query)
        args = (
            explanation.setup_or_model,
            explanation.inputs,
            explanation.attribute(**request),
            background,
        )
        explanation._cache[key] = examine(*args, score=explanation.score, options=query.options)
    reliability: Reliability = explanation._cache[key]
    return reliability


def state(explanation: ExplanationData, row: int, **options: Any) -> dict[str, Any]:
    """Return the ratings of one sample's attribution.

    ``options`` are the values of the page's controls: method, target, background, layer.
    """
    request = request_from_controls(explanation.request, options)
    single = _single_sample(explanation, row)
    reliability = measure_reliability(single, **vars(request))
    attribution = single.attribute(**vars(request))
    return {
        "light": reliability.light,
        "conclusion": reliability.conclusion,
        "measures": [_measure_state(measure) for measure in reliability.measures],
        "curves": _curve_states(reliability),
        "method": attribution.method,
        "says": METHODS[attribution.method].description,
        "targetName": class_name(explanation, int(attribution.classes[0])),
        "seconds": round_number(reliability.seconds, 2),
    }


def _single_sample(explanation: ExplanationData, row: int) -> ExplanationData:
    """Return the explanation of one sample, cached; averages over several samples say little about one."""
    if len(explanation) == 1:
        return explanation
    key = ("alone", row)
    if key not in explanation._cache:
        explanation._cache[key] = explanation.for_sample(row)
    cached: ExplanationData = explanation._cache[key]
    return cached


def _measure_state(measure: ReliabilityMeasure) -> dict[str, Any]:
    value = None if measure.value is None else round_number(measure.value, 3)
    return {"name": measure.name, "value": value, "light": measure.light, "said": measure.meaning}


def _curve_states(reliability: Reliability) -> dict[str, list[float | int | None]]:
    """Return the deletion, insertion and random curves over the share of replaced values."""
    curves_by_name = next((measure.curves for measure in reliability.measures if measure.curves), {})
    return {name: round_numbers(values, 3) for name, values in curves_by_name.items()}


def _html(state: dict[str, Any]) -> str:
    rows = [
        [
            measure["light"],
            measure["name"],
            "" if measure["value"] is None else format_value(measure["value"]),
            measure["said"],
        ]
        for measure in state["measures"]
    ]
    return html_paragraph(f"Reliability: {state['light']}. {state['conclusion']}") + html_table(rows)


_FOLLOWS = ("method", "target", "background", "space", "layer")
PANEL = Panel("reliability", "Reliability", _fits, state, _html, quick=False, follows=_FOLLOWS)
