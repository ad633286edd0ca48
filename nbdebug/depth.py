"""How the size of the gradient changes from layer to layer of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.exceptions import NotChecked
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
    known = set(gradients.places)
    owners = [one for one in record.modules if known & set(one.parameters) and is_layer(one.kind)]
    names, own = tuple(one.name for one in owners), [one.parameters for one in owners]
    pulls, weights = together(gradients, own), together(sizes, own)
    there = (pulls > 0) & (weights > 0) & np.isfinite(pulls) & np.isfinite(weights)
    if there.sum() < LEAST_LAYERS:
        raise NotChecked(f"{int(there.sum())} layers have a gradient; it takes {LEAST_LAYERS} to see a trend")
    logs = np.log10(pulls[there]), np.log10(pulls[there] / weights[there])
    return Depth(tuple(name for name, kept in zip(names, there, strict=True) if kept), *logs)


def is_layer(kind: str) -> bool:
    """Whether a module of a kind maps one layer to the next."""
    return "Norm" not in kind and "Embedding" not in kind


def together(signal: Looks, groups: list[tuple[str, ...]]) -> Values:
    """The norm of each group of parameters as one: its median over the finite looks after the first ones."""
    flat = signal.at(name for group in groups for name in group).warm
    starts = np.cumsum([0, *(len(group) for group in groups)])[:-1]
    if not groups:
        return np.zeros(0)
    seen = np.add.reduceat(~np.isnan(flat.values), starts, axis=1, dtype=int) > 0
    norms = np.sqrt(np.add.reduceat(np.nan_to_num(flat.values, nan=0.0, posinf=np.inf) ** 2, starts, axis=1))
    kept = np.where(seen & np.isfinite(norms), norms, np.nan)
    return Looks(flat.steps, ("",) * len(groups), kept).median
