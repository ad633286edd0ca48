"""Run the five reliability checks and draw a conclusion."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdebug.attribution.preparation import build_problem, resolve_target
from nbdebug.attribution.reliability.checks import (
    ReliabilityCase,
    agreement,
    completeness,
    deletion,
    randomization,
    stability,
)
from nbdebug.attribution.reliability.report import Light, Reliability, ReliabilityMeasure
from nbdebug.attribution.result import Attribution
from nbdebug.exceptions import SetupError, first_line
from nbdebug.inference.chunking import is_out_of_memory
from nbdebug.inference.progress import without_time_limit
from nbdebug.setup.evaluation_mode import evaluation_mode

_CORE_CHECKS = ("agreement", "deletion and insertion")  # without these two, nothing supports an attribution
_COMPLETENESS_NAME = "completeness"


def conclude(measures: Sequence[ReliabilityMeasure], seconds: float = 0.0) -> Reliability:
    """Combine the measures into an overall light and a conclusion."""
    names_by_light = {
        shade: [item.name for item in measures if item.light == shade] for shade in ("red", "yellow", "gray")
    }
    light = _overall_light(names_by_light["red"], names_by_light["yellow"], names_by_light["gray"])
    conclusion = (
        _CONCLUSIONS[light] if light != "gray" else f"{_CONCLUSIONS[light]}: {', '.join(names_by_light['gray'])}"
    )
    if light == "red":
        conclusion += f"; failed: {', '.join(names_by_light['red'])}"
    elif light == "yellow" and names_by_light["yellow"]:
        conclusion += f"; inconclusive: {', '.join(names_by_light['yellow'])}"
    elif light == "green" and _COMPLETENESS_NAME in names_by_light["gray"]:
        conclusion += "; the values are a ranking, not shares of the score"
    not_measured = [item for item in names_by_light["gray"] if item != _COMPLETENESS_NAME]
    if not_measured and light in ("green", "yellow"):
        conclusion += f"; not measured: {', '.join(not_measured)}"
    return Reliability(tuple(measures), light, f"{conclusion}.", seconds)


def _overall_light(red: list[str], yellow: list[str], gray: list[str]) -> Light:
    """Return the worst light; green requires the core checks to be measured."""
    if red:
        return "red"
    if all(name in gray for name in _CORE_CHECKS):
        return "gray"
    return "yellow" if yellow or any(name in gray for name in _CORE_CHECKS) else "green"


_CONCLUSIONS: dict[Light, str] = {
    "red": "Do not draw conclusions from these attributions",
    "yellow": "Trust only which attributions are largest, not their order or sizes",
    "green": (
        "These attributions agree with how the model reacts when parts of this input are replaced; they do not show "
        "that the model is right, nor any cause and effect in the data"
    ),
    "gray": "The reliability of these attributions is unknown, because these checks could not be measured",
}


def examine(
    setup_or_model: Any,
    inputs: Any,
    attribution: Attribution,
    background: Any = None,
    *,
    other: str | None = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    patience: float = 30.0,
) -> Reliability:
    """Examine the reliability of an attribution that ``attribute`` returned for the same model, inputs and background.

    ``other`` is the method to compare with, by default Shapley values by random orders. ``options`` are those that the
    attribution was computed with. A method that takes longer than half of ``patience`` (seconds) is not run again. The
    same classes are explained throughout, and the user's objects stay unchanged. A check that cannot be measured is
    gray, with the reason. Raises SetupError if the inputs are not those that were explained.
    """
    start_time = time.perf_counter()
    problem = build_problem(setup_or_model, inputs, background, None, score, rows)
    if problem.size != len(attribution):
        raise SetupError(f"the attribution has {len(attribution)} samples; expected {problem.size}. Pass its inputs.")
    case = ReliabilityCase(problem, attribution, options or {}, patience)
    with evaluation_mode(problem.model, problem.owned), without_time_limit():
        resolve_target(
            problem,
            attribution.classes.tolist(),
            "probability" if attribution.space == "probability" else "logits",
        )
        measures = [
            _run_check("completeness", lambda: completeness(case)),
            _run_check("agreement", lambda: agreement(case, other)),
            _run_check("deletion and insertion", lambda: deletion(case)),
            _run_check("randomization", lambda: randomization(case)),
            _run_check("stability", lambda: stability(case)),
        ]
    return conclude(measures, time.perf_counter() - start_time)


def _run_check(name: str, measure: Callable[[], ReliabilityMeasure]) -> ReliabilityMeasure:
    """Run a check; any error of the model makes only this check gray."""
    try:
        return measure()
    except Exception as error:
        if is_out_of_memory(error):
            return ReliabilityMeasure(name, None, "gray", "not measured: memory ran out")
        return ReliabilityMeasure(name, None, "gray", f"not measured: {first_line(error, 200).split('; expected')[0]}")
