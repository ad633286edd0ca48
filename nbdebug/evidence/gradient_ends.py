"""Where gradients that begin well become zero: parameters that are connected and never moved by the loss."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.early_steps import Early
from nbdebug.evidence.first_pass import run
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.parameters import Entry
from nbdebug.graph import Graph
from nbdebug.graph.node import Node
from nbdebug.setup import Batch, Setup


@dataclass(frozen=True)
class End:
    """Parameters whose gradient is zero, and the operation that makes it so; None where no single one does."""

    entries: list[Entry]
    node: Node | None


@measurement
def gradient_ends(setup: Setup, batches: list[Batch], early_steps: list[Early]) -> list[End]:
    """The modules whose parameters got a gradient of exactly zero in every early step, by what stops the gradient."""
    idle = whole_modules(early_steps)
    if not idle:
        return []
    traced = run(setup, batches[0])
    if traced.value is None:
        return [End(idle, None)]
    graph = traced.trace.graph(traced.value)
    stops = stopping(graph, traced.value, idle)
    ends: dict[Node | None, list[Entry]] = {}
    for one in idle:
        ends.setdefault(first_stop(graph, one, stops), []).append(one)
    return [End(entries, node) for node, entries in ends.items()]


def whole_modules(early_steps: list[Early]) -> list[Entry]:
    """The parameters without gradient in modules none of whose parameters had any."""
    moved = {one.entry.module for one in early_steps if one.largest != 0}  # NaN is no zero
    return [one.entry for one in early_steps if one.entry.module not in moved]


def stopping(graph: Graph, value: Tensor, entries: list[Entry]) -> set[Node]:
    """The operations that were given a gradient and handed on nothing but zeros."""
    stops: set[Node] = set()
    with graph.heard(lambda node: noting(node, stops)):
        torch.autograd.grad(value, [one.parameter for one in entries], allow_unused=True)
    return stops


def noting(node: Node, stops: set[Node]) -> Callable[[Any, Any], None]:
    """A hook that notes its operation when the gradient ends there."""

    def note(given: tuple[Tensor | None, ...], taken: tuple[Tensor | None, ...]) -> None:
        handed_on = [one for one in given if one is not None]
        if handed_on and any_nonzero(taken) and not any_nonzero(tuple(handed_on)):
            stops.add(node)

    return note


def any_nonzero(gradients: tuple[Tensor | None, ...]) -> bool:
    """Whether one of the gradients has a value that is not zero."""
    return any(bool(one.any()) for one in gradients if one is not None)


def first_stop(graph: Graph, entry: Entry, stops: set[Node]) -> Node | None:
    """The stop that is nearest to a parameter on the way to the loss."""
    start = next((node for node in graph.named("AccumulateGrad") if node.variable is entry.parameter), None)
    todo, seen = deque([start] if start else []), set[Node]()
    while todo:
        node = todo.popleft()
        if node in stops:
            return node
        fresh = [one for one in node.users if one not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return None
