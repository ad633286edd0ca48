"""Gradients, weights and updates around the steps of the optimizers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.numbers import Sampler, squared_norm
from nbdebug.watching.extremes import Extremes, largest
from nbdebug.watching.look import Look
from nbdebug.watching.places import Places
from nbdebug.watching.recorder import Number, kept


def root(square: Number) -> Number:
    """The square root of a number that may lie on a device."""
    return square.sqrt() if isinstance(square, Tensor) else math.sqrt(square)


class Strides:
    """Gathers samples of what each optimizer holds, before and after its steps.

    ``look`` is what is gathered of this step in full, or None; of the others only the norm of the gradients is kept,
    as ``square``.
    """

    def __init__(self, watched: Places, sampler: Sampler) -> None:
        self.sampler, self.parameters = sampler, list(watched.parameters.values())
        self.known: dict[tuple[int, ...], list[bool]] = {}
        self.extremes = Extremes(sampler.lengths.tolist(), int(sampler.sizes.max(initial=0)))
        self.look: Look | None = None
        self.square: Number | None = None

    def held(self, optimizer: torch.optim.Optimizer | None) -> list[bool]:
        """Which parameters an optimizer steps on; all of them where there is none."""
        if optimizer is None:
            return [True] * len(self.parameters)
        key = (id(optimizer), *(len(group["params"]) for group in optimizer.param_groups))
        if key not in self.known:
            own = {id(p) for group in optimizer.param_groups for p in group["params"]}
            self.known[key] = [id(p) in own for p in self.parameters]
        return self.known[key]

    def found(self, optimizer: torch.optim.Optimizer | None) -> tuple[list[Tensor | None], Any]:
        """The gradients that an optimizer is about to use, and the factor of a scaled loss that is still in them."""
        pairs = zip(self.parameters, self.held(optimizer), strict=True)
        return [p.grad if mine else None for p, mine in pairs], getattr(optimizer, "grad_scale", None)

    def norm(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Takes the norm of all gradients, beside those of other optimizers."""
        found, scale = self.found(optimizer)
        given = [one for one in found if one is not None]
        if not given:
            return
        square = squared_norm(given, self.sampler.home)
        if isinstance(scale, Tensor):
            square = square / scale.to(square) ** 2
        self.square = kept(square) if self.square is None else self.square + kept(square)

    def gradients(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Gathers samples of the gradients that are there, beside those of other optimizers."""
        look, (found, scale) = self.look, self.found(optimizer)
        there = np.array([one is not None for one in found], bool)
        if look is None or not there.any():
            return
        values, number = self.sampler.gather(found), self.extremes.number
        factor = scale.to(values) if isinstance(scale, Tensor) else None
        if factor is not None:
            values = values / factor
        if number is not None and (one := found[number]) is not None:
            most = largest(one)
            look.largest["gradient", number] = most if factor is None else most / factor.to(most)
        look.gradients = values if look.gradients is None else look.gradients + values
        look.there = there if not look.there.size else look.there | there

    @property
    def finite(self) -> bool | None:
        """True where the gradients are known to be finite; None where they are not, or are on a device."""
        return True if isinstance(self.square, float) and math.isfinite(self.square) else None

    def before(self) -> None:
        """Gathers the weights, unless another optimizer has begun the same step."""
        if self.look is not None and self.look.before is None:
            self.look.before = self.sampler.gather(self.parameters)

    def after(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Gathers the weights that a step has left."""
        if self.look is not None:
            moved: NDArray[np.bool_] = np.array(self.held(optimizer), bool)
            self.look.after = self.sampler.gather(self.parameters)
            if (number := self.extremes.number) is not None:
                self.look.largest["weight", number] = largest(self.parameters[number])
            self.look.moved = moved if not self.look.moved.size else self.look.moved | moved
