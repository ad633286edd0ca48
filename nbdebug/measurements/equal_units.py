"""Layers whose units start with nearly equal weights, and what the model learns with newly initialized ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.short_trials import TrialPair, run_trials
from nbdebug.setup import Batch, Setup

_MAX_SHARE = 0.2  # of the root mean square of the weights, for what units differ by; 1 for independent weights
_MIN_UNITS, _MIN_VALUES = 3, 16
_STEPS = 100


@dataclass(frozen=True)
class EqualUnits:
    """The layers whose units start nearly equal, with the mean and the standard deviation of the weights of each.

    ``total`` is the number of layers with a weight matrix. The changed trial starts from newly initialized weights.
    The losses are those of a batch that is not trained on.
    """

    moments: dict[str, tuple[float, float]]
    total: int
    trials: TrialPair


@slow_measurement
def equal_units(setup: Setup, batches: list[Batch], budget: str) -> EqualUnits | None:
    """The layers whose units start with nearly equal weights, with two trials of a copy; None without any.

    Units differ by less than a fifth of the size of their weights. Equal ones are no part of this: they stay equal.
    """
    weights = dict(_layer_weights(setup.eager_model))
    moments = {
        path: (float(weight.mean()), float(weight.std())) for path, weight in weights.items() if _are_close(weight)
    }
    if not moments:
        return None
    trials = run_trials(setup, batches, _STEPS, budget, changed_from_new_weights=True, held_out=True, is_suspected=True)
    return EqualUnits(moments, len(weights), trials)


def _layer_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of the layers that can be initialized again, as a matrix with a row for each unit."""
    for path, module in model.named_modules():
        weight = getattr(module, "weight", None)
        is_layer = not isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and hasattr(module, "reset_parameters")
        if is_layer and isinstance(weight, nn.Parameter) and weight.dim() > 1 and weight.is_floating_point():
            yield path, weight.detach().float().flatten(1)


def _are_close(weight: Tensor) -> bool:
    """Return whether the rows of a matrix differ from their mean by little, and differ."""
    if len(weight) < _MIN_UNITS or weight.numel() < _MIN_VALUES:
        return False
    size, difference = (float(part.square().mean().sqrt()) for part in (weight, weight - weight.mean(0)))
    return 0 < difference < _MAX_SHARE * size < math.inf
