"""Public calls name all their options, and refuse others by the nearest name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from torch import nn

import nbdebug
from nbdebug.attribution import METHODS as ATTRIBUTION_METHODS
from nbdebug.debugger import Debugger
from nbdebug.options import Method
from nbdebug.rules.examples import classifier

FUNCTIONS = {name: getattr(nbdebug, name) for name in nbdebug.__all__ if inspect.isfunction(getattr(nbdebug, name))}
METHODS = {
    name: method for name, method in inspect.getmembers(Debugger, inspect.isfunction) if not name.startswith("_")
}
BOTH = ["batch_size", "checkup", "compare_optimizers", "errors", "explain", "importance", "lr_range", "overfit"]


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {name: one for name, one in inspect.signature(function).parameters.items() if name != "self"}


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "Debugger", Debugger
    yield from METHODS.items()
    yield from FUNCTIONS.items()


@pytest.mark.parametrize(("name", "function"), list(calls()))
def test_a_public_call_names_every_parameter(name: str, function: Callable[..., Any]) -> None:
    for parameter in parameters(function).values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        assert parameter.annotation is not parameter.empty


@pytest.mark.parametrize("name", BOTH)
def test_a_function_takes_what_debugger_and_its_method_take(name: str) -> None:
    function = parameters(FUNCTIONS[name])
    for one in (*parameters(Debugger).values(), *parameters(METHODS[name]).values()):
        if one.name == "train_loader" and name == "errors":
            continue
        assert function[one.name].annotation == one.annotation or one.name in ("model", "optimizer")
        if one.default is not one.empty or one.name not in ("model", "train_loader", "sample"):
            assert function[one.name].default == one.default


def test_a_watch_takes_what_that_of_a_debugger_takes() -> None:
    method = parameters(METHODS["watch"])
    function = parameters(FUNCTIONS["watch"])
    assert {name: function[name].default for name in method} == {name: one.default for name, one in method.items()}
    assert set(function) == {"model", "optimizer", *method}


def test_the_docstring_of_a_method_describes_every_parameter() -> None:
    for name, method in {**METHODS, "Debugger": Debugger}.items():
        text = inspect.getdoc(method) or ""
        if name not in ("of", "begin"):
            assert [one for one in parameters(method) if f"\n    {one}: " not in text] == []


def test_every_method_of_attribution_is_named() -> None:
    assert {"auto", *ATTRIBUTION_METHODS} <= set(get_args(Method))
    options = {option for engine in ATTRIBUTION_METHODS.values() for option in engine.options}
    assert options <= set(parameters(Debugger.explain))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d: d.errors(metdata={}), "^option of errors is 'metdata'; expected .* Did you mean 'metadata'"),
        (lambda d: d.explain(3, methd="lime"), "^option of explain is 'methd'; expected .* Did you mean 'method'"),
        (lambda d: d.importance(xyz=1), "^option of importance is 'xyz'; expected one of .* Leave it out"),
        (lambda d: d.lr_range(seed=1), "^option of lr_range is 'seed'; expected .* Did you mean 'seeds'"),
        (lambda d: nbdebug.overfit(nn.Linear(2, 2), [], step=3), "^option of overfit is 'step'.*'steps'"),
        (lambda d: nbdebug.watch(nn.Linear(2, 2), budgt=3), "^option of watch is 'budgt'.*'budget'"),
        (lambda d: nbdebug.assert_healthy(nn.Linear(2, 2), [], alow="note"), "^option of assert_healthy .*'allow'"),
        (lambda d: Debugger(nn.Linear(2, 2), [], loss=nn.MSELoss()), "^option of Debugger is 'loss'.*'loss_fn'"),
    ],
)
def test_an_unknown_keyword_is_refused_by_the_nearest_name(call: Callable[[Debugger], Any], words: str) -> None:
    debugger = Debugger.of(classifier())
    with pytest.raises(nbdebug.SetupError, match=words):
        call(debugger)
    with pytest.raises(TypeError):
        call(debugger)


def test_the_former_name_of_metadata_is_accepted() -> None:
    given: dict[str, Any] = {"predictions": [0, 1, 1, 0], "targets": [0, 1, 0, 1]}
    for name in ("metadata", "columns"):
        table = nbdebug.errors(**given, **{name: {"camera": ["a", "b"] * 2}}).table
        assert list(table.columns["camera"]) == ["a", "b"] * 2
    with pytest.raises(nbdebug.SetupError, match="option of errors is 'columns'"):
        nbdebug.errors(**given, metadata={"camera": [1] * 4}, columns={"camera": [1] * 4})


def test_options_of_the_other_form_are_refused() -> None:
    with pytest.raises(nbdebug.SetupError, match=r"loss_fn is .*; expected no loss_fn with predictions"):
        nbdebug.errors(predictions=[0, 1], targets=[0, 1], loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(nbdebug.SetupError, match=r"targets is .*; expected no targets with a model"):
        nbdebug.errors(nn.Linear(2, 2), [], targets=[0, 1])
    with pytest.raises(nbdebug.SetupError, match=r"class_names is .*; expected no class_names with a function"):
        nbdebug.explain(lambda x: x, [[1.0]], class_names=["a"])
