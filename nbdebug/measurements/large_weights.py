"""Models whose weights are large in every layer, and what they learn with newly initialized ones."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.finding import Location
from nbdebug.measurements.activations import SampleSpread
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.short_trials import TrialPair, run_trials
from nbdebug.setup import Batch, Setup

_MIN_GAIN = 4.0  # times 1/√fan_in: about three times the scale that suits ReLU
_STEPS = 100


@dataclass(frozen=True)
class LargeWeights:
    """The gains of the weights of all layers, the smallest of which is large, and the layer with the largest one.

    The changed trial starts from newly initialized weights. The losses are those of a batch that is not trained on.
    """

    gains: tuple[float, ...]
    where: Location
    trials: TrialPair


@slow_measurement
def large_weights(setup: Setup, sample_spread: SampleSpread, batches: list[Batch], budget: str) -> LargeWeights | None:
    """The gains of a model whose weights are large in every layer, with two trials of a copy; None for another."""
    layers = [(layer.gain, layer.where) for layer in sample_spread.passes[0].layers if layer.gain is not None]
    gains = tuple(gain for gain, _ in layers)
    if not gains or not all(gain > _MIN_GAIN for gain in gains):
        return None
    trials = run_trials(setup, batches, _STEPS, budget, changed_from_new_weights=True, held_out=True, is_suspected=True)
    return LargeWeights(gains, layers[gains.index(max(gains))][1], trials)
