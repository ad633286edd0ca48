"""What is examined: an attribution, the problem that it answers, and how to ask again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from nbdebug.attribution.attribute import one_engine, result
from nbdebug.attribution.engines import ENGINES
from nbdebug.attribution.prepare import caller
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import Array, Attribution
from nbdebug.attribution.trust.cells import Cells, cells_of
from nbdebug.attribution.trust.orders import Orders, orders
from nbdebug.exceptions import SetupError

SIZES: dict[str, Callable[[Array], Array]] = {"saliency": np.abs, "gradcam": lambda one: np.maximum(one, 0)}


@dataclass
class Case:
    """One examination; ``options`` are those that ``found`` was found with."""

    problem: Problem
    found: Attribution
    options: Mapping[str, Any] = field(default_factory=dict)
    patience: float = 30.0

    @cached_property
    def cells(self) -> Cells:
        """What is compared; raises SetupError where there is nothing to compare."""
        cells = cells_of(self.problem, self.found)
        if cells.count < 2:
            raise SetupError("there is one number only; expected several, which have an order.")
        return cells

    @cached_property
    def values(self) -> Array:
        """The attributions of the cells, samples × cells; raises SetupError where all are equal."""
        values = self.cells.summed(self.found)
        if not np.ptp(values, axis=1).any():
            raise SetupError("all attributions are equal; expected an order.")
        return values

    @cached_property
    def orders(self) -> Orders:
        """What the cells contribute in random orders."""
        return orders(self.problem, self.cells, self.patience / 6)

    def again(self, problem: Problem, method: str | None = None) -> Array:
        """What an engine, this one without ``method``, finds in the cells of a problem."""
        name = method or self.found.method
        found = one_engine(problem, name, {} if method else dict(self.options))
        return self.cells.summed(result(problem, name, found, "the given classes", 0.0))

    def afford(self, times: int) -> int:
        """How often the engine is asked again, at most so many times; raises SetupError where once takes too long."""
        there = int(self.patience / 2 / max(self.found.seconds, 1e-3))
        if there < 1:
            raise SetupError(
                f"{self.found.method} took {self.found.seconds:.0f} s, and would be asked again; expected less than "
                f"{self.patience / 2:.0f} s. Pass patience=."
            )
        return min(times, there)

    def of(self, model: nn.Module) -> Problem:
        """The same problem of another model."""
        return replace(self.problem, model=model, call=caller(self.problem.given, model), parts=[])

    def rival(self, other: str | None) -> tuple[str, Array]:
        """Another engine in words, and what it finds; for random orders it is gradients, or one cell at a time."""
        if other is not None and other not in ENGINES:
            raise SetupError(f"other is {other!r}; expected {', '.join(ENGINES)}. Choose one.")
        if other is None and self.found.method in ("shapley", "permutation"):
            other = "quick" if isinstance(self.problem.model, nn.Module) else "occlusion"
        if other is not None:
            return other, self.alike(self.again(self.problem, other))
        return "random orders of what is exchanged (Shapley values by sampling)", self.alike(self.orders.values)

    def alike(self, other: Array) -> Array:
        """The other's numbers in the form of these: sizes for saliency, what speaks for the class for Grad-CAM."""
        change = SIZES.get(self.found.method)
        return other if change is None else change(other)
