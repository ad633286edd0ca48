"""The gradient of the first batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nbdebug.errors import NotChecked
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.graph import Graph

Gradients = dict[str, Tensor | None]  # by the name of the parameter; None where the backward pass hands it nothing


@slow_measurement
def gradients(graph: Graph, loss: Tensor, parameters: list[Entry]) -> Gradients:
    """The gradient of the loss of the first batch, for each parameter that it reaches; the graph is kept."""
    reached = {id(leaf) for leaf in graph.leaves}
    entries = [one for one in parameters if id(one.parameter) in reached]
    try:
        return of(loss, entries, keep=True) if entries else {}
    except RuntimeError as error:
        raise NotChecked(f"the backward pass raised {error}") from error


def of(loss: Tensor, entries: Sequence[Entry], keep: bool = False) -> Gradients:
    """The gradient of a loss for some parameters, sparse ones filled up; ``keep`` keeps the graph."""
    held = [one.parameter for one in entries]
    found = torch.autograd.grad(loss, held, retain_graph=keep, allow_unused=True)
    dense = (part.to_dense() if part is not None and part.is_sparse else part for part in found)
    return {one.name: part for one, part in zip(entries, dense, strict=True)}


def are_finite(gradients: Gradients) -> bool:
    """Whether no gradient holds NaN or Inf."""
    return all(part is None or bool(part.isfinite().all()) for part in gradients.values())


def sizes(gradients: Gradients) -> dict[str, float]:
    """The largest value of each gradient; zero where there is none."""
    return {name: 0.0 if part is None else float(part.abs().max()) for name, part in gradients.items()}
