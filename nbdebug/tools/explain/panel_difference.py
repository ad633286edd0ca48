"""The panel of two classes: what speaks for the one rather than the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbdebug.counterfactual import Difference, difference
from nbdebug.tools.explain.answers import wanted
from nbdebug.tools.explain.asked import Asked
from nbdebug.tools.explain.compared import background_of
from nbdebug.tools.explain.told import attribution_state, class_names, truth_of
from nbdebug.tools.panel import Panel
from nbdebug.views.explain.page import written
from nbdebug.views.markup import paragraph
from nbdebug.views.plain import rounded

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation


def fits(explanation: Explanation) -> bool:
    """Whether there are two classes to hold against each other."""
    return explanation.outputs.shape[1] > 1


def between(
    explanation: Explanation,
    first: int | str = "predicted",
    second: int | str | None = None,
    row: int = 0,
    asked: Asked | None = None,
) -> Difference:
    """What speaks for one class rather than another in one of the samples, computed once.

    Without a second class it is the true one where the first is wrong, else the runner-up; ``asked`` is by which engine
    and against what, as the explanation itself where nothing is said. Raises SetupError for classes that there are not.
    """
    asked = asked or explanation.asked
    key = ("difference", row, first, second, asked.but(target="predicted", options=asked.options).key)
    if key not in explanation.known:
        truth = truth_of(explanation, row)
        one = explanation.one_batch(row)
        explanation.known[key] = difference(
            explanation.given, one, first, second, background_of(one, explanation.background, asked),
            method=method(explanation, asked), space=asked.space, labels=None if truth is None else [int(truth)],
            score=explanation.score, **asked.options,
        )  # fmt: skip
    found: Difference = explanation.known[key]
    return found


def method(explanation: Explanation, asked: Asked) -> str:
    """The engine that is asked for, where it can explain a difference."""
    found = explanation.attribution.method if asked.method == explanation.asked.method else asked.method
    return "auto" if found == "tree" else found


def state(
    explanation: Explanation, row: int = 0, first: Any = "predicted", second: Any = None, **options: Any
) -> dict[str, Any]:
    """What the page draws: the two classes with their scores, and the attribution of the difference.

    ``options`` are what the page's controls say: method, background, space, layer.
    """
    asked = wanted(explanation.asked, options)
    found = between(explanation, first, second, row, asked)
    ours, theirs = int(found.first[0]), int(found.second[0])
    one = replace(explanation, cases=replace(explanation.cases, batch=explanation.case(row), keys=(None,)))
    told = attribution_state(one, asked, found.attribution, 0)
    scores = explanation.outputs[row]
    return {
        "classes": class_names(explanation),
        "first": ours,
        "second": theirs,
        "predicted": int(scores.argmax()),
        "truth": truth_of(explanation, row),
        "scores": [rounded(float(scores[at])) for at in (ours, theirs)],
        "found": {
            **told,
            "targetName": found.said(0),
            "up": f"for {found.named(ours)}",
            "down": f"for {found.named(theirs)}",
            "code": f"{line(explanation, row, asked)}.difference({ours}, {theirs})",
        },
    }


def line(explanation: Explanation, row: int, asked: Asked | None = None) -> str:
    """The line of Python that explains one sample."""
    key = explanation.keys[row]
    return (asked or explanation.asked).code("sample" if key is None else str(key))


def html(state: dict[str, Any]) -> str:
    """The scores, and the largest attributions."""
    found = state["found"]
    said = f"{found['space']} of {found['targetName']}: {found['score']}; the sum misses {found['completeness']}."
    return paragraph(said) + "".join(written(one) for one in found["inputs"])


FOLLOWS = ("method", "background", "space", "layer")
PANEL: Panel[Explanation] = Panel("difference", "This class or that", fits, state, html, quick=False, follows=FOLLOWS)
