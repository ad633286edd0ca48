"""Views of range tests with synthetic sweeps and confirmation runs."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np

from nbdebug.tools.lr_range.confirmation import ConfirmationRun, confirm
from nbdebug.tools.lr_range.data import Suggestion, Sweep, SweepEnd
from nbdebug.tools.lr_range.view import LrRangeView


def loss_at_rate(rate: float) -> float:
    """The loss of a range test at a rate: flat, falling, then rising."""
    position = math.log10(rate)
    down = 1.6 / (1 + math.exp(-(position + 3.2) * 2.2))
    return 2.3 - down + max(0.0, position + 0.6) ** 2 * 2.5


def make_sweep(seed: int, steps: int = 100, ended: SweepEnd = "diverged") -> Sweep:
    """One sweep with batch noise."""
    rng = np.random.default_rng(seed)
    values = np.geomspace(1e-7, 10, steps)[: steps if ended == "finished" else round(steps * (0.9 + 0.01 * seed))]
    smooth = [loss_at_rate(rate * (1 + 0.3 * seed)) for rate in values]
    losses = [loss + rng.normal(0, 0.12) for loss in smooth]
    return Sweep(seed, tuple(values.tolist()), tuple(losses), tuple(smooth), ended)


def make_suggestion(name: str, *seed_values: float | None, seeds: int = 3) -> Suggestion:
    """A suggestion from its value for each seed."""
    seed_values = seed_values[:seeds]
    values = [value for value in seed_values if value is not None]
    if not values:
        return Suggestion(name, None, None, None, seed_values)
    return Suggestion(name, median(values), min(values), max(values), seed_values)


def lr_range_view(seeds: int = 3, **fields: Any) -> LrRangeView:
    """A clear range test; the current learning rate is too low."""
    options: dict[str, Any] = {
        "sweeps": [make_sweep(seed) for seed in range(seeds)],
        "suggestions": [
            make_suggestion("steepest", 7.1e-4, 6.0e-4, 5.1e-4, seeds=seeds),
            make_suggestion("valley", 2.9e-3, 2.4e-3, 2.0e-3, seeds=seeds),
            make_suggestion("slide", 3.1e-2, 2.6e-2, 2.2e-2, seeds=seeds),
            make_suggestion("minimum", 2.1e-2, 2.5e-2, 1.9e-2, seeds=seeds),
            make_suggestion("divergence", 1.9e-1, 2.1e-1, 1.7e-1, seeds=seeds),
        ],
        "recommended": make_suggestion("recommended", 2.1e-2, 2.4e-2, 1.8e-2, seeds=seeds),
        "verdict": "clear",
        "headline": "Train at a learning rate of about 0.021.",
        "reasons": ["all three sweeps fall from 2.3 to 0.7 and agree within a factor of 1.4"],
        "notes": ["weight decay 0.01 is part of the curve", "the last losses were not finite and are left out"],
        "current": 1e-4,
        "judgement": "O502: it is 200 times lower than what the curves recommend.",
        "setting": 'for group in optimizer.param_groups: group["lr"] = VALUE',
        "recipes": {"One cycle": "scheduler = OneCycleLR(optimizer, max_lr=0.021)", "Warm-up": "warmup = …"},
        "status": "3 sweeps, 282 steps in 4.1 s",
    }
    return LrRangeView(**{**options, **fields})


def make_confirmation_run(rate: float, floor: float, steps: int = 200) -> ConfirmationRun:
    """A training run whose loss falls to ``floor``, with batch noise."""
    at = np.arange(steps)
    smooth = floor + (2.3 - floor) * np.exp(-at * rate * 2)
    noise = np.random.default_rng(0).normal(0, 0.15, steps) + np.random.default_rng(int(rate * 1e4)).normal(
        0, 0.03, steps
    )
    return ConfirmationRun(rate, tuple((smooth + noise).tolist()), tuple(smooth.tolist()))


def confirmed_view(*trainings: ConfirmationRun, **fields: Any) -> LrRangeView:
    """The same view after confirmation runs at the recommended rate and below it; the second is chosen."""
    diverged_run = ConfirmationRun(
        0.0297, tuple(np.geomspace(2.3, 40, 60).tolist()), tuple(np.geomspace(2.3, 40, 60).tolist()), "diverged"
    )
    trainings = trainings or (diverged_run, make_confirmation_run(0.021, 0.5), make_confirmation_run(0.0148, 0.7))
    confirmation = confirm(trainings[0].rate, trainings)
    reasons = [confirmation.said]
    return lr_range_view(trainings=trainings, standings=confirmation.comparisons, reasons=reasons, **fields)
