"""How the size of the gradient changes from layer to layer of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.errors import NotChecked
from nbdebug.looks import Looks, Values, looks
from nbdebug.record import Record

LEAST_LAYERS = 4
TREND = 0.6  # correlation of the logarithm with depth


@dataclass(frozen=True)
class Depth:
    """The layers in order, with the decimal logarithm of each one's gradient norm, alone and over its weights' norm."""

    layers: tuple[str, ...]
    gradient: Values
    relative: Values

    @property
    def trend(self) -> float:
        """The correlation of the relative size with depth: near 1 where it shrinks towards the input."""
        ranks = np.arange(len(self.layers))
        return float(np.corrcoef(ranks, self.relative)[0, 1]) if np.ptp(self.relative) > 0 else 0.0


def depth(record: Record, least: int) -> Depth:
    """The layers that have a gradient and are no norm or embedding; raises NotChecked where there are too few.

    Weights and biases of a layer count together, since a layer that is drawn too small still hands a gradient to its
    bias, and one before a norm to its weight alone.
    """
    gradients, sizes = looks(record, "gradient.norm", least=least), looks(record, "weight.norm", least=least)
    owners = {one.name: one.parameters for one in record.modules if one.parameters and is_layer(one.kind)}
    found = [(name, own) for name, own in owners.items() if set(own) & set(gradients.places)]
    names = tuple(name for name, _ in found)
    pulls = np.array([together(gradients, own) for _, own in found])
    weights = np.array([together(sizes, own) for _, own in found])
    there = (pulls > 0) & (weights > 0) & np.isfinite(pulls) & np.isfinite(weights)
    if there.sum() < LEAST_LAYERS:
        raise NotChecked(f"{int(there.sum())} layers have a gradient; it takes {LEAST_LAYERS} to see a trend")
    logs = np.log10(pulls[there]), np.log10(pulls[there] / weights[there])
    return Depth(tuple(name for name, kept in zip(names, there, strict=True) if kept), *logs)


def is_layer(kind: str) -> bool:
    """Whether a module of a kind maps one layer to the next."""
    return "Norm" not in kind and "Embedding" not in kind


def together(signal: Looks, places: tuple[str, ...]) -> float:
    """The norm of several parameters as one: the median over the finite looks after the first ones."""
    values = signal.at(places).warm.values
    norms = np.sqrt(np.nansum(values**2, axis=1))
    norms = norms[np.isfinite(norms) & ~np.isnan(values).all(1)]
    return float(np.median(norms)) if len(norms) else float("nan")
