"""X1054: an interpolation gets maps with another number of axes than its mode takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import batch_size
from nbdebug.crashes.repairs import wrap_operand
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup

_AXES = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}


@crash_rule("X1054")
def interpolation_layout(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """An interpolation (``interpolate``, ``Upsample``) gets a tensor with another number of axes than its mode takes.

    ## What it does
    Reads the input and the mode, and names the axis that is missing: the batch, the channels, or a map that has been
    flattened to a row of pixels.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly: linear takes (samples, channels, length), bilinear and bicubic (samples, channels, height, width), and
    trilinear one axis more. A row whose length is a square is taken as a square map.

    ## How to fix
    Give the input its axes back with ``unflatten`` or ``unsqueeze``, or take the mode for its number of axes.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.nn.functional.interpolate.
    """
    input, mode = crash.local("input", function="interpolate"), crash.local("mode", function="interpolate")
    if not isinstance(input, Tensor) or mode not in _AXES or input.dim() == _AXES[mode] or crash.own is None:
        return None
    node = crash.input_node
    text = crash.text(node) if node is not None else "The input"
    message = f"The mode {mode} takes {_AXES[mode]} axes; {text} is {describe_tensor(input)}, with {input.dim()}."
    axes, evidence = _AXES[mode], {"mode": mode, "axes": input.dim(), "expected": _AXES[mode]}
    candidates = [
        CrashCause(message, cause, edits=wrap_operand(crash, node, template), evidence=evidence)
        for template, cause in _changes(crash, input, axes)
        if node is not None
    ]
    cause = "An axis is missing or too many."
    return [*candidates, CrashCause(message, cause, f"Pass {axes} axes.", evidence=evidence)]


def _changes(crash: Crash, input: Tensor, axes: int) -> Iterator[tuple[str, str]]:
    """Yield changes of an input that give it a number of axes, likely ones first, with their reasons."""
    length = input.shape[-1]
    side = isqrt(length)
    if axes == input.dim() + 1:
        if axes == 4 and side > 1 and side * side == length:
            cause = f"The map is flattened: its {length} pixels are {side} × {side} (height, width)."
            yield f"{{}}.unflatten(-1, ({side}, {side}))", cause
        if batch_size(crash) == len(input):
            yield "{}.unsqueeze(1)", "It has no channel axis."
        yield "{}.unsqueeze(0)", "It has no batch axis."
        yield "{}.unsqueeze(1)", "It has no channel axis."
    elif axes == input.dim() - 1:
        yield from ((f"{{}}.squeeze({a})", f"Axis {a} has size 1.") for a, n in enumerate(input.shape) if n == 1)


def bad() -> Setup:
    """A bilinear interpolation of rows of pixels."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        maps = batch[0].unsqueeze(1)
        larger = nn.functional.interpolate(maps, scale_factor=2, mode="bilinear")
        return nn.functional.cross_entropy(setup.model(larger.flatten(1)), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without an interpolation."""
    return classifier()
