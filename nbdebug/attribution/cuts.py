"""Where the way of a gradient from the score to the inputs ends, and the refusal that names it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.hooks import hooked
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.refusals import BLACK_BOX, NotDifferentiable
from nbdebug.setup.trees import tensors


def cut_at(problem: Problem) -> str:
    """Words for the first layer that a gradient does not get through; empty where no layer is the reason."""
    model = problem.module
    names = {module: name or type(module).__name__ for name, module in model.named_modules()}
    found: list[str] = []

    def look(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not torch.is_grad_enabled():
            found.append(f"layer {names[module]!r} runs under torch.no_grad()")
        elif not list(module.children()) and ends_in(args, output):
            found.append(f"the gradient ends in layer {names[module]!r}")

    first = torch.zeros(1, dtype=torch.long, device=problem.home)
    with hooked([module for module in names if module is not model], look):
        problem.at([part.values[:1].clone().requires_grad_() for part in problem.parts], first)
    return found[0] if found else ""


def ends_in(args: Any, output: Any) -> bool:
    """Whether a gradient that went into a call does not come out of it."""
    return any(one.requires_grad for one in tensors(args)) and not any(one.requires_grad for one in tensors(output))


def refuse_missing(problem: Problem, missing: list[bool]) -> None:
    """Raises NotDifferentiable where the score depends on a part that no gradient reaches."""
    for place, part in enumerate(problem.parts):
        if missing[place] and depends(problem, place):
            where = cut_at(problem) or f"no gradient reaches {part.name}, on which the score depends"
            raise NotDifferentiable(
                f"{where}; expected operations that a gradient gets through. Take away no_grad, detach, .data, "
                f"rounding or argmax there. {BLACK_BOX}."
            )


def refuse_flat(values: list[Tensor], gaps: Tensor) -> None:
    """Raises NotDifferentiable where all gradients are zero and the score is not constant."""
    if any(bool(one.any()) for one in values) or not bool((gaps.abs() > 1e-6).any()):
        return
    raise NotDifferentiable(
        "the gradient of the score is zero everywhere, though the score differs between samples and background; "
        f"expected a model without steps, such as rounding or thresholds, between input and score. {BLACK_BOX}."
    )


def depends(problem: Problem, place: int) -> bool:
    """Whether the score changes when one part of the first samples becomes that of others."""
    rows = torch.arange(min(len(problem.parts[place].values), 8), device=problem.home)
    points = [part.values[rows] for part in problem.parts]
    other = problem.parts[place].background
    moved = list(points)
    moved[place] = points[place] + 1 if other is None else other[rows % len(other)]
    with torch.no_grad():
        return not torch.equal(problem.values(points, rows), problem.values(moved, rows))
