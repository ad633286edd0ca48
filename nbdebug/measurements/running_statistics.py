"""What the running statistics of batch normalization cost: the loss with them, and with those of each batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import evaluation_mode


@dataclass(frozen=True)
class _RunningStatistics:
    """Mean losses of some training batches in eval mode.

    ``running_loss`` uses the running statistics, ``batch_loss`` those of each batch. ``path`` is the layer that kept
    the largest ``initial_share`` of its initial statistics with its ``momentum``.
    """

    running_loss: float
    batch_loss: float
    path: str
    momentum: float | None
    initial_share: float


def compare_running_statistics(setup: Setup, batches: Sequence[Batch]) -> _RunningStatistics | None:
    """Return the losses of some batches with both statistics; None without layers that keep running statistics."""
    layers = {
        path: module
        for path, module in setup.eager_model.named_modules()
        if isinstance(module, _BatchNorm) and module.track_running_stats and module.num_batches_tracked is not None
    }
    if not layers or not batches:
        return None
    with evaluation_mode(setup.model), torch.no_grad():
        running_loss = _mean_loss(setup, batches)
        with _batch_statistics_in_use(layers.values()):
            batch_loss = _mean_loss(setup, batches)
    path = max(layers, key=lambda name: _initial_share(layers[name]))
    layer = layers[path]
    return _RunningStatistics(running_loss, batch_loss, path, layer.momentum, _initial_share(layer))


def _mean_loss(setup: Setup, batches: Sequence[Batch]) -> float:
    return sum(float(setup.loss(setup.predict(batch), batch)) for batch in batches) / len(batches)


def _initial_share(layer: _BatchNorm) -> float:
    """Return the share of the initial statistics in the present ones; 0 for a cumulative mean."""
    if layer.momentum is None or layer.num_batches_tracked is None:
        return 0.0
    return float((1 - layer.momentum) ** int(layer.num_batches_tracked))


@contextmanager
def _batch_statistics_in_use(layers: Collection[_BatchNorm]) -> Iterator[None]:
    """Normalize by the statistics of each batch within the block, without changing the running ones."""
    for layer in layers:
        layer.training, layer.track_running_stats = True, False
    try:
        yield
    finally:
        for layer in layers:
            layer.training, layer.track_running_stats = False, True
