"""The gradient of the first batch, in numbers: the tensors would take as much memory as the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.exceptions import NotChecked
from nbdebug.graph import Graph

Gradients = dict[str, Tensor | None]  # by the name of the parameter; None where the backward pass hands it nothing


@dataclass(frozen=True)
class Pull:
    """The gradient of one parameter: its largest value and its norm; zeros where the backward pass hands it nothing."""

    largest: float = 0.0
    norm: float = 0.0
    finite: bool = True


@slow_measurement
def pulls(graph: Graph, loss: Tensor, parameters: list[Entry]) -> dict[str, Pull]:
    """The gradient of the loss of the first batch, for each parameter that it reaches; the graph is kept."""
    reached = {id(leaf) for leaf in graph.leaves}
    entries = [one for one in parameters if id(one.parameter) in reached]
    try:
        return measured(of(loss, entries, keep=True)) if entries else {}
    except RuntimeError as error:
        raise NotChecked(f"the backward pass raised {error}") from error


def of(loss: Tensor, entries: Sequence[Entry], keep: bool = False) -> Gradients:
    """The gradient of a loss for some parameters, sparse ones filled up; ``keep`` keeps the graph."""
    held = [one.parameter for one in entries]
    found = torch.autograd.grad(loss, held, retain_graph=keep, allow_unused=True)
    dense = (part.to_dense() if part is not None and part.is_sparse else part for part in found)
    return {one.name: part for one, part in zip(entries, dense, strict=True)}


def measured(gradients: Gradients) -> dict[str, Pull]:
    """Some gradients in numbers."""
    return {name: Pull() if part is None else pull(part) for name, part in gradients.items()}


def pull(gradient: Tensor) -> Pull:
    """One gradient in numbers."""
    largest, norm = torch.linalg.vector_norm(gradient, float("inf")), torch.linalg.vector_norm(gradient)
    return Pull(float(largest), float(norm), bool(largest.isfinite()))


def are_finite(pulls: dict[str, Pull]) -> bool:
    """Whether no gradient holds NaN or Inf."""
    return all(one.finite for one in pulls.values())
