"""Synthetic records, with the signals that a watch records."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.records import Record


def make_record(loss: Any, *, ratio: float = 2e-3, evals: dict[str, Any] | None = None, **about: Any) -> Record:
    """Return a record of these losses and of two layers with relative update ``ratio``."""
    record = Record(about={"finished": True, "chance": 2.3, **about})
    for step, value in enumerate(np.asarray(loss, float), 1):
        record.run.append(step, {"loss": value, "lr": 0.01})
        if step < 8 or step % 8 == 0:
            names = ("0.weight", "2.weight")
            row = {f"update.norm|{name}": ratio for name in names} | {f"weight.norm|{name}": 1.0 for name in names}
            record.layers.append(step, row)
    for name, values in (evals or {}).items():
        for step, value in zip(np.linspace(0, len(loss), len(values)).astype(int), values, strict=True):
            record.evaluations.append(int(step), {name: float(value)})
    return record


def falling_loss(start: float, end: float, steps: int = 300, noise: float = 0.03, decay: float = 6.0) -> Any:
    """Return an exponentially falling loss with proportional noise."""
    curve = end + (start - end) * np.exp(-decay * np.linspace(0, 1, steps))
    return curve * (1 + noise * np.random.default_rng(0).normal(size=steps))
