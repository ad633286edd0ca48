"""Records of runs that were never made: a loss, and what else was measured, as a watch would have kept it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.records import Record


def record(loss: Any, *, ratio: float = 2e-3, evals: dict[str, Any] | None = None, **about: Any) -> Record:
    """A record of a loss by step; weights of two layers that move by ``ratio`` of their length a step."""
    found = Record(about={"finished": True, "chance": 2.3, **about})
    for step, value in enumerate(np.asarray(loss, float), 1):
        found.run.append(step, {"loss": value, "lr": 0.01})
        if step < 8 or step % 8 == 0:
            names = ("0.weight", "2.weight")
            row = {f"update.norm|{name}": ratio for name in names} | {f"weight.norm|{name}": 1.0 for name in names}
            found.layers.append(step, row)
    for name, values in (evals or {}).items():
        for step, value in zip(np.linspace(0, len(loss), len(values)).astype(int), values, strict=True):
            found.evaluations.append(int(step), {name: float(value)})
    return found


def fall(start: float, end: float, steps: int = 300, noise: float = 0.03, pace: float = 6.0) -> Any:
    """A loss that falls along an exponential, with noise in proportion."""
    curve = end + (start - end) * np.exp(-pace * np.linspace(0, 1, steps))
    return curve * (1 + noise * np.random.default_rng(0).normal(size=steps))
