"""The operation whose gradient is the first that is not finite, while its loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.first_pass import run
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.non_finite import NonFinite
from nbdebug.graph import Graph, Node
from nbdebug.setup import Setup


@dataclass(frozen=True)
class GradientOrigin:
    """The first operation of a backward pass to make NaN or Inf of a finite gradient, in batch ``number``.

    ``reach`` is the range of what it keeps of its forward pass; None where it keeps nothing.
    """

    node: Node
    made: str
    number: int
    reach: tuple[float, float] | None


@measurement
def gradient_origin(setup: Setup, non_finite: NonFinite | None) -> GradientOrigin | None:
    """Where a gradient that is not finite begins, if no operation of the forward pass is to blame."""
    if non_finite is None or non_finite.what != "gradient" or non_finite.origin is not None:
        return None
    traced = run(setup, non_finite.batch)
    if traced.value is None or not traced.value.requires_grad:
        return None
    found = first(traced.trace.graph(traced.value), traced.value)
    return GradientOrigin(found[0], found[1], non_finite.number, saved_range(found[0])) if found else None


def first(graph: Graph, value: Tensor) -> tuple[Node, str] | None:
    """The first operation of a backward pass that is handed finite numbers and hands on others, and what those are."""
    found: list[tuple[Node, str]] = []
    with graph.heard(lambda node: noting(node, found)):
        torch.autograd.grad(value, graph.leaves, allow_unused=True)
    return next(iter(found), None)


def noting(node: Node, found: list[tuple[Node, str]]) -> Callable[[Any, Any], None]:
    """A hook that notes its operation when it makes NaN or Inf of finite numbers."""

    def note(given: tuple[Tensor | None, ...], taken: tuple[Tensor | None, ...]) -> None:
        wrong = [one for one in given if one is not None and not bool(one.isfinite().all())]
        if wrong and all(bool(one.isfinite().all()) for one in taken if one is not None):
            found.append((node, "NaN" if any(bool(one.isnan().any()) for one in wrong) else "Inf"))

    return note


def saved_range(node: Node) -> tuple[float, float] | None:
    """The range of what an operation keeps of its input, or else of its result."""
    for name in ("self", "result", "input", "other"):
        kept = node.saved(name)
        if isinstance(kept, Tensor) and kept.is_floating_point() and kept.numel():
            return float(kept.detach().min()), float(kept.detach().max())
    return None
