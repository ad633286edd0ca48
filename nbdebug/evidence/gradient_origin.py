"""The operation whose gradient is the first that is not finite, while its loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.first_pass import run
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.non_finite import NonFinite
from nbdebug.graph import Graph, Node
from nbdebug.setup import Batch, Setup

Found = tuple[Node, str, Tensor]


@dataclass(frozen=True)
class GradientOrigin:
    """The first operation of a backward pass to make NaN or Inf of a finite gradient.

    ``reach`` is the range of what it keeps of its forward pass; None where it keeps nothing. ``samples`` are those of
    the batch whose gradient it ruined, where that can be told.
    """

    node: Node
    made: str
    seen: NonFinite
    reach: tuple[float, float] | None
    samples: list[int] = field(default_factory=list)


@measurement
def gradient_origin(setup: Setup, non_finite: NonFinite | None) -> GradientOrigin | None:
    """Where a gradient that is not finite begins, if no operation of the forward pass is to blame."""
    if non_finite is None or non_finite.what != "gradient" or non_finite.origin is not None:
        return None
    traced = run(setup, non_finite.batch)
    if traced.value is None or not traced.value.requires_grad:
        return None
    found = first(traced.trace.graph(traced.value), traced.value)
    if found is None:
        return None
    node, made, rows = found
    samples = told(non_finite.batch, rows)
    return GradientOrigin(node, made, non_finite, saved_range(node), samples)


def told(batch: Batch, wrong: Tensor) -> list[int]:
    """The samples in which something went wrong, where there is an entry for each of them and some are fine."""
    if len(wrong) != batch.size or bool(wrong.all()):
        return []
    return [batch.sample(row) for row in wrong.nonzero().flatten().tolist()]


def first(graph: Graph, value: Tensor) -> Found | None:
    """The first operation of a backward pass that is handed finite numbers and hands on others: what, in which rows."""
    found: list[Found] = []
    with graph.heard(lambda node: noting(node, found)):
        torch.autograd.grad(value, graph.leaves, allow_unused=True, retain_graph=True)  # what nodes keep is read
    return next(iter(found), None)


def noting(node: Node, found: list[Found]) -> Callable[[Any, Any], None]:
    """A hook that notes its operation when it makes NaN or Inf of finite numbers."""

    def note(given: tuple[Tensor | None, ...], taken: tuple[Tensor | None, ...]) -> None:
        wrong = [one for one in given if one is not None and not bool(one.isfinite().all())]
        if wrong and all(bool(one.isfinite().all()) for one in taken if one is not None):
            kind = "NaN" if any(bool(one.isnan().any()) for one in wrong) else "Inf"
            found.append((node, kind, ~wrong[0].isfinite().reshape(len(wrong[0]) if wrong[0].dim() else 1, -1).all(1)))

    return note


def saved_range(node: Node) -> tuple[float, float] | None:
    """The range of what an operation keeps of its input, or else of its result."""
    for name in ("self", "result", "input", "other"):
        kept = node.saved(name)
        if isinstance(kept, Tensor) and kept.is_floating_point() and kept.numel():
            return float(kept.detach().min()), float(kept.detach().max())
    return None
