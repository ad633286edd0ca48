"""The gradient-noise scale of McCandlish et al. 2018 (arXiv:1812.06162), from the norms of small and large gradients.

With small batches of b samples and large ones of B, ``(B |G_B|² - b |G_b|²) / (B - b)`` is free of bias for the squared
norm of the true gradient, and ``(|G_b|² - |G_B|²) / (1/b - 1/B)`` for the sum of the variances (appendix A.1). Their
ratio is the batch whose gradient is as much noise as signal. Each group of small batches gives both, a large one being
the mean of its small ones; over the groups they are averaged before they are divided.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.numbers import squared_norm
from nbdebug.tools.batch_size.result import NoiseScale
from nbdebug.tools.batch_size.step import Steps
from nbdebug.tools.batch_size.supply import Supply

SMALL, IN_GROUP, GROUPS, FEWEST_GROUPS = 8, 8, 16, 4
# The 97.5 % points of Student's t, from three degrees of freedom.
STUDENT = (3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


def noise_scale(steps: Steps, supply: Supply, seconds: float, ends: Callable[[], bool]) -> NoiseScale:
    """The noise scale at the weights as they are, in at most about ``seconds``, or why it cannot be had."""
    try:
        return measured(steps, supply, seconds, ends)
    except NotChecked as why:
        return NoiseScale(why=str(why))


def measured(steps: Steps, supply: Supply, seconds: float, ends: Callable[[], bool]) -> NoiseScale:
    """The noise scale; raises NotChecked with the reason where it would mean nothing."""
    refuse(steps)
    group, until = SMALL * IN_GROUP, time.perf_counter() + seconds
    count = min(supply.count or 0, GROUPS * group) // group
    if count < FEWEST_GROUPS:
        raise NotChecked(f"it takes {FEWEST_GROUPS * group} different samples with indices")
    drawn = supply.drawn(count * group, seed=0)
    pairs: list[tuple[float, float]] = []
    for start in range(0, len(drawn), group):
        if ends() or (pairs and time.perf_counter() > until):
            break
        pairs.append(norms(steps, supply, drawn[start : start + group]))
    if len(pairs) < FEWEST_GROUPS:
        raise NotChecked("there was no time for it")
    return scale(pairs, SMALL, group)


def refuse(steps: Steps) -> None:
    """Raises NotChecked where the norms would not scale as those of a mean over independent samples."""
    if getattr(steps.setup.loss_fn, "reduction", "mean") != "mean":
        raise NotChecked("the loss is not a mean over the samples")
    if any(isinstance(one, nn.modules.batchnorm._BatchNorm) and one.training for one in steps.setup.eager.modules()):
        raise NotChecked("batch normalization makes each gradient depend on the size of its batch")


def norms(steps: Steps, supply: Supply, chosen: list[object]) -> tuple[float, float]:
    """The mean squared norm of the gradients of small batches, and that of their mean."""
    total: list[Tensor] = []
    small = 0.0
    for start in range(0, len(chosen), SMALL):
        found = gradient(steps, supply, chosen[start : start + SMALL])
        small += float(squared_norm(found, steps.device)) / IN_GROUP
        total = [a + b for a, b in zip(total, found, strict=True)] if total else found
    large = float(squared_norm(total, steps.device)) / IN_GROUP**2
    if not np.isfinite(small):
        raise NotChecked("the gradient is not finite")
    return small, large


def gradient(steps: Steps, supply: Supply, chosen: list[object]) -> list[Tensor]:
    """The gradient of one small batch, zero where a parameter has none."""
    with torch.enable_grad():
        steps.passed(supply.collated(chosen))
    found = [p.grad if p.grad is not None else torch.zeros_like(p) for p in steps.trained]
    steps.clear()
    return [one.to_dense() if one.is_sparse else one for one in found]


def scale(pairs: Sequence[tuple[float, float]], small: int, large: int) -> NoiseScale:
    """The ratio of noise to signal with its interval, from (small, large) squared norms, one pair a group."""
    one, many = np.array(pairs, np.float64).T
    signal = (large * many - small * one) / (large - small)
    noise = float(((one - many) / (1 / small - 1 / large)).mean())
    middle, half = (
        float(signal.mean()),
        STUDENT[len(pairs) - FEWEST_GROUPS] * float(signal.std(ddof=1)) / len(pairs) ** 0.5,
    )
    if noise <= 0:
        raise NotChecked("the gradients of different samples do not differ")
    if middle + half <= 0:
        raise NotChecked(f"at {len(pairs) * large} samples the gradient cannot be told from noise")
    known = middle - half > 0
    return NoiseScale(
        value=noise / middle if known else None,
        low=noise / (middle + half),
        high=noise / (middle - half) if known else None,
        samples=len(pairs) * large,
    )
