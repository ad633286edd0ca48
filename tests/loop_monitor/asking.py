"""Asking what is said of a loop that is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup

# The rules that judge events; those that judge curves have too little to go by in runs as short as these.
EVENTS = (
    *("O505", "O506", "O507", "O508", "O511", "O512", "O517", "T613", "E701", "E710", "P803", "P804", "G414", "M301"),
    "L212",
)
Train = Callable[[Setup], object]


def batches(setup: Setup, epochs: int = 3) -> Iterator[tuple[Any, Any]]:
    for _ in range(epochs):
        yield from setup.train_loader


def loss_of(setup: Setup, x: Any, y: Any) -> Any:
    return F.cross_entropy(setup.model(x), y)


def watched(train: Train, setup: Setup | None = None) -> list[Finding]:
    """The errors and warnings on the events of a loop."""
    debugger = Debugger.of(setup or classifier())
    with debugger.watch() as watch:
        train(debugger.setup)
    assert not watch.error_summary, watch.error_summary
    return [one for one in debugger.findings if one.severity != "note" and one.code in EVENTS]


def noted(train: Train, setup: Setup | None = None) -> list[Finding]:
    """All that is said of a loop, notes too."""
    debugger = Debugger.of(setup or classifier())
    with debugger.watch() as watch:
        train(debugger.setup)
    assert not watch.error_summary, watch.error_summary
    return list(debugger.findings)


def seen(train: Train, setup: Setup | None = None) -> LoopSummary:
    """The events of a loop."""
    debugger = Debugger.of(setup or classifier())
    with debugger.watch() as watch:
        train(debugger.setup)
    assert not watch.error_summary, watch.error_summary
    return watch.session.loop_monitor.summary([])


def source(found: Finding) -> str:
    """The user's line that a finding names."""
    return (found.where.source or "").strip()


class Thinned(nn.Sequential):
    """A network with dropout and batch statistics."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
