"""Which values of the output the loss listens to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup, losses
from nbdebug.setup.losses import scores

SAMPLES, MOST_VALUES = 8, 2_000_000
STEPS = (-100.0, -1.0, 1.0, 100.0)


@dataclass(frozen=True)
class Heard:
    """For some samples of the first batch, and for each column of the output, whether it moves the loss.

    ``places`` is the same for some steps of a sequence, where targets have an axis of them too.
    """

    samples: dict[int, bool]
    columns: dict[int, bool]
    places: dict[int, bool] = field(default_factory=dict)


@slow_measurement
def heard(setup: Setup, first_pass: Pass, output: Any, finite_loss: Tensor) -> Heard:
    """What is heard of the output: by its gradient, else by changing it a little and much, up and down."""
    found = scores(output)
    if setup.loss_fn is None or not isinstance(found, Tensor) or first_pass.batch.target is None:
        raise NotChecked("loss and output are not one callable and one tensor")
    if not isinstance(output, Tensor) and losses.named(setup.loss_fn) == "other":
        raise NotChecked(f"a loss of your own takes the whole {type(output).__name__} that the model returns")
    if found.dim() == 0 or len(found) != first_pass.batch.size or found.numel() > MOST_VALUES:
        raise NotChecked("the output has no axis of the samples, or is too large to try")
    base = found.detach()
    silent = loss_on(setup, base.clone(), first_pass.batch)

    def moves(part: Any) -> bool:
        return any(loss_on(setup, one, first_pass.batch) != silent for one in changed(base, part))

    pulled = pull(setup, first_pass, base) != 0
    rows = [*range(0, len(base) - 1, max(1, len(base) // SAMPLES)), len(base) - 1]
    columns = range(base.shape[1]) if base.dim() == 2 and 1 < base.shape[1] <= SAMPLES else ()
    places = steps(base, first_pass.batch.target)
    return Heard(
        {row: bool(pulled[row].any()) or moves(row) for row in rows},
        {column: bool(pulled[:, column].any()) or moves((slice(None), column)) for column in columns},
        {place: bool(pulled[:, place].any()) or moves((slice(None), place)) for place in places},
    )


def steps(output: Tensor, target: Any) -> list[int]:
    """Some steps of a sequence: the second axis of the output, where the target has it too."""
    shared = (
        isinstance(target, Tensor) and target.dim() > 1 and output.dim() == 3 and target.shape[:2] == output.shape[:2]
    )
    if not shared or output.shape[1] < 3:
        return []
    return [*range(0, output.shape[1] - 1, max(1, output.shape[1] // SAMPLES)), output.shape[1] - 1]


def pull(setup: Setup, first_pass: Pass, base: Tensor) -> Tensor:
    """The gradient of the loss at the output, which tells of most parts at once; zeros where there is none."""
    try:
        with torch.enable_grad():
            leaf = base.clone().requires_grad_()
            (found,) = torch.autograd.grad(setup.loss(leaf, first_pass.batch), leaf, allow_unused=True)
    except RuntimeError:
        found = None
    return torch.zeros_like(base) if found is None else found.nan_to_num()


def changed(output: Tensor, part: Any) -> Iterator[Tensor]:
    """The output with one part moved, each value of it differently, so that no sum over the part stays the same."""
    size = output[part].numel()
    slope = torch.linspace(0.5, 1.5, size, dtype=output.dtype, device=output.device).reshape(output[part].shape)
    if bool(((output >= 0) & (output <= 1)).all()):
        moved = [0.1 * slope, 1 - 0.1 * slope]  # probabilities, which some losses refuse to see outside
    else:
        spread = max(float(output.float().std()), 1e-3) if output.numel() > 1 else 1.0
        moved = [output[part] + step * spread * slope for step in STEPS]
    for values in moved:
        copy = output.clone()
        copy[part] = values
        yield copy
