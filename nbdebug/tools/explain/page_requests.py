"""Answers the requests of the explanation page; longer computations need a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nbdebug.formatting import round_number
from nbdebug.inference.progress import ProgressMeter, TimeLimitExceeded, use_meter
from nbdebug.tools.explain.page_state import attribution_state, sample_state
from nbdebug.tools.explain.panels.registry import applicable_panels
from nbdebug.tools.explain.request import PageRequest, request_from_controls
from nbdebug.views.kernel_bridge import report_progress
from nbdebug.views.panel import find_handler, find_panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

TIME_LIMIT = 20.0  # seconds


def with_time_limit(request: Mapping[str, Any], compute_answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Answer a page request, reporting progress; return ``slow``, the estimated seconds, if it would take over 20 s.

    ``sure`` in the request confirms a slow computation.
    """
    meter = ProgressMeter(None if request.get("sure") else TIME_LIMIT, _send_progress)
    try:
        with use_meter(meter):
            return compute_answer()
    except TimeLimitExceeded as error:
        return {"slow": round_number(error.seconds, 2)}


def _send_progress(meter: ProgressMeter) -> None:
    """Report the elapsed and the remaining seconds to the page."""
    remaining = meter.remaining
    report_progress(
        spent=round_number(meter.elapsed, 3), left=None if remaining is None else round_number(remaining, 2)
    )


def answer_request(explanation: ExplanationData, request: PageRequest) -> dict[str, Any]:
    """Answer a page request; raise SetupError for an unknown kind.

    ``key`` in a request selects another sample of the data set by its index.
    """
    handler = find_handler(_HANDLERS, request)
    if handler is _answer_sample:  # its method was confirmed before
        request = {**request, "sure": True}

    def compute_answer() -> dict[str, Any]:
        is_other = request.get("key") is not None
        return handler(_explanation_of_key(explanation, int(request["key"])) if is_other else explanation, request)

    return with_time_limit(request, compute_answer)


def _explanation_of_key(explanation: ExplanationData, key: int) -> ExplanationData:
    """Return the explanation of another sample of the same data set, and cache it."""
    if key == explanation.keys[0]:
        return explanation
    others: dict[int, ExplanationData] = explanation._cache.setdefault("other samples", {})
    if key not in others:
        is_explained = key in explanation.keys
        others[key] = (
            explanation.for_sample(explanation.keys.index(key)) if is_explained else explanation.for_dataset_index(key)
        )
    return others[key]


def _answer_sample(explanation: ExplanationData, request: PageRequest) -> dict[str, Any]:
    """Return a sample with its first attribution."""
    row = int(request.get("row", 0))
    state = attribution_state(explanation, explanation.request, explanation.attribution, row)
    return {"sample": sample_state(explanation, row), "attribution": state}


def _answer_attribution(explanation: ExplanationData, request: PageRequest) -> dict[str, Any]:
    """Return an attribution with another method, class or background."""
    parameters = request_from_controls(explanation.request, request)
    result = explanation.attribute(**vars(parameters))
    return {"attribution": attribution_state(explanation, parameters, result, int(request.get("row", 0)))}


def _answer_panel(explanation: ExplanationData, request: PageRequest) -> dict[str, Any]:
    """Return the state of a panel for a sample, with the options of the page."""
    panel = find_panel(applicable_panels(explanation), request["name"])
    return {"state": panel.state(explanation, int(request.get("row", 0)), **request.get("options", {}))}


_HANDLERS: dict[str, Callable[[ExplanationData, PageRequest], dict[str, Any]]] = {
    "sample": _answer_sample,
    "attribution": _answer_attribution,
    "panel": _answer_panel,
}
