"""Which values an activation can give."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nbdebug.graph.node import Node

HALF = (0.0, math.inf)
UNIT = (0.0, 1.0)
FIXED: dict[str, tuple[float, float]] = {
    "Sigmoid": UNIT,
    "Softmax": UNIT,
    "Hardsigmoid": UNIT,
    "Tanh": (-1.0, 1.0),
    "Relu": HALF,
    "Softplus": HALF,
    "Exp": HALF,
    "LogSoftmax": (-math.inf, 0.0),
    "LogSigmoid": (-math.inf, 0.0),
    "LogSigmoidForward": (-math.inf, 0.0),
}
LIMITED = {
    "Hardtanh": ("min_val", "max_val"),
    "Clamp": ("min", "max"),
    "ClampMin": ("min", ""),
    "ClampMax": ("", "max"),
}
BOUNDED = frozenset({*FIXED, *LIMITED})
CALLS = {
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "Hardsigmoid": "hardsigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
    "Softplus": "softplus",
    "Exp": "exp",
    "LogSoftmax": "log_softmax",
    "LogSigmoid": "logsigmoid",
    "LogSigmoidForward": "logsigmoid",
    "Hardtanh": "hardtanh",
    "Clamp": "clamp",
    "ClampMin": "clamp",
    "ClampMax": "clamp",
}


@dataclass(frozen=True)
class Range:
    """All numbers from ``low`` to ``high``."""

    low: float
    high: float

    def __str__(self) -> str:
        """Such as ``[0, 1]`` or ``[0, inf)``."""
        left = f"[{self.low:g}" if math.isfinite(self.low) else "(-inf"
        right = f"{self.high:g}]" if math.isfinite(self.high) else "inf)"
        return f"{left}, {right}"


def range_of(node: Node) -> Range:
    """The values that an operation of ``BOUNDED`` can give."""
    if node.name in FIXED:
        return Range(*FIXED[node.name])
    low, high = (node.saved(name) if name else None for name in LIMITED[node.name])
    return Range(
        float(low) if isinstance(low, (int, float)) else -math.inf,
        float(high) if isinstance(high, (int, float)) else math.inf,
    )
