"""A sample's path through the layers, beside the samples of its class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.inside.channels import beside
from nbdebug.inside.departure import departure
from nbdebug.inside.layers import Layer
from nbdebug.result import Told
from nbdebug.setup.names import class_name

Array = NDArray[Any]
MEASURES = ("root mean square", "mean", "share of zeros")


@dataclass(frozen=True)
class Path(Told):
    """What a sample is at each of its ``layers``, beside others; arrays have a row for each layer.

    ``sizes`` are the ``MEASURES`` of the sample, layers × 3, ``usual`` those of the others, samples × layers × 3.
    ``cosines`` to the means of ``classes`` are layers × classes, ``apart`` is the share of the others that look most
    like their own class there, each left out of its mean; NaN where there are none. ``labels`` are the classes of the
    others, ``counts`` how many of them each of the ``classes`` has.
    """

    layers: tuple[Layer, ...]
    sizes: Array = field(repr=False)
    usual: Array = field(repr=False)
    labels: Array | None = field(repr=False)
    classes: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    cosines: Array = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    apart: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    predicted: int | None = None
    truth: int | None = None
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def named(self, number: int) -> str:
        """The name of a class."""
        return class_name(self.class_names, number)

    def beside(self, number: int | None = None) -> tuple[Array, Array, int]:
        """Mean and standard deviation of the others at each layer, layers × 3, of a class or of all; and how many."""
        return beside(self.usual, self.labels, number)

    @property
    def readable(self) -> Array:
        """The layers that tell the classes apart by three standard errors more than chance, as many are looked at."""
        if not len(self.classes):
            return np.zeros(len(self.layers), bool)
        share, size = self.apart, max(sum(self.counts), 1)
        error = np.sqrt(np.maximum(share * (1 - share), 0.25 / size) / size)
        return np.asarray(share - 3 * error > 1 / len(self.classes))

    @property
    def nearest(self) -> list[int | None]:
        """The class that the sample looks most like at each layer; None where that cannot be read."""
        readable = self.readable
        return [
            self.classes[int(np.nanargmax(row))] if readable[at] and not np.isnan(row).all() else None
            for at, row in enumerate(self.cosines)
        ]

    @property
    def said(self) -> str:
        """Where the sample departs from its class, in words."""
        return departure(self)

    def __str__(self) -> str:
        """What is said, and one line a layer."""
        lines = [f"nbdebug path through {len(self.layers)} layers, beside {len(self.usual)} samples", f"  {self.said}"]
        for at, (layer, near) in enumerate(zip(self.layers, self.nearest, strict=True)):
            looks = "" if near is None else f"  looks like {self.named(near)} ({self.apart[at]:.0%} are told apart)"
            size, mean, zeros = self.sizes[at]
            lines.append(f"  {layer.title}: rms {size:.3g}, mean {mean:.3g}, zeros {zeros:.0%}{looks}")
        return "\n".join([*lines, *(f"  {one}" for one in self.notes)])
