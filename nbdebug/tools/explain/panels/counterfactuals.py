"""The panel of counterfactuals: the smallest changes that lead to another prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbdebug.attribution.input_features import is_integer
from nbdebug.attribution.preparation import build_problem
from nbdebug.counterfactuals import Counterfactual, Counterfactuals, FeatureChange, counterfactuals
from nbdebug.counterfactuals.feature_space import MAX_TRAINING_SAMPLES, check_tabular, embedded_columns
from nbdebug.exceptions import SetupError
from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, to_json_value
from nbdebug.inference.dataset_sampling import first_training_samples
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import evaluation_mode
from nbdebug.tools.explain.page_state import class_names
from nbdebug.tools.explain.panels.context import explain_code
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.explain.data import ExplanationData

_MAX_COLUMNS = 500  # a wider sample is not a table row


def _fits(explanation: ExplanationData) -> bool:
    """Check whether the samples are table rows, with other samples for the ranges of the values."""
    if explanation.background is None:
        return False
    leaves = [(name, leaf) for name, leaf in explanation.inputs.named_tensors if leaf.dim()]
    try:
        for name, leaf in leaves:
            check_tabular(name, leaf)
        if any(is_integer(leaf) for _, leaf in leaves):
            _check_not_tokens(explanation)
    except SetupError:
        return False
    return 0 < sum(leaf[0].numel() for _, leaf in leaves) <= _MAX_COLUMNS


def _check_not_tokens(explanation: ExplanationData) -> None:
    """Raise SetupError if the integers are tokens rather than categorical columns."""
    inputs = explanation.inputs_of_one(0)
    problem = build_problem(explanation.setup_or_model, inputs, explanation.background_inputs, score=explanation.score)
    with evaluation_mode(problem.model, problem.owned):
        embedded_columns(problem)


def find_counterfactuals(
    explanation: ExplanationData, target: int | str | None = None, row: int = 0, **options: Any
) -> Counterfactuals:
    """Return the smallest changes of a sample that lead to another class, or to ``target``; computed once.

    ``options`` are those of ``nbdebug.counterfactuals.counterfactuals``: by, fixed, answers, features, budget. Raises
    SetupError for images, texts and impossible targets.
    """
    key = ("counterfactuals", row, target, repr(sorted(options.items())))
    if key not in explanation._cache:
        setup = explanation.setup
        reference_samples = (
            _training_samples(explanation, setup)
            if setup is not None and setup.has_training_data
            else explanation.background_inputs
        )
        explanation._cache[key] = counterfactuals(
            explanation.setup_or_model,
            explanation.inputs_of_one(row),
            reference_samples,
            target=target,
            score=explanation.score,
            **options,
        )
    result: Counterfactuals = explanation._cache[key]
    return result


def _training_samples(explanation: ExplanationData, setup: Setup) -> Any:
    if "training" not in explanation._cache:
        explanation._cache["training"] = first_training_samples(setup, MAX_TRAINING_SAMPLES)
    return explanation._cache["training"]


def state(
    explanation: ExplanationData, row: int = 0, target: Any = None, by: float | None = None, fixed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the prediction, the goal, and the counterfactuals with their changes."""
    options: dict[str, Any] = {"by": None if by is None else float(by), "fixed": tuple(fixed)}
    result = find_counterfactuals(explanation, target, row, **options)
    classes = class_names(explanation)
    arguments = [
        f"{name}={value!r}" for name, value in {"target": target, **options}.items() if value not in (None, ())
    ]
    return {
        "classes": classes,
        "predicted": int(explanation.outputs[row].argmax()) if classes else None,
        "target": target,
        "by": result.by,
        "fixed": list(result.fixed),
        "decision": result.decision,
        "goal": result.goal,
        "answers": [_counterfactual_state(counterfactual) for counterfactual in result.answers],
        "notes": list(result.notes),
        "evaluations": result.evaluations,
        "samples": result.samples,
        "code": f"{explain_code(explanation, row)}.counterfactuals({', '.join(arguments)})",
    }


def _counterfactual_state(counterfactual: Counterfactual) -> dict[str, Any]:
    return {
        "decision": counterfactual.decision,
        "distance": to_json_value(counterfactual.distance),
        "farther": to_json_value(counterfactual.farther),
        "nearest": to_json_value(counterfactual.nearest_distance),
        "changes": [_change_state(one) for one in counterfactual.changes],
    }


def _change_state(entry: FeatureChange) -> dict[str, Any]:
    return {
        "feature": to_json_value(entry.feature),
        "before": _distinct_text(entry.before, entry.after),
        "after": _distinct_text(entry.after, entry.before),
        "distance": to_json_value(entry.distance),
        "percentile": to_json_value(entry.percentile),
        "way": None
        if entry.training_range is None
        else [_relative_position(value, entry.training_range) for value in (entry.before, entry.after)],
        "seen": None if entry.training_range is None else [format_value(value) for value in entry.training_range],
    }


def _distinct_text(value: float | str, other: float | str) -> str:
    """Return a value with enough digits to distinguish it from another one."""
    if isinstance(value, str) or isinstance(other, str):
        return str(value)
    digits_needed = next((digits for digits in range(4, 9) if f"{value:.{digits}g}" != f"{other:.{digits}g}"), 9)
    return format_value(value) if digits_needed == 4 else f"{value:.{digits_needed + 1}g}"


def _relative_position(value: float | str, observed_range: tuple[float, float]) -> float:
    """Return the position of a value between the lowest and the highest observed one."""
    low, high = observed_range
    return round(min(max((float(value) - low) / ((high - low) or 1.0), 0.0), 1.0), 4)


def _html(state: dict[str, Any]) -> str:
    parts = [html_paragraph(f"Prediction: {state['decision']}; goal: {state['goal']}.")]
    for counterfactual in state["answers"]:
        rows = [[item["feature"], item["before"], item["after"]] for item in counterfactual["changes"]]
        parts.append(html_table(rows, (counterfactual["decision"], "now", "then")))
    return "".join(parts) + html_list(state["notes"])


PANEL: Panel[ExplanationData] = Panel("counterfactuals", "Counterfactuals", _fits, state, _html, quick=False)
