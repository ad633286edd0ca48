"""What the page of an explanation is told when it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nbdebug.exceptions import SetupError
from nbdebug.tools.explain.asked import Asked
from nbdebug.tools.explain.panels import panels_of
from nbdebug.tools.explain.patience import patiently
from nbdebug.tools.explain.told import attribution_state, case_state

if TYPE_CHECKING:
    from nbdebug.tools.explain.result import Explanation

Question = Mapping[str, Any]


def answered(explanation: Explanation, question: Question) -> dict[str, Any]:
    """The answer to one question; raises SetupError for one that there is not.

    ``key`` in a question means the sample at that place of the data set, beside those that were asked for first.
    """
    kind = question.get("kind")
    if kind not in ANSWERS:
        raise SetupError(f"question is {kind!r}; expected one of {', '.join(ANSWERS)}. Load the page anew.")
    if kind == "sample":  # by the engine that was asked for before
        question = {**question, "sure": True}
    return patiently(question, lambda: answer_of(explanation, question))


def answer_of(explanation: Explanation, question: Question) -> dict[str, Any]:
    """The same, however long it takes."""
    if question.get("key") is not None:
        explanation = beside(explanation, int(question["key"]))
    return ANSWERS[question["kind"]](explanation, question)


def beside(explanation: Explanation, key: int) -> Explanation:
    """The explanation of another sample of the same data set, kept from then on."""
    if key == explanation.keys[0]:
        return explanation
    others: dict[int, Explanation] = explanation.known.setdefault("beside", {})
    if key not in others:
        own = key in explanation.keys
        others[key] = explanation.one(explanation.keys.index(key)) if own else explanation.of_place(key)
    return others[key]


def sample(explanation: Explanation, question: Question) -> dict[str, Any]:
    """A sample with its first attribution."""
    row = int(question.get("row", 0))
    found = attribution_state(explanation, explanation.asked, explanation.attribution, row)
    return {"sample": case_state(explanation, row), "attribution": found}


def attribution(explanation: Explanation, question: Question) -> dict[str, Any]:
    """An attribution by another engine, of another class, against another background."""
    asked = wanted(explanation.asked, question)
    found = explanation.attribute(**vars(asked))
    return {"attribution": attribution_state(explanation, asked, found, int(question.get("row", 0)))}


def wanted(asked: Asked, question: Question) -> Asked:
    """What the page's controls say."""
    given = {name: question[name] for name in ("method", "background", "space") if question.get(name) is not None}
    target = question.get("target")
    if target is not None:
        given["target"] = int(target) if not isinstance(target, str) else target
    options = {"layer": str(question["layer"])} if question.get("layer") else {}
    return asked.but(**given, options=options)


def panel(explanation: Explanation, question: Question) -> dict[str, Any]:
    """The state of a panel for a sample, with the options that the page gives."""
    found = next((one for one in panels_of(explanation) if one.name == question["name"]), None)
    if found is None:
        raise SetupError(f"panel is {question['name']!r}; expected one of this page. Load the page anew.")
    return {"state": found.state(explanation, int(question.get("row", 0)), **question.get("options", {}))}


ANSWERS: dict[str, Callable[[Explanation, Question], dict[str, Any]]] = {
    "sample": sample,
    "attribution": attribution,
    "panel": panel,
}
