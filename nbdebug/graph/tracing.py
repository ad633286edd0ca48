"""Runs a forward pass so that its graph can be read: with tracebacks, module spans and cuts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.graph.cuts import Cut, CutWatch
from nbdebug.graph.reader import Graph, Span, read
from nbdebug.graph.running import Running
from nbdebug.graph.source import Line
from nbdebug.graph.tracebacks import tracebacks

PROBE = torch.empty(0, requires_grad=True)


@dataclass
class Trace(Running):
    """What was seen while the block of ``tracing`` ran.

    ``called`` counts the calls of each submodule by path; ``fresh`` maps the id of a leaf tensor that was made with a
    gradient of its own inside the block to that tensor and the user's line.
    """

    spans: list[Span] = field(default_factory=list)
    called: dict[str, int] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    fresh: dict[int, tuple[Tensor, Line | None]] = field(default_factory=dict)
    graphs: dict[Any, Graph] = field(default_factory=dict)

    def graph(self, tensor: Tensor) -> Graph:
        """The graph behind a tensor made in the block, read once."""
        end = tensor.grad_fn
        if end not in self.graphs:
            self.graphs[end] = read(end, self.spans)
        return self.graphs[end]

    def enter(self, path: str) -> None:
        """Notes that a submodule begins to run."""
        super().enter(path)
        self.called[path] = self.called.get(path, 0) + 1
        self.mark()

    def leave(self) -> None:
        """Notes that the innermost submodule is done."""
        super().leave()
        self.mark()

    def mark(self) -> None:
        """Notes from which operation on the innermost running submodule is the one at work."""
        number = next_number()
        if number is not None:
            self.spans.append((number, self.innermost or ""))


def next_number() -> int | None:
    """The sequence number that the next operation will have, counted by autograd in each thread; None if untold."""
    with torch._C.DisableTorchFunction(), torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
        function = PROBE.view(0).grad_fn
    number = getattr(function, "_sequence_nr", None)
    return int(number()) + 1 if number is not None else None


@contextmanager
def tracing(model: nn.Module) -> Iterator[Trace]:
    """A block in which every operation of ``model`` keeps its traceback; hooks and modes are taken off afterwards."""
    trace = Trace()
    watch = CutWatch(trace)
    trace.cuts, trace.fresh = watch.cuts, watch.fresh
    with trace.inside(model), tracebacks(), torch.enable_grad(), watch:
        yield trace
