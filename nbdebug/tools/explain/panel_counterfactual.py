"""The panel of smallest changes: what would have to be otherwise for the model to say something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbdebug.attribution.given import inputs_of
from nbdebug.attribution.parts import is_integer
from nbdebug.attribution.prepare import drawn, problem_of
from nbdebug.attribution.quiet import quiet
from nbdebug.attribution.rows import has_rows
from nbdebug.counterfactual import Change, Counterfactual, Counterfactuals, counterfactuals
from nbdebug.counterfactual.given import MOST, looked_up, refuse_others
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.explain.panel_difference import line
from nbdebug.tools.explain.told import class_names
from nbdebug.tools.panel import Panel
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

COLUMNS = 500  # a wider sample is no row of a table


def fits(explanation: Explanation) -> bool:
    """Whether the samples are rows of a table, with others that tell what values there are."""
    if explanation.background is None:
        return False
    leaves = [(name, leaf) for name, leaf in inputs_of(explanation.batch) if has_rows(leaf)]
    try:
        for name, leaf in leaves:
            refuse_others(name, leaf)
        if any(is_integer(leaf) for _, leaf in leaves):
            refuse_tokens(explanation)
    except SetupError:
        return False
    return 0 < sum(leaf[0].numel() for _, leaf in leaves) <= COLUMNS


def refuse_tokens(explanation: Explanation) -> None:
    """Raises SetupError where integers are a row of tokens, and not columns of kinds."""
    one = explanation.one_batch(0)
    problem = problem_of(explanation.given, one, explanation.background, score=explanation.score)
    with quiet(problem.model, problem.owned):
        looked_up(problem)


def changes(explanation: Explanation, target: int | str | None = None, row: int = 0, **options: Any) -> Counterfactuals:
    """The smallest changes of one of the samples that lead to another class, or to ``target``; computed once.

    ``options`` are those of ``nbdebug.counterfactual.counterfactuals``: by, fixed, answers, features, budget. Raises
    SetupError for pictures, texts and what cannot be wanted.
    """
    key = ("counterfactual", row, target, repr(sorted(options.items())))
    if key not in explanation.known:
        setup = explanation.setup
        seen = training(explanation, setup) if setup is not None and setup.has_data else explanation.background
        explanation.known[key] = counterfactuals(
            explanation.given, explanation.one_batch(row), seen, target=target, score=explanation.score, **options
        )
    found: Counterfactuals = explanation.known[key]
    return found


def training(explanation: Explanation, setup: Setup) -> Any:
    """Samples of the training loader, read once."""
    if "training" not in explanation.known:
        explanation.known["training"] = drawn(setup, MOST)
    return explanation.known["training"]


def state(
    explanation: Explanation, row: int = 0, target: Any = None, by: float | None = None, fixed: Sequence[str] = ()
) -> dict[str, Any]:
    """What the page draws: what is said, what is wanted, and the answers, each with its changes."""
    options: dict[str, Any] = {"by": None if by is None else float(by), "fixed": tuple(fixed)}
    found = changes(explanation, target, row, **options)
    classes = class_names(explanation)
    asked = [f"{name}={value!r}" for name, value in {"target": target, **options}.items() if value not in (None, ())]
    return {
        "classes": classes,
        "predicted": int(explanation.outputs[row].argmax()) if classes else None,
        "target": target,
        "by": found.by,
        "fixed": list(found.fixed),
        "decision": found.decision,
        "goal": found.goal,
        "answers": [answer(one) for one in found.answers],
        "notes": list(found.notes),
        "evaluations": found.evaluations,
        "samples": found.samples,
        "code": f"{line(explanation, row)}.counterfactuals({', '.join(asked)})",
    }


def answer(one: Counterfactual) -> dict[str, Any]:
    """One answer, ready for JSON."""
    return {
        "decision": one.decision,
        "distance": plain(one.distance),
        "farther": plain(one.farther),
        "nearest": plain(one.nearest_distance),
        "changes": [change(one) for one in one.changes],
    }


def change(one: Change) -> dict[str, Any]:
    """One change, ready for JSON."""
    return {
        "feature": plain(one.feature),
        "before": written(one.before, one.after),
        "after": written(one.after, one.before),
        "distance": plain(one.distance),
        "percentile": plain(one.percentile),
        "way": None if one.seen is None else [place(value, one.seen) for value in (one.before, one.after)],
        "seen": None if one.seen is None else [short(value) for value in one.seen],
    }


def written(value: float | str, other: float | str) -> str:
    """A value as it is read, with as many digits as tell it from another one."""
    if isinstance(value, str) or isinstance(other, str):
        return str(value)
    enough = next((digits for digits in range(4, 9) if f"{value:.{digits}g}" != f"{other:.{digits}g}"), 9)
    return short(value) if enough == 4 else f"{value:.{enough + 1}g}"


def place(value: float | str, seen: tuple[float, float]) -> float:
    """Where a value lies between the lowest and the highest that was seen."""
    low, high = seen
    return round(min(max((float(value) - low) / ((high - low) or 1.0), 0.0), 1.0), 4)


def html(state: dict[str, Any]) -> str:
    """The answers as plain tables."""
    parts = [paragraph(f"Now {state['decision']}; wanted: {state['goal']}.")]
    for one in state["answers"]:
        rows = [[each["feature"], each["before"], each["after"]] for each in one["changes"]]
        parts.append(table(rows, (one["decision"], "now", "then")))
    return "".join(parts) + listed(state["notes"])


PANEL: Panel[Explanation] = Panel("counterfactual", "Smallest change", fits, state, html, quick=False)
