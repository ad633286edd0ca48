"""Requests of the journal's page: each is a form, whose texts are the arguments of one method of the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.views.panel import find_handler

_Texts = Mapping[str, str]
_Call = tuple[str, dict[str, Any]]


def parse_request(request: Mapping[str, Any]) -> _Call:
    """Return the name of the method that a form calls, with its arguments; the name is "" if it adds nothing.

    Raises SetupError for a form without a text that it needs.
    """
    return find_handler(_HANDLERS, request)({name: str(text).strip() for name, text in request.items()})


def _required(texts: _Texts, name: str) -> str:
    if not texts.get(name):
        raise SetupError(f"{name} is empty; expected a text. Fill in the field.")
    return texts[name]


def _prior(texts: _Texts) -> float | None:
    try:
        return float(texts["prior"]) if texts.get("prior") else None
    except ValueError:
        raise SetupError(f"prior is {texts['prior']!r}; expected a number from 0 to 1. Leave it out.") from None


def _hypothesis(texts: _Texts) -> _Call:
    claim, prediction = _required(texts, "claim"), texts.get("prediction", "")
    return "hypothesis", {"claim": claim, "prior": _prior(texts), "prediction": prediction}


def _decision(texts: _Texts) -> _Call:
    options = {"hypothesis": texts.get("name", ""), "status": texts.get("status"), "reason": texts.get("reason", "")}
    return "decide", options


def _experiment(texts: _Texts) -> _Call:
    """Return an experiment; each line of its change is one change."""
    changes = [line.strip() for line in _required(texts, "change").splitlines() if line.strip()]
    options = {name: texts.get(name, "") for name in ("before", "after", "conclusion")}
    return "experiment", {"change": changes, **options, "hypothesis": texts.get("hypothesis") or None}


def _conclusion(texts: _Texts) -> _Call:
    options = {"after": texts.get("after", ""), "status": texts.get("status") or None}
    return "conclude", {
        "experiment": texts.get("name", ""),
        "conclusion": _required(texts, "conclusion"),
        **options,
    }


_HANDLERS: dict[str, Callable[[_Texts], _Call]] = {
    "state": lambda texts: ("", {}),
    "problem": lambda texts: ("state_problem", {"text": _required(texts, "text")}),
    "note": lambda texts: ("note", {"text": _required(texts, "text")}),
    "hypothesis": _hypothesis,
    "decide": _decision,
    "experiment": _experiment,
    "conclude": _conclusion,
}
