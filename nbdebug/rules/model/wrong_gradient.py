"""M316: the backward of an autograd function does not match finite differences."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, Severity
from nbdebug.measurements.autograd_functions import CheckedFunction, CoordinateGradient
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import find_function
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import executed_return, part_producer
from nbdebug.source.search import read_names


@rule("M316", "error")
def wrong_gradient(autograd_functions: list[CheckedFunction], *, tolerance: float = 1e-2) -> Iterator[Finding]:
    """The backward of an autograd function is not the derivative of its forward.

    ## What it does
    Compares, for every custom autograd function that the loss depends on, the gradient returned by its backward with
    the change of its output when one input value changes.

    ## Why it matters
    Nothing checks a custom backward: training follows a direction that is not downhill, and the loss decreases slowly,
    stops too high, or increases.

    ## How it is measured
    With the arguments of its first call in which most of them get a gradient, copied to float64, and the same random
    numbers each time: central differences at six coordinates of each input, from its smallest value to its largest,
    with steps of 1e-4 and 1e-6. If the two steps disagree, the function has a kink there, and the coordinate is
    skipped. A relative error above ``tolerance`` = 1e-2 is wrong, following the ranges of CS231n. Gradients that differ
    by design are notes: an input that is returned unchanged (reversal, scaling or clipping of gradients) and an input
    in which the forward is flat everywhere (rounding, spikes, a gradient passed to another input). A gradient that is
    wrong only where the forward is flat is a warning.

    ## How to fix
    Correct the backward, and use ``torch.autograd.gradcheck`` in your tests; or let autograd compute it.

    ## When to ignore
    When the gradient is an intended surrogate.

    ## References
    Stanford CS231n, notes 3, gradient checks; documentation of torch.autograd.gradcheck.
    """
    for function in autograd_functions:
        errors = {
            argument: slope
            for argument, slopes in function.gradients.items()
            if (slope := _largest_error(slopes, tolerance))
        }
        if errors:
            yield _finding(function, *next(iter(errors.items())), tolerance)
    if autograd_functions and not any(function.gradients for function in autograd_functions):
        raise NotChecked(
            f"{autograd_functions[0].function.__name__} cannot be called alone: {autograd_functions[0].failure}"
        )


def _largest_error(slopes: list[CoordinateGradient], tolerance: float) -> CoordinateGradient | None:
    """The gradient that is furthest off, if any; where the forward is not flat takes precedence."""
    scale = max((max(abs(slope.analytic), abs(slope.numeric)) for slope in slopes), default=0.0)
    errors = [
        slope
        for slope in slopes
        if slope.relative_error > tolerance and abs(slope.analytic - slope.numeric) > 1e-6 * scale
    ]
    return max(errors, key=lambda slope: (slope.numeric != 0, slope.relative_error), default=None)


def _severity_of_error(function: CheckedFunction, argument: int, slope: CoordinateGradient) -> Severity:
    """The severity: a note or a warning if the gradient may differ on purpose."""
    if argument == function.returned_input or all(other.numeric == 0 for other in function.gradients[argument]):
        return "note"
    return "error" if slope.numeric != 0 else "warning"


def _describe_error(name: str, argument: int, slope: CoordinateGradient, tolerance: float) -> str:
    """Return what backward returns and what it should, for the gradient that it receives."""
    returned = f"the backward of {name} returns {slope.analytic:.4g} for one value of argument {argument}"
    if slope.incoming is None or slope.forward is None:
        return (
            f"For a weighted sum of the outputs, {returned}, but the finite difference of that sum is "
            f"{slope.numeric:.4g}; they should agree within {tolerance:.0%}."
        )
    return (
        f"With an incoming gradient of {slope.incoming:.4g}, {returned}. The finite difference of its forward is "
        f"{slope.forward:.4g}, so it should return {slope.numeric:.4g}, within {tolerance:.0%}."
    )


def _finding(function: CheckedFunction, argument: int, slope: CoordinateGradient, tolerance: float) -> Finding:
    name, backward = function.function.__name__, inspect.unwrap(function.function.backward)
    is_local = _ignores_gradient(backward)
    return Finding(
        message=_describe_error(name, argument, slope, tolerance),
        where=_backward_location(function, argument, of_return=is_local),
        cause="backward does not use the gradient that it receives, so it returns the derivative of the function alone."
        if is_local
        else f"The gradient that backward returns for argument {argument} is not the derivative of forward.",
        fix="return grad_output * derivative   # the gradient that backward receives, times that of the function"
        if is_local
        else f"torch.autograd.gradcheck({name}.apply, inputs)   # inputs in float64, with requires_grad=True",
        evidence={
            "function": name,
            "argument": argument,
            "backward": slope.analytic,
            "finite difference": slope.numeric,
            "incoming gradient": slope.incoming,
            "finite difference of forward": slope.forward,
        },
        explains=("G416", "T601", "T602", "T606", "T608", "T610"),
        severity=_severity_of_error(function, argument, slope),
    )


def _ignores_gradient(backward: Any) -> bool:
    """Check whether a backward never reads the gradients that it receives."""
    syntax = find_function(backward.__code__)
    if not isinstance(syntax, ast.FunctionDef) or syntax.args.vararg:
        return False
    received = {argument.arg for argument in syntax.args.args[1:]}
    return received.isdisjoint(name for statement in syntax.body for name in read_names(statement))


def _backward_location(function: CheckedFunction, argument: int, *, of_return: bool) -> Location:
    """The line that makes the gradient of an argument, or returns it, else the ``def`` line of the backward."""
    backward = inspect.unwrap(function.function.backward)
    syntax = find_function(backward.__code__)
    if syntax is None:
        return function.node.where
    returned = executed_return(backward)
    if returned and of_return:
        return returned.line.where(function.node.module)
    has_several = returned is not None and isinstance(returned.node, ast.Tuple) and argument < len(returned.node.elts)
    line = part_producer(returned, argument if has_several else None).line if returned else None
    return (line or SourceLine(backward.__code__.co_filename, syntax.lineno)).where(function.node.module)


class WrongSquare(Function):
    """The square of a tensor, with half of its derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the squares, and save the input for the backward pass."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient times x instead of 2x."""
        (x,) = ctx.saved_tensors
        half_gradient: Tensor = gradient * x
        return half_gradient


class SquaringNetwork(nn.Module):
    """A classifier of 4 features with WrongSquare as its activation."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of 3 classes."""
        hidden = WrongSquare.apply(self.body(x))  # type: ignore[no-untyped-call]
        logits: Tensor = self.head(hidden)
        return logits


def bad() -> Setup:
    """A square with half of its derivative."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SquaringNetwork()
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A network that autograd differentiates."""
    return classifier()
