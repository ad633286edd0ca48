"""Autograd graphs of past steps that are still alive."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import Tensor, nn

from nbdebug.loop_monitor.graph_holders import GraphHolder, find_graph_holder
from nbdebug.loop_monitor.growing_attributes import GrowingAttributeMonitor
from nbdebug.tensors.pytree import tree_tensors

_MAX_MARKERS, _METADATA_KEY = 64, "nbdebug"
_MAX_MARKERS_PER_EVALUATION = 4
MIN_RETAINED_GRAPHS, MIN_RETAINED_EVALUATIONS, RETAINED_SHARE = 12, 5, 0.75


@dataclass(frozen=True)
class RetainedGraphs:
    """The largest number of graphs alive at once (``alive``), out of the graphs of past steps checked (``checked``).

    ``with_activations`` of those alive were never run backward through, and so still hold all activations.
    ``evaluations`` counts the evaluations between two steps whose graphs were alive at once after later steps, out of
    ``checked_evaluations``. ``holder`` is what keeps the graphs alive, if it is known.
    """

    alive: int = 0
    checked: int = 0
    with_activations: int = 0
    evaluations: int = 0
    checked_evaluations: int = 0
    holder: GraphHolder | None = None


class _Sentinel:
    """Object stored in the metadata of a graph, so that it lives exactly as long as the graph."""

    __slots__ = ("__weakref__",)


@dataclass
class _GraphMarker:
    """A marked graph and its step; it ``holds_activations`` until a backward pass runs through it."""

    step: int
    sentinel: weakref.ref[_Sentinel]
    holds_activations: bool = True

    def on_backward(self, _: Any) -> None:
        """Record that a backward pass runs through the graph."""
        self.holds_activations = False


class RetainedGraphCounter:
    """Marks the graphs of the latest passes, counts those that stay alive, and compares what modules keep."""

    def __init__(self, model: nn.Module) -> None:
        self.attributes = GrowingAttributeMonitor(model)
        self.markers: deque[_GraphMarker] = deque(maxlen=_MAX_MARKERS)
        self.evaluation_markers: deque[_GraphMarker] = deque(maxlen=_MAX_MARKERS)
        self.worst = RetainedGraphs()
        self.holder: GraphHolder | None = None
        self.has_searched = False

    def mark(self, output: Any, step: int) -> None:
        """Mark the graph behind a loss or an output, if there is one, with the step number.

        All tensors of an output share one marker: a recurrent state keeps the graph alive as the prediction does.
        """
        if functions := _graph_roots(output):
            self.markers.append(_mark_graph(functions, step))

    def mark_evaluation(self, output: Any, step: int) -> None:
        """Mark the graph behind an output that is evaluated; of several before the same step, only the first ones."""
        functions = _graph_roots(output)
        latest = [marker for marker in self.evaluation_markers if marker.step == step]
        if not latest:
            self.count_evaluations(step)
        if functions and len(latest) < _MAX_MARKERS_PER_EVALUATION:
            self.evaluation_markers.append(_mark_graph(functions, step))

    def on_backward(self, step: int) -> None:
        """Count live graphs at powers of two."""
        if step & (step - 1) == 0:
            self.count_alive(step)

    def count_alive(self, step: int) -> None:
        """Count the graphs that are still alive after the step that follows theirs."""
        self.attributes.inspect(step)
        past_markers = [marker for marker in self.markers if marker.step < step - 1]
        alive = [marker for marker in past_markers if marker.sentinel() is not None]
        if len(alive) >= max(MIN_RETAINED_GRAPHS, RETAINED_SHARE * len(past_markers)):
            alive = self._without_garbage(alive)
            self._search_holder(alive[:-2])  # variables of the loop still hold the latest
        if len(alive) > self.worst.alive:
            with_activations = sum(marker.holds_activations for marker in alive)
            self.worst = replace(
                self.worst,
                alive=len(alive),
                checked=len(past_markers),
                with_activations=with_activations,
                holder=self.holder,
            )
        self.count_evaluations(step)

    def count_evaluations(self, step: int) -> None:
        """Count the evaluations whose graphs are still alive, and that no backward pass has used."""
        markers = [*self.evaluation_markers, *self.markers]
        past_markers = [marker for marker in markers if marker.step < step - 1 and marker.holds_activations]
        retained = [marker for marker in past_markers if marker.sentinel() is not None]
        steps, past_steps = {marker.step for marker in retained}, {marker.step for marker in past_markers}
        if len(steps) >= max(MIN_RETAINED_EVALUATIONS, RETAINED_SHARE * len(past_steps)):
            self._search_holder([marker for marker in retained if marker.step < max(steps)])
        if len(steps) > self.worst.evaluations:
            self.worst = replace(
                self.worst, evaluations=len(steps), checked_evaluations=len(past_steps), holder=self.holder
            )

    def _without_garbage(self, alive: list[_GraphMarker]) -> list[_GraphMarker]:
        """Return the graphs that survive a garbage collection, which is done once."""
        if not self.has_searched:
            gc.collect()
        return [marker for marker in alive if marker.sentinel() is not None]

    def _search_holder(self, markers: list[_GraphMarker]) -> None:
        """Search once for what keeps the graphs alive."""
        if self.has_searched or not markers:
            return
        self.has_searched = True
        retained_ids = {id(marker.sentinel()) for marker in markers}
        self.holder = find_graph_holder(
            lambda node: id(node.metadata.get(_METADATA_KEY)) in retained_ids, sys._getframe(1)
        )


def _graph_roots(output: Any) -> list[Any]:
    """Return the last function of the graph behind each tensor of an output."""
    output_tensors = (output,) if isinstance(output, Tensor) else tree_tensors(output)
    return [tensor.grad_fn for tensor in output_tensors if tensor.grad_fn is not None]


def _mark_graph(functions: list[Any], step: int) -> _GraphMarker:
    """Store one sentinel in the metadata of some functions, and observe whether a backward pass runs through them."""
    sentinel = _Sentinel()
    marker = _GraphMarker(step, weakref.ref(sentinel))
    for function in functions:
        cast(dict[str, Any], function.metadata)[_METADATA_KEY] = sentinel
        function.register_prehook(marker.on_backward)
    return marker
