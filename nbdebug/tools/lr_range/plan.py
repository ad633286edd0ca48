"""What is asked of a range test, refused where it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.setup.training import as_optimizers
from nbdebug.tools.lr_range.dial import Groups
from nbdebug.tools.lr_range.result import Mode, Quantity

Make = Callable[[Iterable[torch.Tensor]], Optimizer]
FEWEST_STEPS, MOST_STEPS = 10, 10_000
MOST_SEEDS = 20
FEWEST_CONFIRMING = 20
DEFAULT = torch.optim.Adam  # its own rate is the most usual one, and it is the one that forgives most


@dataclass(frozen=True)
class Plan:
    """The values of a sweep, how often it is made, and how a step is made.

    ``confirm`` is how long to train at the recommended rate and below it afterwards, in steps; 0 is not at all.
    """

    quantity: Quantity = "lr"
    start: float = 1e-7
    end: float = 10.0
    steps: int = 100
    seeds: int = 3
    mode: Mode = "exp"
    val: bool = False
    groups: Groups = "scale"
    accumulate: int = 1
    max_norm: float | None = None
    confirm: int = 0

    def __post_init__(self) -> None:
        """Refuses what cannot be swept."""
        whole("steps", self.steps, FEWEST_STEPS, MOST_STEPS)
        whole("seeds", self.seeds, 1, MOST_SEEDS)
        whole("accumulate", self.accumulate, 1, MOST_STEPS)
        one_of("mode", self.mode, ("exp", "linear"))
        one_of("groups", self.groups, ("scale", "same"))
        for name, value in (("start", self.start), ("end", self.end)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
                raise SetupError(f"{name} is {value!r}; expected a number of at least 0. Leave it out for the default.")
        if self.start >= self.end:
            raise SetupError(f"start is {self.start:g}; expected less than end, {self.end:g}. Swap them.")
        if self.mode == "exp" and self.start == 0:
            raise SetupError("start is 0; expected more in mode 'exp'. Give a small number, or mode='linear'.")
        if self.quantity == "momentum" and self.end >= 1:
            raise SetupError(f"end is {self.end:g}; expected a momentum below 1. Give 0.99.")
        if self.max_norm is not None and not self.max_norm > 0:
            raise SetupError(f"max_norm is {self.max_norm!r}; expected more than 0. Leave it out to clip nothing.")
        if self.confirm != 0 or isinstance(self.confirm, bool):
            whole("confirm", self.confirm, FEWEST_CONFIRMING, MOST_STEPS)
        if self.confirm and self.quantity != "lr":
            raise SetupError(f"confirm is {self.confirm}; expected 0 for a {self.quantity}. Leave it out.")

    @property
    def values(self) -> tuple[float, ...]:
        """The values in order, both ends among them."""
        spaced = np.geomspace if self.mode == "exp" else np.linspace
        return tuple(spaced(self.start, self.end, self.steps).tolist())


def whole(name: str, value: Any, least: int, most: int) -> None:
    """Refuses what is no whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        said = f"{name} is {value!r}; expected a whole number from {least} to {most}."
        raise SetupError(f"{said} Leave it out for the default.")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuses an unknown word."""
    if value not in known:
        raise SetupError(f"{name} is {value!r}; expected one of {', '.join(known)}. Leave it out for {known[0]!r}.")


def chosen(setup: Setup, given: Any) -> tuple[tuple[Optimizer, ...], bool, str]:
    """The optimizers to sweep, whether they are the user's own, and what is to be said of them.

    ``given`` is an optimizer, a list of them, or what makes one of the parameters, such as a class; without it those of
    the set-up are taken, and without those Adam over all that requires a gradient.
    """
    made = isinstance(given, type) or (callable(given) and not isinstance(given, Optimizer))
    found = () if made else as_optimizers(given) or setup.optimizers
    if found:
        return found, True, ""
    trainable = [p for p in setup.eager.parameters() if p.requires_grad]
    if not trainable:
        raise SetupError("model has no parameter that requires a gradient; expected one. Unfreeze a layer.")
    make: Make = given if made else DEFAULT
    name = getattr(make, "__name__", type(make).__name__)
    why = "as given" if made else "no optimizer was given"
    return as_optimizers(make(trainable)), False, f"{name} was swept: {why}"
