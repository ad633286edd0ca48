"""A few steps of plain gradient descent, which tell what is zero or equal for good from what only begins so."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.gradients import Gradients, Pull, measured, of
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.exceptions import NotChecked
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup

STEPS = 4
STEP_SIZE = 0.01
MOST_ROWS = 64


@dataclass(frozen=True)
class Early:
    """One trainable parameter that the loss reaches, over the first steps.

    ``largest`` is the largest gradient that was seen; ``rows`` are how many rows were compared and ``distinct`` how
    many of them differ at the end, where all rows began equal (None elsewhere).
    """

    entry: Entry
    largest: float
    rows: int | None = None
    distinct: int | None = None


@slow_measurement
def early_steps(
    setup: Setup, finite_loss: Tensor, batches: list[Batch], parameters: list[Entry], pulls: dict[str, Pull]
) -> list[Early]:
    """The trainable parameters that the loss reaches, with their largest gradient and what becomes of equal rows."""
    if not pulls:
        raise NotChecked("the loss reaches no parameter of the model")
    entries = [one for one in parameters if one.name in pulls]
    equal = {one.name for one in entries if rows_are_equal(one.parameter)}
    largest = {name: one.largest for name, one in pulls.items()}
    if not equal and all(largest.values()):
        return [Early(one, largest[one.name]) for one in entries]
    with Preserve(*setup.owned):
        descend(entries, of(finite_loss, entries, keep=True))
        for step in range(1, STEPS):
            later = gradients_of(setup.run(batches[step % len(batches)])[1], entries)
            largest = {name: max(largest[name], one.largest) for name, one in measured(later).items()}
            if not equal and all(largest.values()):
                break
            descend(entries, later)
        return [early(one, largest[one.name], one.name in equal) for one in entries]


def gradients_of(loss: Tensor, entries: list[Entry]) -> Gradients:
    """The gradients of a later loss; none where it has no graph or is not finite."""
    usable = loss.requires_grad and bool(torch.isfinite(loss))
    return of(loss, entries) if usable else dict.fromkeys(one.name for one in entries)


def early(entry: Entry, largest: float, equal: bool) -> Early:
    """What is kept of one parameter."""
    if not equal:
        return Early(entry, largest)
    rows = some_rows(entry.parameter)
    return Early(entry, largest, len(rows), distinct(rows))


@torch.no_grad()
def descend(entries: list[Entry], gradients: Gradients) -> None:
    """One step of each parameter along its own gradient, all of one size, so that no rate need be known."""
    for one in entries:
        gradient = gradients[one.name]
        size = 0.0 if gradient is None else float(gradient.abs().max())
        if gradient is not None and 0 < size < float("inf"):
            one.parameter.sub_(STEP_SIZE * gradient / size)


def rows_are_equal(parameter: Tensor) -> bool:
    """Whether a matrix or kernel has several rows, which are all the same."""
    if parameter.dim() < 2 or len(parameter) < 2 or not parameter[0].numel():
        return False
    values = parameter.detach()
    return bool((values == values[:1]).all())


def some_rows(parameter: Tensor) -> Tensor:
    """Up to a fixed number of rows, evenly spread, as vectors in double precision."""
    chosen = torch.linspace(0, len(parameter) - 1, min(len(parameter), MOST_ROWS)).long()
    return parameter.detach()[chosen.to(parameter.device)].flatten(1).double()


def distinct(rows: Tensor) -> int:
    """How many rows are further than a thousandth of a step from every row before them."""
    near = torch.cdist(rows, rows, p=float("inf"), compute_mode="donot_use_mm_for_euclid_dist") < STEP_SIZE / 1000
    return int((near.int().argmax(1) == torch.arange(len(rows), device=rows.device)).sum())
