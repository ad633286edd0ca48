"""What is to be explained: a model as a function of the parts of its input, with the samples and the background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.chunks import WIDER, Chunks
from nbdebug.attribution.given import count, inputs_of, with_leaves
from nbdebug.attribution.parts import Part, replaced
from nbdebug.attribution.rows import numbers_of, per_sample
from nbdebug.attribution.scores import Scored, table
from nbdebug.attribution.watch import passed
from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup


@dataclass
class Problem:
    """Samples, what they are compared with, and ``call(batch)``, which gives the model's output.

    ``parts`` is empty for a black box. ``outputs`` are those of the samples, samples × outputs. ``given`` is what the
    user gave as the model. ``kept`` are the numbers that a row keeps for its gradient, 0 before they were counted;
    ``room`` is that of memory, in rows.
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
    given: Any = None
    kept: int = 0
    room: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of samples."""
        return count(self.batch)

    @property
    def owned(self) -> tuple[Any, ...]:
        """What beside the model a run may change: what the user's set-up owns."""
        return self.given.owned if isinstance(self.given, Setup) else ()

    @property
    def scores(self) -> Tensor:
        """The explained number of each sample, float64, on the CPU."""
        everyone = torch.arange(self.size, device=self.home)
        return self.scored.of(self.outputs, everyone).detach().to("cpu", torch.float64)

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
        values = max(numbers_of(self.batch), sum(part.values[0].numel() for part in self.parts))
        return Chunks(self.kept or WIDER * values, self.home, self.rows, self.room)

    def run(self, batch: Batch) -> Tensor:
        """The outputs of a batch, rows × outputs."""
        return self.answered(batch, count(batch))

    def answered(self, batch: Batch, rows: int) -> Tensor:
        """What the model and ``score`` make of a batch; what goes wrong in them is told as what it is."""
        passed(rows)
        try:
            return table(self.call(batch), rows, self.score)
        except (RuntimeError, MemoryError, SetupError):
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:160]}"
            raise SetupError(
                f"the model raised {said} on {rows} rows; expected scores. Run model(x) on samples such as these."
            ) from error

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
            if per_sample(leaf, self.size):
                changed[number] = None if self.is_real(number) else leaf.index_select(0, owners)
        copies = [point.clone() for point in points]
        for part, point in zip(self.parts, copies, strict=True):
            if part.call is None:
                changed[part.leaf] = point
        with replaced(self.parts, copies):
            return self.answered(with_leaves(self.batch, changed), len(owners))

    def is_real(self, leaf: int) -> bool:
        """Whether a leaf of the inputs is a part itself."""
        return any(part.leaf == leaf and part.call is None for part in self.parts)

    @property
    def alone(self) -> bool:
        """Whether the parts are all that differs between samples, so that the background's scores serve them all."""
        return all(
            self.is_real(number) or not per_sample(leaf, self.size)
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
        if per_sample(leaf, size)
    }
    return with_leaves(batch, changed)
