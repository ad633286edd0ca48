"""Latency of inference by batch size."""

from __future__ import annotations

import numpy as np
import torch

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.tools.batch_size.search import BatchBuilder
from nbdebug.tools.profile.clocks import host_seconds
from nbdebug.tools.profile.operations import synchronize
from nbdebug.tools.profile.time_profile import Latency

_WARMUP, _MIN_PASSES, _PASSES_PER_STEP, _SECONDS = 3, 20, 10, 0.25


def measure_latencies(setup: Setup, size: int, steps: int) -> tuple[Latency, ...]:
    """Return the latency of the model in eval mode on one sample, eight, and a batch; none for a ``step_fn``.

    More ``steps`` are more passes, up to a time limit."""
    if setup.step_fn is not None:
        return ()
    builder = BatchBuilder(setup)
    sizes = sorted({count for count in (1, 8, size) if 0 < count <= max(size, 1)})
    with in_mode(setup.eager_model, False), torch.inference_mode():
        try:
            return tuple(
                _latency(setup, builder.batch(count), count, max(_MIN_PASSES, _PASSES_PER_STEP * steps))
                for count in sizes
            )
        except SetupError:  # the batches cannot be split into samples
            return ()


def _latency(setup: Setup, batch: Batch, size: int, passes: int) -> Latency:
    """Return the percentiles of the seconds of some passes."""
    seconds: list[float] = []
    for number in range(_WARMUP + passes):
        synchronize(setup.model_device)
        started = host_seconds()
        setup.predict(batch, setup.model)
        synchronize(setup.model_device)
        if number >= _WARMUP:
            seconds.append(host_seconds() - started)
        if len(seconds) >= _MIN_PASSES and sum(seconds) > _SECONDS:
            break
    p50, p95, p99 = np.percentile(seconds, (50, 95, 99)).tolist()
    return Latency(size, p50, p95, p99, len(seconds))
