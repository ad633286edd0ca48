"""Gradients, weights and updates around the steps of the optimizers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from nbdebug.numbers import Sampler, squared_norm
from nbdebug.replay.pulse import SMALL
from nbdebug.watching.extremes import Extremes, largest
from nbdebug.watching.look import Look
from nbdebug.watching.places import Places
from nbdebug.watching.recorder import Number, kept

COMPARED, SELDOM = 32, 16  # so many steps are compared, and later ones at such distances


def root(square: Number) -> Number:
    """The square root of a number that may lie on a device."""
    return square.sqrt() if isinstance(square, Tensor) else math.sqrt(square)


def either(before: list[bool], now: list[bool]) -> list[bool]:
    """What is true of one of them; lists, since numpy's code is in no cache right after a backward pass."""
    return [a or b for a, b in zip(before, now, strict=True)] if before else now


class Strides:
    """Gathers samples of what each optimizer holds, before and after its steps.

    ``look`` is what is gathered of this step in full, or None; of the others only the norm of the gradients is kept,
    as ``square``. ``open`` is a look whose step is done and whose weights are still to be gathered, ``left`` are those
    of the last one; each with how often the weights had been written to then. ``changed`` says whether they were seen
    to change between steps, ``all`` whether the whole model is watched.
    """

    def __init__(self, watched: Places, sampler: Sampler) -> None:
        self.sampler, self.parameters = sampler, list(watched.parameters.values())
        self.known: dict[tuple[int, ...], list[bool]] = {}
        self.extremes = Extremes(sampler.lengths.tolist(), int(sampler.sizes.max(initial=0)))
        small = next((length for length in sampler.lengths if length <= SMALL), math.inf)
        self.tells = sampler.home.type == "cpu" and small <= sampler.sizes.max(initial=0)
        self.all = watched.match is None and not watched.left_out
        self.look: Look | None = None
        self.square: Number | None = None
        self.open: tuple[Look, list[int]] | None = None
        self.left: tuple[int, list[int], Tensor] | None = None
        self.changed = False

    def held(self, optimizer: torch.optim.Optimizer | None) -> list[bool]:
        """Which parameters an optimizer steps on; all of them where there is none."""
        if optimizer is None:
            return [True] * len(self.parameters)
        key = (id(optimizer), *[len(group["params"]) for group in optimizer.param_groups])
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
        there = [one is not None for one in found]
        if look is None or True not in there:
            return
        values, number = self.sampler.gather(found), self.extremes.number
        factor = scale.to(values) if isinstance(scale, Tensor) else None
        if factor is not None:
            values = values / factor
        if number is not None and (one := found[number]) is not None:
            most = largest(one)
            look.largest["gradient", number] = most if factor is None else most / factor.to(most)
        look.gradients = values if look.gradients is None else look.gradients + values
        look.there = either(look.there, there)

    @property
    def finite(self) -> bool | None:
        """True where the gradients are known to be finite; None where they are not, or are on a device.

        Samples tell it where they hold all of a gradient that ``Pulse`` may look at. What is watched of a part of the
        model tells nothing: a backward pass that breaks leaves the layers behind the break as they are.
        """
        if not self.all:
            return None
        total, look = self.square, self.look
        if total is None and self.tells and look is not None and look.gradients is not None:
            total = look.gradients.sum().item()
        return True if isinstance(total, float) and math.isfinite(total) else None

    def before(self) -> None:
        """Gathers the weights, unless another optimizer has begun the same step.

        Those that the step before has left are not gathered again in a loop that writes to no ``.data`` between steps,
        which torch does not count: that is seen by comparing, at first always and later now and then.
        """
        self.settle()
        look = self.look
        if look is None or look.before is not None:
            return
        before, writes, left = self.left or (0, [], None)
        if left is None or before != look.step - 1:
            look.before = self.sampler.gather(self.parameters)
        elif self.changed or writes != self.writes or is_compared(look.step):
            look.before = self.sampler.gather(self.parameters)
            self.changed |= not torch.equal(look.before, left)
        else:
            look.before = left

    @property
    def writes(self) -> list[int]:
        """How often each parameter was written to."""
        return [one._version for one in self.parameters]

    def after(self, optimizer: torch.optim.Optimizer | None, next_too: bool = False) -> None:
        """Gathers the weights that a step has left: as the next one begins, where that is looked at too.

        There, right after the gather of the gradients, it takes half the time that it takes right after a step.
        """
        if (look := self.look) is None:
            return
        if (number := self.extremes.number) is not None:
            look.largest["weight", number] = largest(self.parameters[number])
        look.moved = either(look.moved, self.held(optimizer))
        self.open = look, self.writes
        if not next_too or self.changed or is_compared(look.step + 1):
            self.settle()

    def settle(self) -> None:
        """Gathers the weights for the look that waits for them; it has none if they were written to since its step."""
        if self.open is None:
            return
        (look, writes), self.open = self.open, None
        if writes != self.writes:
            self.changed, look.before = True, None
            return
        look.after = self.sampler.gather(self.parameters)
        self.left = look.step, writes, look.after


def is_compared(step: int) -> bool:
    """Whether the weights that a step begins with are compared to those that the one before has left."""
    return step <= COMPARED or step % SELDOM == 0
