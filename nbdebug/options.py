"""Types of the options of the public calls, and checks of option names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, ParamSpec, TypeVar

from nbdebug.validation import argument_error, unknown_option, wrong_arguments

Budget = Literal["quick", "standard", "thorough"]
Mode = Literal["exp", "linear"]
Groups = Literal["scale", "same"]
StopOn = Literal["error", "warning"]
Decode = Callable[[int], str] | Sequence[str] | None
Split = Literal["val", "train"]
Space = Literal["logits", "probability"]
Metric = Literal["auto", "accuracy", "R²", "loss"]
Package = Literal["captum", "shap"]
Method = Literal[
    "auto",
    "expected_gradients",
    "expected_gradients_fast",
    "quick",
    "integrated_gradients",
    "saliency",
    "input_x_gradient",
    "gradcam",
    "occlusion",
    "lime",
    "shapley",
    "permutation",
    "kernel",
    "partition",
    "deepshap",
    "tree",
]
P = ParamSpec("P")
R = TypeVar("R")


def check_option_names(aliases: Mapping[str, str] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function with named parameters only, so that an unknown keyword raises UnknownOption.

    Any other call that does not fit the signature raises WrongArguments. ``aliases`` maps former names of parameters to
    their present ones. The signature stays that of the function.
    """
    renamed = dict(aliases or {})

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        expected = signature(function)
        parameters = expected.parameters.values()
        names = [p.name for p in parameters if p.kind is not Parameter.POSITIONAL_ONLY and p.name != "self"]
        what = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            for name in options.keys() - names:
                current = renamed.get(name)
                if current is None or current in options:
                    raise unknown_option(what, name, [one for one in names if one not in options])
                options[current] = options.pop(name)
            try:
                expected.bind(*args, **options)
            except TypeError as error:
                raise wrong_arguments(what, str(error), names) from None
            return function(*args, **options)

        return call

    return decorate


def check_unused(form: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise SetupError for an option that this form of a call does not use, unless it has its default value."""
    for name, default in defaults.items():
        value = options[name]
        if value is not default and not (isinstance(value, (str, bool, tuple)) and value == default):
            raise argument_error(name, value, f"no {name} {form}")
