"""What is to be explained: a model as a function of the parts of its input, with the samples and the background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.explain.chunks import Chunks
from nbdebug.explain.given import count, inputs_of, with_leaves
from nbdebug.explain.parts import Part, replaced
from nbdebug.explain.scores import Scored, table
from nbdebug.setup import Batch

Array = Any


@dataclass
class Problem:
    """Samples, what they are compared with, and ``call(batch)``, which gives the model's output.

    ``parts`` is empty for a black box. ``outputs`` are those of the samples, samples × outputs.
    """

    model: Any
    call: Callable[[Batch], Any]
    batch: Batch
    background: Batch | None
    score: Callable[[Any], Any] | None = None
    labels: Any = None
    rows: int | None = None
    names: tuple[list[str] | None, list[str] | None] = (None, None)
    notes: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    outputs: Tensor = field(default_factory=lambda: torch.zeros(0))
    scored: Scored = None  # type: ignore[assignment]

    @property
    def size(self) -> int:
        """The number of samples."""
        return count(self.batch)

    @property
    def module(self) -> nn.Module:
        """The model as a module; raises SetupError where it is none."""
        if not isinstance(self.model, nn.Module):
            raise SetupError(f"model is a {type(self.model).__name__}; expected a torch.nn.Module.")
        return self.model

    @property
    def home(self) -> torch.device:
        """Where the samples are."""
        return next(leaf.device for _, leaf in inputs_of(self.batch) if isinstance(leaf, Tensor))

    def chunks(self) -> Chunks:
        """How many rows of these inputs go through the model at once."""
        values = sum(leaf[0].numel() for _, leaf in inputs_of(self.batch) if isinstance(leaf, Tensor) and leaf.dim())
        values = max([values, sum(part.values[0].numel() for part in self.parts)])
        return Chunks(values, self.home, self.rows)

    def run(self, batch: Batch) -> Tensor:
        """The outputs of a batch, rows × outputs."""
        return table(self.call(batch), count(batch), self.score)

    def all_outputs(self, batch: Batch) -> Tensor:
        """The outputs of a batch of any length, without gradients."""
        found: list[Tensor] = []

        def work(start: int, stop: int) -> None:
            with torch.no_grad():
                found.append(self.run(cut(batch, torch.arange(start, stop))).detach().clone())

        self.chunks().over(count(batch), work)
        return torch.cat(found)

    def at(self, points: list[Tensor], owners: Tensor) -> Tensor:
        """The outputs of rows: ``points`` stand for the parts, everything else is that of the sample in ``owners``.

        The model gets copies, since it may write into what it is given.
        """
        changed: dict[int, Any] = {}
        for number, (_, leaf) in enumerate(inputs_of(self.batch)):
            if isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == self.size:
                changed[number] = None if self.is_real(number) else leaf.index_select(0, owners)
        copies = [point.clone() for point in points]
        for part, point in zip(self.parts, copies, strict=True):
            if part.call is None:
                changed[part.leaf] = point
        with replaced(self.parts, copies):
            return table(self.call(with_leaves(self.batch, changed)), len(owners), self.score)

    def is_real(self, leaf: int) -> bool:
        """Whether a leaf of the inputs is a part itself."""
        return any(part.leaf == leaf and part.call is None for part in self.parts)

    @property
    def alone(self) -> bool:
        """Whether the parts are all that differs between samples, so that the background's scores serve them all."""
        return all(
            self.is_real(number) or not isinstance(leaf, Tensor) or not leaf.dim() or len(leaf) != self.size
            for number, (_, leaf) in enumerate(inputs_of(self.batch))
        )

    def values(self, points: list[Tensor], owners: Tensor) -> Tensor:
        """The explained number of each row."""
        return self.scored.of(self.at(points, owners), owners)

    def gradients(self, points: list[Tensor], owners: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """The explained number of each row, and its gradients by the parts; None where none arrives."""
        points = [point.detach().requires_grad_() for point in points]
        score = self.values(points, owners)
        if not score.requires_grad:
            return score, [None] * len(points)
        return score.detach(), list(torch.autograd.grad(score.sum(), points, allow_unused=True))


def cut(batch: Batch, rows: Tensor) -> Batch:
    """Some samples of a batch, copied; leaves without a row for each sample stay."""
    size = count(batch)
    changed = {
        number: leaf.detach().index_select(0, rows.to(leaf.device))
        for number, (_, leaf) in enumerate(inputs_of(batch))
        if isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == size
    }
    return with_leaves(batch, changed)
