"""M316: a hand-written backward disagrees with finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from nbdebug.evidence.functions import Checked, Slope
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity, Where
from nbdebug.graph.source import Line
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup


@rule("M316", "error")
def wrong_gradient(functions: list[Checked], *, tolerance: float = 1e-2) -> Iterator[Finding]:
    """The backward of an autograd function is not the derivative of its forward.

    ## What it does
    Takes every autograd function of your own that the loss runs through, and compares what its backward gives with how
    its output changes when one number of its input is changed.

    ## Why it matters
    Nothing checks a hand-written backward: training runs along a direction that is not downhill, and the loss falls
    slowly, or stops too high, or rises.

    ## How it is measured
    With the arguments of its first call, copied to float64, and the same random numbers each time: central differences
    at six coordinates of each input, from its least value to its largest, with steps of 1e-4 and 1e-6. Where the two
    steps disagree there is a kink, and the coordinate is left out. A relative error above ``tolerance`` = 1e-2 is
    wrong, by the bands of CS231n. Gradients that differ by design get a note: of an input that is given back as it is
    (reversal, scaling, clipping of gradients) and of a forward that is flat everywhere (rounding, spikes). A gradient
    that is wrong only where the forward is flat gets a warning.

    ## How to fix
    Correct the backward, and keep ``torch.autograd.gradcheck`` in your tests; or let autograd do it.

    ## When to ignore
    When the gradient is a surrogate on purpose.

    ## References
    Stanford CS231n, notes 3, gradient checks; documentation of torch.autograd.gradcheck.
    """
    for one in functions:
        wrong = {place: slope for place, found in one.slopes.items() if (slope := worst(found, tolerance))}
        if wrong:
            yield finding(one, *next(iter(wrong.items())))
    if functions and not any(one.slopes for one in functions):
        raise NotChecked(f"{functions[0].function.__name__} cannot be called alone: {functions[0].failure}")


def worst(found: list[Slope], tolerance: float) -> Slope | None:
    """The slope that is furthest off, if one is; where the forward changes before where it is flat."""
    scale = max((max(abs(one.given), abs(one.found)) for one in found), default=0.0)
    off = [one for one in found if one.error > tolerance and abs(one.given - one.found) > 1e-6 * scale]
    return max(off, key=lambda one: (one.found != 0, one.error), default=None)


def severity(one: Checked, place: int, slope: Slope) -> Severity:
    """How sure it is that the gradient is not meant to differ."""
    if place == one.unchanged or all(other.found == 0 for found in one.slopes.values() for other in found):
        return "note"
    return "error" if slope.found != 0 else "warning"


def finding(one: Checked, place: int, slope: Slope) -> Finding:
    """Both gradients of one input."""
    name = one.function.__name__
    return Finding(
        message=f"The backward of {name} gives {slope.given:.4g} for an input whose finite difference is "
        f"{slope.found:.4g}; expected the same within 1 %.",
        where=place_of(one),
        cause=f"The gradient that backward returns for argument {place} is not the derivative of forward.",
        fix=f"torch.autograd.gradcheck({name}.apply, inputs)   # inputs in float64, with requires_grad=True",
        evidence={"function": name, "argument": place, "backward": slope.given, "finite difference": slope.found},
        explains=("G416", "T601", "T602", "T606", "T608", "T610"),
        severity=severity(one, place, slope),
    )


def place_of(one: Checked) -> Where:
    """The head of the backward, in the submodule that calls it."""
    try:
        texts, start = inspect.getsourcelines(one.function.backward)
        offset = next((n for n, text in enumerate(texts) if text.lstrip().startswith("def ")), 0)
        return Line(inspect.getfile(one.function.backward), start + offset).where(one.node.module)
    except (OSError, TypeError):
        return one.node.where


class Squared(Function):
    """A square whose derivative lacks its factor of two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Half of the derivative."""
        (x,) = ctx.saved_tensors
        half: Tensor = gradient * x
        return half


class Powered(nn.Module):
    """A network that squares its hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        hidden = Squared.apply(self.body(x))  # type: ignore[no-untyped-call]
        logits: Tensor = self.head(hidden)
        return logits


def bad() -> Setup:
    """A square with half of its derivative."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Powered()
    return program(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A network that autograd differentiates."""
    return classifier()
