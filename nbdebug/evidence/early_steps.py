"""A few steps of plain gradient descent, which tell what is zero or equal for good from what only begins so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.errors import NotChecked
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.graph import Graph
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


@measurement
def early_steps(setup: Setup, graph: Graph, loss: Tensor, batches: list[Batch], parameters: list[Entry]) -> list[Early]:
    """The trainable parameters that the loss reaches, with their largest gradient and what becomes of equal rows."""
    reached = {id(leaf) for leaf in graph.leaves}
    entries = [one for one in parameters if id(one.parameter) in reached]
    if not entries or not bool(torch.isfinite(loss)):
        raise NotChecked("the loss is not finite" if entries else "the loss reaches no parameter of the model")
    equal = {id(one.parameter) for one in entries if rows_are_equal(one.parameter)}
    largest = dict.fromkeys((one.name for one in entries), 0.0)
    with unchanged(one.parameter for one in entries):
        for step in range(STEPS):
            value = setup.run(batches[step % len(batches)])[1]
            descend(value, entries, largest)
            if not equal and all(largest.values()):
                break
        return [early(one, largest[one.name], id(one.parameter) in equal) for one in entries]


def early(entry: Entry, largest: float, equal: bool) -> Early:
    """What is kept of one parameter."""
    if not equal:
        return Early(entry, largest)
    rows = some_rows(entry.parameter)
    return Early(entry, largest, len(rows), distinct(rows))


def descend(value: Tensor, entries: list[Entry], largest: dict[str, float]) -> None:
    """One step of each parameter along its own gradient, all of one size, so that no rate need be known."""
    if not value.requires_grad or not bool(torch.isfinite(value)):
        return
    found = torch.autograd.grad(value, [one.parameter for one in entries], allow_unused=True)
    for one, gradient in zip(entries, found, strict=True):
        dense = None if gradient is None else (gradient.to_dense() if gradient.is_sparse else gradient)
        size = 0.0 if dense is None else float(dense.abs().max())
        largest[one.name] = max(largest[one.name], size)
        if dense is not None and 0 < size < float("inf"):
            one.parameter.data.sub_(STEP_SIZE * dense / size)


@contextmanager
def unchanged(tensors: Iterator[nn.Parameter]) -> Iterator[None]:
    """A block in which the tensors hold copies of their values, so that graphs built before it stay valid."""
    kept = [(one, one.data) for one in tensors]
    try:
        for one, values in kept:
            one.data = values.clone()
        yield
    finally:
        for one, values in kept:
            one.data = values


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
