"""The parts of an output that are held against the targets: one of several tensors, or some of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors, transform


@dataclass(frozen=True)
class Ideal:
    """The loss of an answer that is right everywhere and sure of it, and of one that is wrong everywhere."""

    right: float
    wrong: float


def in_parts(setup: Setup, first_pass: Pass, output: Any, target: Tensor) -> Ideal | None:
    """The two losses where a part of the output is held against real targets; None where no part alone is.

    A part counts when the loss has its least, or its greatest, value where it is the target, and moves evenly away from
    there on both sides. One that has its least there decides.
    """
    if not target.is_floating_point() or target.numel() < 2 or bool(((target == 0) | (target == 1)).all()):
        return None
    spread = float(target.std())
    found: list[Ideal] = []
    for replaced in parts(output, target):

        def of(step: float, replaced: Callable[[Tensor], Any] = replaced) -> float:
            return loss_on(setup, replaced(target + step * spread), first_pass.batch)

        try:
            best, near, far = of(0), (of(0.1), of(-0.1)), (of(1), of(-1))
        except NotChecked:
            continue
        if all(best < a < b for a, b in zip(near, far, strict=True)):
            return Ideal(best, max(far))
        if all(best > a > b for a, b in zip(near, far, strict=True)):
            found.append(Ideal(best, min(far)))
    return found[0] if found else None


def parts(output: Any, target: Tensor) -> Iterator[Callable[[Tensor], Any]]:
    """What puts other values in the place of one part: of a tensor among several, or of columns of the only one."""
    held = tensors(output)
    if len(held) == 1 and isinstance(output, Tensor):
        width = target.shape[-1]
        if output.dim() == target.dim() > 1 and output.shape[:-1] == target.shape[:-1] and output.shape[-1] > width:
            yield from (columns(output, start, width) for start in range(0, output.shape[-1] - width + 1, width))
        return
    for chosen in held:
        if chosen.shape == target.shape and chosen.is_floating_point():
            yield lambda values, chosen=chosen: transform(  # type: ignore[misc]
                output, lambda leaf: values.to(chosen) if leaf is chosen else leaf
            )


def columns(output: Tensor, start: int, width: int) -> Callable[[Tensor], Tensor]:
    """What puts other values in the place of some columns."""

    def replaced(values: Tensor) -> Tensor:
        copy = output.detach().clone()
        copy[..., start : start + width] = values.to(copy)
        return copy

    return replaced


def softmax_axes(output: Tensor, first_pass: Pass) -> list[int]:
    """The axes of an output that are as long as what the loss takes a softmax over."""
    found = (
        first_pass.trace.graph(first_pass.value).named("LogSoftmax", "Softmax") if first_pass.value is not None else ()
    )
    results = [(node.saved("result"), node.saved("dim")) for node in found]
    lengths = {one.shape[dim] for one, dim in results if isinstance(one, Tensor)}
    return [axis for axis in range(output.dim()) if output.shape[axis] in lengths]
