"""Tests that public functions and methods name all options and reject unknown ones with a suggestion."""

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
TOOLS = [
    "batch_size",
    "checkup",
    "compare_optimizers",
    "data",
    "errors",
    "explain",
    "importance",
    "lr_range",
    "overfit",
    "profile",
    "treatments",
]


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {name: parameter for name, parameter in inspect.signature(function).parameters.items() if name != "self"}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "Debugger", Debugger
    yield from METHODS.items()
    yield from FUNCTIONS.items()


@pytest.mark.parametrize(("name", "function"), list(public_callables()))
def test_public_call_annotates_every_parameter(name: str, function: Callable[..., Any]) -> None:
    for parameter in parameters(function).values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        assert parameter.annotation is not parameter.empty


@pytest.mark.parametrize("name", TOOLS)
def test_tool_function_has_parameters_of_debugger_and_method(name: str) -> None:
    function = parameters(FUNCTIONS[name])
    for parameter in (*parameters(Debugger).values(), *parameters(METHODS[name]).values()):
        if parameter.name == "train_loader" and name == "errors":
            continue
        counterpart = function[parameter.name]
        assert counterpart.annotation == parameter.annotation or parameter.name in ("model", "optimizer")
        if parameter.default is not parameter.empty or parameter.name not in ("model", "train_loader", "sample"):
            assert counterpart.default == parameter.default


def test_watch_function_has_parameters_of_method() -> None:
    method = parameters(METHODS["watch"])
    function = parameters(FUNCTIONS["watch"])
    assert {name: function[name].default for name in method} == {
        name: parameter.default for name, parameter in method.items()
    }
    assert set(function) == {"model", "optimizer", *method}


def test_method_docstring_describes_every_parameter() -> None:
    for name, method in {**METHODS, "Debugger": Debugger}.items():
        text = inspect.getdoc(method) or ""
        if name not in ("of", "begin"):
            assert [parameter for parameter in parameters(method) if f"\n    {parameter}: " not in text] == []


def test_explain_annotation_and_options_cover_all_attribution_methods() -> None:
    assert {"auto", *ATTRIBUTION_METHODS} <= set(get_args(Method))
    options = {option for engine in ATTRIBUTION_METHODS.values() for option in engine.options}
    assert options <= set(parameters(Debugger.explain))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.errors(metdata={}), "^option of errors is 'metdata'; expected .* Did you mean 'metadata'"),
        (lambda d: d.explain(3, methd="lime"), "^option of explain is 'methd'; expected .* Did you mean 'method'"),
        (lambda d: d.importance(xyz=1), "^option of importance is 'xyz'; expected one of .* Leave it out"),
        (lambda d: d.lr_range(seed=1), "^option of lr_range is 'seed'; expected .* Did you mean 'seeds'"),
        (lambda d: nbdebug.overfit(nn.Linear(2, 2), [], step=3), "^option of overfit is 'step'.*'steps'"),
        (lambda d: nbdebug.watch(nn.Linear(2, 2), budgt=3), "^option of watch is 'budgt'.*'budget'"),
        (lambda d: nbdebug.assert_healthy(nn.Linear(2, 2), [], alow="note"), "^option of assert_healthy .*'allow'"),
        (lambda d: Debugger(nn.Linear(2, 2), [], loss=nn.MSELoss()), "^option of Debugger is 'loss'.*'loss_fn'"),
        (
            lambda d: nbdebug.checkup(nn.Linear(2, 2), ignores=["L201"]),
            "one of model, train_loader, .* or 13 others in its help[(][)]. Did you mean 'ignore'[?]$",
        ),
        (
            lambda d: nbdebug.checkup(),
            r"expected checkup[(]model, train_loader, val_loader, loss_fn, optimizer, …[)]. Its help.* all 18 param",
        ),
    ],
)
def test_public_call_with_unknown_keyword_suggests_nearest_name(call: Callable[[Debugger], Any], message: str) -> None:
    debugger = Debugger.of(classifier())
    with pytest.raises(nbdebug.SetupError, match=message):
        call(debugger)
    with pytest.raises(TypeError):
        call(debugger)


def test_errors_accepts_columns_as_former_name_of_metadata() -> None:
    arguments: dict[str, Any] = {"predictions": [0, 1, 1, 0], "targets": [0, 1, 0, 1]}
    for name in ("metadata", "columns"):
        table = nbdebug.errors(**arguments, **{name: {"camera": ["a", "b"] * 2}}).table
        assert list(table.columns["camera"]) == ["a", "b"] * 2
    with pytest.raises(nbdebug.SetupError, match="option of errors is 'columns'"):
        nbdebug.errors(**arguments, metadata={"camera": [1] * 4}, columns={"camera": [1] * 4})


def test_function_with_option_of_its_other_call_form_raises() -> None:
    with pytest.raises(nbdebug.SetupError, match=r"loss_fn is .*; expected no loss_fn with predictions"):
        nbdebug.errors(predictions=[0, 1], targets=[0, 1], loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(nbdebug.SetupError, match=r"targets is .*; expected no targets with a model"):
        nbdebug.errors(nn.Linear(2, 2), [], targets=[0, 1])
    with pytest.raises(nbdebug.SetupError, match=r"class_names is .*; expected no class_names with a function"):
        nbdebug.explain(lambda x: x, [[1.0]], class_names=["a"])
