"""Tests of invalid arguments of ``importance()`` and of the methods of an importance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug import Debugger, SetupError
from nbdebug.tools.importance import Importance, importance
from tests.tools.explain.message_form import MESSAGE_FORM
from tests.tools.importance.setups import classifier_setup


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"repeats": -1}, "repeats is -1"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"metric": "magic"}, "metric is 'magic'"),
        ({"metric": "R²"}, "expected auto, accuracy, loss"),
        ({"target": [1, 2]}, "target is a list"),
        ({"target": 7}, "target is 7"),
        ({"background": torch.zeros(3, 9)}, "background of input has samples of shape"),
        ({"loader": "test"}, "loader is 'test'"),
        ({"samples": 2.5}, "samples is 2.5"),
        ({"repeats": None}, "repeats is None"),
        ({"target": True}, "target is a bool"),
        ({"method": "auto", "target": 7}, "target is 7"),
        ({"method": "auto", "target": "dog"}, "target is 'dog'"),
        ({"background": torch.full((3, 4), float("nan"))}, "background sample 0 is not finite"),
    ],
)
def test_importance_names_its_invalid_option(options: dict[str, Any], message: str) -> None:
    if "target" in options or "metric" in options:
        options = {"method": "expected_gradients_fast", **options}
    with pytest.raises(SetupError, match=message):
        importance(classifier_setup(), **options)


@pytest.fixture(scope="module")
def importance_result() -> Importance:
    return importance(classifier_setup(), samples=12, repeats=1)


IMPORTANCE_CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("feature", lambda result: result.feature_index(True)),
    ("feature", lambda result: result.skill_alone([0])),
    ("feature", lambda result: result.interacts_with(None)),
    ("names", lambda result: nbdebug.drift([result, result], names=3)),
    ("names", lambda result: result.compare(result, names="ab")),
    ("by", lambda result: nbdebug.drift([result, result], by=[0])),
    ("ax", lambda result: result.plot("x")),
]


@pytest.mark.parametrize(("argument", "call"), IMPORTANCE_CALLS, ids=[argument for argument, _ in IMPORTANCE_CALLS])
def test_importance_method_names_its_invalid_argument(
    importance_result: Importance, argument: str, call: Callable[[Importance], Any]
) -> None:
    with pytest.raises(SetupError, match=f"^{argument}") as error:
        call(importance_result)
    assert MESSAGE_FORM.fullmatch(str(error.value))


@pytest.mark.parametrize(
    "options",
    [{"decode": 3}, {"score": "x"}, {"method": [0]}, {"samples": True}, {"loader": [0]}],
    ids=lambda options: next(iter(options)),
)
def test_importance_error_of_invalid_option_has_message_form(options: dict[str, Any]) -> None:
    with pytest.raises(SetupError) as error:
        Debugger.of(classifier_setup()).importance(**{"samples": 8, "repeats": 0, **options})
    assert MESSAGE_FORM.fullmatch(str(error.value))
