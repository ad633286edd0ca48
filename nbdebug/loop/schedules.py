"""What a schedule was planned for, and what one that watches for plateaus is told."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from nbdebug.graph.search import calls_to, parsed
from nbdebug.graph.source import Line, caller

MOST_METRICS, LEAST_METRICS, EAGER = 1000, 4, 8
LENGTHS = ("total_steps", "T_max", "total_iters")  # of OneCycleLR, CosineAnnealingLR, LinearLR and PolynomialLR
SCORE = re.compile(r"acc|f1|auc|score|iou|dice|precision|recall|r2|bleu|correct", re.IGNORECASE)
LOSS = re.compile(r"loss|err|mse|mae|nll|perplexity|ppl", re.IGNORECASE)


class Scheduling:
    """Counts the steps of the scheduler, and keeps what it is told and the user's line."""

    def __init__(self) -> None:
        self.count = 0
        self.metrics: list[float] = []
        self.lines: dict[str, Line] = {}

    def heard(self, given: tuple[Any, Any, Any]) -> None:
        """The scheduler steps, mostly once an epoch, so that its line may come late."""
        if not self.lines and self.count < EAGER and (line := caller(sys._getframe(1))):
            self.lines["schedule"] = line
        self.count += 1
        if len(self.metrics) < MOST_METRICS:
            self.metrics.extend(metric(*given))


def metric(scheduler: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[float, ...]:
    """The value that a step of a schedule was given to watch; nothing for other schedules."""
    value = args[0] if args else kwargs.get("metrics")
    return (float(value),) if isinstance(scheduler, ReduceLROnPlateau) and value is not None else ()


def planned_length(scheduler: Any) -> int | None:
    """The number of its own steps that a schedule is made for, where it has one."""
    found = (getattr(scheduler, name, None) for name in LENGTHS)
    return next((one for one in found if isinstance(one, int) and one > 1), None)


def taken_for(scheduler: Any, metrics: Sequence[float], samples: int | None, line: Line | None) -> str | None:
    """The mode that a schedule for plateaus needs, where it is in the other one and its metric moved against it.

    A metric is a score by its name in the call, or if each of its values is a share of the validation ``samples``.
    """
    if not isinstance(scheduler, ReduceLROnPlateau) or len(metrics) < LEAST_METRICS:
        return None
    rises, said = metrics[-1] > metrics[0], named_in(line)
    score = SCORE.search(said) and not LOSS.search(said)
    if scheduler.mode == "min" and rises and (score or (not LOSS.search(said) and are_shares(metrics, samples))):
        return "max"
    if scheduler.mode == "max" and not rises and LOSS.search(said) and not SCORE.search(said):
        return "min"
    return None


def named_in(line: Line | None) -> str:
    """The arguments of the calls to ``step`` in a line, as they are written."""
    nodes = parsed(line.file) if line else ()
    found = [node for node in nodes if isinstance(node, ast.Call) and calls_to("step")(node)]
    here = [node for node in found if line and node.lineno <= line.number <= (node.end_lineno or node.lineno)]
    return " ".join(ast.unparse(one) for node in here for one in [*node.args, *[k.value for k in node.keywords]])


def are_shares(metrics: Sequence[float], samples: int | None, *, close: float = 1e-3) -> bool:
    """Whether each value counts whole samples, in ones or in percent, and the values differ."""
    if not samples or not all(0 <= one <= 100 for one in metrics):
        return False
    counts = [one * samples / (100 if max(metrics) > 1 else 1) for one in metrics]
    return len(set(metrics)) > 2 and all(abs(one - round(one)) < close for one in counts)
