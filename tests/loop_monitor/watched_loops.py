"""Training loops, and functions that run them under watch and return findings or the loop summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary, summary
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

# The rules on events; those on curves need longer runs than these.
EVENT_RULES = (
    *(
        "O505",
        "O506",
        "O507",
        "O508",
        "O511",
        "O512",
        "O517",
        "T613",
        "E701",
        "E710",
        "E711",
        "P803",
        "P804",
        "G414",
        "M301",
    ),
    "L212",
)
TrainFunction = Callable[[Setup], object]


def load_loop(file: Path, source: str) -> Any:
    """Write ``source`` to a file, so that its lines can be located, and return its function ``train``."""
    file.write_text(source)
    scope: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), scope)
    return scope["train"]


def batches(setup: Setup, epochs: int = 3) -> Iterator[tuple[Any, Any]]:
    for _ in range(epochs):
        yield from setup.train_loader


def batch_loss(setup: Setup, x: Any, y: Any) -> Any:
    return F.cross_entropy(setup.model(x), y)


def train_plainly(setup: Setup, epochs: int = 3) -> None:
    for x, y in batches(setup, epochs):
        setup.optimizers[0].zero_grad()
        batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()


def run_watched(train: TrainFunction, setup: Setup | None = None) -> tuple[Debugger, Watch]:
    """Watch a loop, without the final tests of the trained model, which take longer than the loop."""
    debugger = Debugger.of(setup or classifier())
    with debugger.watch(final_tests=False) as watch:
        train(debugger.setup)
    assert not watch.error_summary, watch.error_summary
    return debugger, watch


def event_findings(train: TrainFunction, setup: Setup | None = None) -> list[Finding]:
    """Return the errors and warnings of the rules on events."""
    return [
        finding for finding in all_findings(train, setup) if finding.severity != "note" and finding.code in EVENT_RULES
    ]


def all_findings(train: TrainFunction, setup: Setup | None = None) -> list[Finding]:
    """Return the findings of all rules, notes included."""
    debugger, _ = run_watched(train, setup)
    return list(debugger.findings)


def summarize_loop(train: TrainFunction, setup: Setup | None = None) -> LoopSummary:
    _, watch = run_watched(train, setup)
    return summary.summarize_loop(watch.session.loop_monitor, [])


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def source_line(finding: Finding) -> str:
    """Return the line of the loop that a finding locates."""
    return (finding.where.source or "").strip()


class ModeDependentNetwork(nn.Sequential):
    """A network with dropout and batch normalization."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
