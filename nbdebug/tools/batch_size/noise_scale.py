"""Gradient noise scale, from the gradient norms of small and large batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.statistics.intervals import student_quantile
from nbdebug.tensors.sampling import squared_norm
from nbdebug.tools.batch_size.result import NoiseScale
from nbdebug.tools.batch_size.search import BatchBuilder, TrainingStep

_SMALL_BATCH, _BATCHES_PER_GROUP, _MAX_GROUPS, _MIN_GROUPS = 8, 8, 16, 4


def noise_scale(
    steps: TrainingStep, supply: BatchBuilder, seconds: float, should_stop: Callable[[], bool]
) -> NoiseScale:
    """Return the noise scale at the current weights, in at most about ``seconds``, or the reason why it is unknown."""
    try:
        return _measure_noise_scale(steps, supply, seconds, should_stop)
    except NotChecked as why:
        return NoiseScale(why=str(why))


def _measure_noise_scale(
    steps: TrainingStep, supply: BatchBuilder, seconds: float, should_stop: Callable[[], bool]
) -> NoiseScale:
    """Return the noise scale; raise NotChecked with the reason if it would be meaningless."""
    _check_applicable(steps)
    group, deadline = _SMALL_BATCH * _BATCHES_PER_GROUP, time.perf_counter() + seconds
    count = min(supply.sample_count or 0, _MAX_GROUPS * group) // group
    if count < _MIN_GROUPS:
        raise NotChecked(f"needs {_MIN_GROUPS * group} different samples with indices")
    samples = supply.draw_samples(count * group, seed=0)
    pairs: list[tuple[float, float]] = []
    for start in range(0, len(samples), group):
        if should_stop() or (pairs and time.perf_counter() > deadline):
            break
        pairs.append(_gradient_norms(steps, supply, samples[start : start + group]))
    if len(pairs) < _MIN_GROUPS:
        raise NotChecked("the time limit was reached")
    return noise_scale_from_norms(pairs, _SMALL_BATCH, group)


def _check_applicable(steps: TrainingStep) -> None:
    """Raise NotChecked if the norms do not scale like those of a mean over independent samples."""
    if getattr(steps.setup.loss_fn, "reduction", "mean") != "mean":
        raise NotChecked("the loss is not a mean over the samples")
    if any(
        isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training
        for module in steps.setup.eager_model.modules()
    ):
        raise NotChecked("with batch normalization, each gradient depends on the batch size")


def _gradient_norms(steps: TrainingStep, supply: BatchBuilder, samples: list[object]) -> tuple[float, float]:
    """Return the mean squared norm of the gradients of small batches, and that of their mean."""
    total: list[Tensor] = []
    small = 0.0
    for start in range(0, len(samples), _SMALL_BATCH):
        gradients = _gradient(steps, supply, samples[start : start + _SMALL_BATCH])
        small += float(squared_norm(gradients, steps.device)) / _BATCHES_PER_GROUP
        total = [a + b for a, b in zip(total, gradients, strict=True)] if total else gradients
    large = float(squared_norm(total, steps.device)) / _BATCHES_PER_GROUP**2
    if not np.isfinite(small):
        raise NotChecked("the gradient is not finite")
    return small, large


def _gradient(steps: TrainingStep, supply: BatchBuilder, samples: list[object]) -> list[Tensor]:
    """Return the gradient of one small batch, zero for parameters without one."""
    with torch.enable_grad():
        steps.loss_and_backward(supply.collate(samples))
    gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in steps.parameters]
    steps.clear()
    return [grad.to_dense() if grad.is_sparse else grad for grad in gradients]


def noise_scale_from_norms(pairs: Sequence[tuple[float, float]], small: int, large: int) -> NoiseScale:
    """Return the ratio of noise to signal with its interval, from (small, large) squared norms, one pair per group."""
    small_norms, large_norms = np.array(pairs, np.float64).T
    signal = (large * large_norms - small * small_norms) / (large - small)
    noise = float(((small_norms - large_norms) / (1 / small - 1 / large)).mean())
    mean_signal, half_width = (
        float(signal.mean()),
        student_quantile(len(pairs) - 1) * float(signal.std(ddof=1)) / len(pairs) ** 0.5,
    )
    if noise <= 0:
        raise NotChecked("the gradients of different samples do not differ")
    if mean_signal + half_width <= 0:
        raise NotChecked(f"with {len(pairs) * large} samples, the gradient cannot be distinguished from noise")
    is_bounded = mean_signal - half_width > 0
    return NoiseScale(
        value=noise / mean_signal if is_bounded else None,
        low=noise / (mean_signal + half_width),
        high=noise / (mean_signal - half_width) if is_bounded else None,
        samples=len(pairs) * large,
    )
