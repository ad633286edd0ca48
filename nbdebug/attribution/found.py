"""What an engine gives back: numbers for each part, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nbdebug.attribution.problem import Problem
from nbdebug.exceptions import SetupError


@dataclass
class Found:
    """Attributions, one float64 tensor a part, on the CPU; what else is known of them, None where it does not apply.

    ``completeness`` and ``error`` are shares for each sample; ``standard_errors`` and ``background_errors`` are like
    ``values``.
    """

    values: list[Tensor]
    base: Tensor | None = None
    completeness: Tensor | None = None
    error: Tensor | None = None
    standard_errors: list[Tensor] | None = None
    background_errors: list[Tensor] | None = None
    nodes: int = 0
    lines: int = 0
    converged: bool = True
    notes: list[str] = field(default_factory=list)


def refuse_nan(problem: Problem, values: list[Tensor]) -> None:
    """Raises SetupError where an attribution is not a number, with the sample and what is the reason."""
    for part, one in zip(problem.parts, values, strict=True):
        bad = ~torch.isfinite(one.reshape(len(one), -1)).all(1)
        if not bool(bad.any()):
            continue
        row = int(bad.nonzero()[0])
        if not bool(torch.isfinite(part.values[row]).all()):
            why, act = f"{part.name} of sample {row} is not finite itself", "Fill or drop such samples"
        elif not bool(torch.isfinite(problem.outputs[row]).all()):
            why, act = f"the model's output for sample {row} is not finite", "Find the layer with dbg.checkup()"
        else:
            why = f"the gradient by {part.name} is not finite for sample {row}"
            act = "Look for sqrt, log or a division at zero, or use method='occlusion'"
        raise SetupError(f"{why}; expected finite numbers. {act}.")
