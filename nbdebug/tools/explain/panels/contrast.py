"""The panel of two classes: what contributes to one rather than the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbdebug.counterfactuals import ContrastiveAttribution, contrast
from nbdebug.formatting import html_paragraph, round_number
from nbdebug.tools.explain.backgrounds import get_background
from nbdebug.tools.explain.page_state import attribution_state, class_names, true_target
from nbdebug.tools.explain.panels.context import explain_code
from nbdebug.tools.explain.request import ExplanationRequest, request_from_controls
from nbdebug.tools.explain.view import input_html
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData


def _fits(explanation: ExplanationData) -> bool:
    """Check whether there are at least two classes."""
    return explanation.outputs.shape[1] > 1


def explain_difference(
    explanation: ExplanationData,
    first: int | str = "predicted",
    second: int | str | None = None,
    row: int = 0,
    request: ExplanationRequest | None = None,
) -> ContrastiveAttribution:
    """Return the attribution of the difference between two classes for a sample, computed once.

    The second class is by default the true one if the first is wrong, else the runner-up. ``asked`` is by default the
    request of the explanation. Raises SetupError for unknown classes.
    """
    request = request or explanation.request
    key = ("contrast", row, first, second, request.replace(target="predicted", options=request.options).key)
    if key not in explanation._cache:
        truth = true_target(explanation, row)
        inputs = explanation.inputs_of_one(row)
        explanation._cache[key] = contrast(
            explanation.setup_or_model, inputs, first, second,
            get_background(inputs, explanation.background_inputs, request),
            method=_difference_method(explanation, request), space=request.space,
            labels=None if truth is None else [int(truth)], score=explanation.score, **request.options,
        )  # fmt: skip
    comparison: ContrastiveAttribution = explanation._cache[key]
    return comparison


def _difference_method(explanation: ExplanationData, request: ExplanationRequest) -> str:
    """Return the requested method if it can explain a difference, else "auto"."""
    name = explanation.attribution.method if request.method == explanation.request.method else request.method
    return "auto" if name == "tree" else name


def state(
    explanation: ExplanationData, row: int = 0, first: Any = "predicted", second: Any = None, **options: Any
) -> dict[str, Any]:
    """Return the two classes with their scores, and the attribution of the difference.

    ``options`` are the values of the page's controls: method, background, space, layer.
    """
    request = request_from_controls(explanation.request, options)
    contrast = explain_difference(explanation, first, second, row, request)
    first_class, second_class = int(contrast.first[0]), int(contrast.second[0])
    single = replace(
        explanation,
        explained_samples=replace(explanation.explained_samples, batch=explanation.batch_of_one(row), keys=(None,)),
    )
    attribution_of_difference = attribution_state(single, request, contrast.attribution, 0)
    scores = explanation.outputs[row]
    return {
        "classes": class_names(explanation),
        "first": first_class,
        "second": second_class,
        "predicted": int(scores.argmax()),
        "truth": true_target(explanation, row),
        "scores": [round_number(float(scores[at])) for at in (first_class, second_class)],
        "found": {
            **attribution_of_difference,
            "targetName": contrast.description(0),
            "up": f"for {contrast.class_name(first_class)}",
            "down": f"for {contrast.class_name(second_class)}",
            "code": f"{explain_code(explanation, row, request)}.difference({first_class}, {second_class})",
        },
    }


def _html(state: dict[str, Any]) -> str:
    attribution = state["found"]
    text = (
        f"{attribution['space']} of {attribution['targetName']}: {attribution['score']}; "
        f"the sum misses {attribution['completeness']}."
    )
    return html_paragraph(text) + "".join(input_html(input_state) for input_state in attribution["inputs"])


_FOLLOWS = ("method", "background", "space", "layer")
PANEL: Panel[ExplanationData] = Panel(
    "contrast", "Comparison of two classes", _fits, state, _html, quick=False, follows=_FOLLOWS
)
