"""Autograd graphs of past steps that are still alive."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from nbdebug.loop_monitor.graph_holders import GraphHolder, find_graph_holder
from nbdebug.tensors.pytree import tree_tensors

_MAX_MARKERS, _METADATA_KEY = 64, "nbdebug"
MIN_RETAINED_GRAPHS, RETAINED_SHARE = 12, 0.75


@dataclass(frozen=True)
class RetainedGraphs:
    """The largest number of graphs alive at once (``alive``), out of the graphs of past steps checked (``checked``).

    ``with_activations`` of those alive were never run backward through, and so still hold all activations. ``holder``
    is what keeps them alive, if it is known.
    """

    alive: int = 0
    checked: int = 0
    with_activations: int = 0
    holder: GraphHolder | None = None


class _Sentinel:
    """Object stored in the metadata of a graph, so that it lives exactly as long as the graph."""

    __slots__ = ("__weakref__",)


@dataclass
class _GraphMarker:
    """A marked graph and its step; ``holds_activations`` until a backward pass runs through it."""

    step: int
    sentinel: weakref.ref[_Sentinel]
    is_validation: bool = False
    holds_activations: bool = True


class RetainedGraphCounter:
    """Marks the graphs of the latest passes, and counts those that stay alive."""

    def __init__(self) -> None:
        self.markers: deque[_GraphMarker] = deque(maxlen=_MAX_MARKERS)
        self.worst = RetainedGraphs()
        self.holder: GraphHolder | None = None
        self.has_searched = False

    def mark(self, output: Any, step: int, is_validation: bool = False) -> None:
        """Mark the graph behind a loss or an output, if there is one, with the step number.

        All tensors of an output share one marker: a recurrent state keeps the graph alive as the prediction does.
        """
        output_tensors = (output,) if isinstance(output, Tensor) else tree_tensors(output)
        functions = [tensor.grad_fn for tensor in output_tensors if tensor.grad_fn is not None]
        if functions:
            sentinel = _Sentinel()
            for function in functions:
                cast(dict[str, Any], function.metadata)[_METADATA_KEY] = sentinel
            self.markers.append(_GraphMarker(step, weakref.ref(sentinel), is_validation))

    def on_backward(self, step: int) -> None:
        """Record a backward pass through the graphs of the current step; counts live graphs at powers of two."""
        if step & (step - 1) == 0:
            self.count_alive(step)
        for marker in reversed(self.markers):
            if marker.step != self.markers[-1].step:
                return
            marker.holds_activations &= marker.is_validation

    def count_alive(self, step: int) -> None:
        """Count the graphs that are still alive after the step that follows theirs."""
        past_markers = [marker for marker in self.markers if marker.step < step - 1]
        alive = [marker for marker in past_markers if marker.sentinel() is not None]
        if len(alive) >= max(MIN_RETAINED_GRAPHS, RETAINED_SHARE * len(past_markers)) and not self.has_searched:
            self.has_searched = True
            self._search_holder(alive[:-2])  # variables of the loop still hold the latest
        if len(alive) > self.worst.alive:
            self.worst = RetainedGraphs(
                len(alive), len(past_markers), sum(marker.holds_activations for marker in alive), self.holder
            )

    def _search_holder(self, markers: list[_GraphMarker]) -> None:
        """Search once for what keeps the graphs alive."""
        retained_ids = {id(marker.sentinel()) for marker in markers}
        self.holder = find_graph_holder(
            lambda node: id(node.metadata.get(_METADATA_KEY)) in retained_ids, sys._getframe(1)
        )
