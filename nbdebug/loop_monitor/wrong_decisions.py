"""Predictions that a loop compares with its targets and that are not the decisions that its loss trains."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.setup.losses import LossKind
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tensors.pytree import tree_tensors

_COMPARISONS, _EXPORTS = {"eq", "ne"}, {"numpy", "array", "tolist"}
_MIN_ROWS, _MIN_USES, _MAX_VALUES = 8, 2, 50_000
DecisionKind = Literal["correct", "rounded", "threshold", "lowest", "batch softmax", "scores"]
_Decisions = dict[DecisionKind, Tensor]


@dataclass(frozen=True)
class WrongDecision:
    """Predictions of a ``kind``, made on a line, of which ``different`` of ``rows`` are not what the loss trains.

    "threshold" are logits above 0.5, "rounded" are rounded logits, "lowest" are the classes of the lowest score, "batch
    softmax" are classes of a softmax over the batch, and "scores" are scores that are compared with class indices.
    """

    line: SourceLine
    kind: DecisionKind
    rows: int
    different: int


@dataclass(frozen=True)
class TwoValuedDecisions:
    """The decisions of two values in the latest evaluation: ``equal`` of ``rows`` equal their target.

    ``correlation`` is that of decisions and targets, the phi coefficient: -1 if all are the opposite.
    """

    rows: int
    equal: int
    correlation: float
    line: SourceLine | None


class TwoValuedDecisionCounter:
    """Counts decisions of two values that a loop compares with targets of the same two values, in each evaluation.

    They are recognized by their values: one operand is a tensor of the batch, and the other one is not.
    """

    def __init__(self) -> None:
        self.latest: TwoValuedDecisions | None = None
        self.steps = 0
        self.compared: list[Tensor] = []
        self.clear()

    def clear(self) -> None:
        """Start to count again, as when an evaluation begins."""
        self.table = torch.zeros(2, 2)
        self.values: list[float] = []
        self.line: SourceLine | None = None
        self.targets: list[Tensor] = []

    def on_comparison(self, left: Any, right: Any) -> None:
        """Count the rows of a comparison; one call of the user's may arrive several times."""
        for decisions, target in ((left, right), (right, left)):
            is_pair = type(decisions) is type(target) is Tensor and decisions.shape == target.shape
            if is_pair and self.is_target(target) and not self.is_target(decisions):
                if not any(decisions is compared for compared in self.compared):
                    self.compared.append(decisions)
                    self.count(decisions, target)
                return

    def is_target(self, values: Tensor) -> bool:
        """Check whether a tensor has the values of one of the batch."""
        return any(values.shape == target.shape and bool(torch.eq(values, target).all()) for target in self.targets)

    def count(self, decisions: Tensor, target: Tensor) -> None:
        """Add the rows of one batch."""
        values = torch.cat([decisions.flatten(), target.flatten()]).unique().tolist()  # type: ignore[no-untyped-call]
        self.values = sorted({*self.values, *values})
        if len(self.values) == 2:
            self.line = self.line or get_calling_line(sys._getframe(1))
            for row in (0, 1):
                is_row = torch.eq(decisions, self.values[row])
                for column in (0, 1):
                    both = torch.logical_and(is_row, torch.eq(target, self.values[column]))
                    self.table[row, column] += int(both.sum())

    def on_forward_begin(self, steps: int) -> None:
        """Start to count again if the loop has made steps since the last pass, and keep what was counted."""
        self.compared, self.targets = [], []
        if steps != self.steps:
            self.steps = steps
            if self.values:  # something was counted
                self.latest = self.summary()
                self.clear()

    def summary(self) -> TwoValuedDecisions | None:
        """Return the decisions of the latest evaluation; None if they or the targets are all the same."""
        if not bool(self.table.any()):
            return self.latest
        sums = torch.cat([self.table.sum(0), self.table.sum(1)]).double()
        if len(self.values) != 2 or not bool(sums.all()):
            return None
        correlation = float(torch.linalg.det(self.table.double()) / sums.prod().sqrt())
        return TwoValuedDecisions(int(self.table.sum()), int(self.table.trace()), correlation, self.line)


@dataclass
class _Uses:
    """The comparisons and exports of predictions of one kind that were made on one line."""

    count: int = 0
    rows: int = 0
    different: int = 0


class WrongDecisionCounter:
    """Recognizes predictions by their values, whatever computes them.

    They count if they equal a wrong decision but not the correct one, for all rows of a batch or of an evaluation.
    Wrong decisions that are all the same, or equal the targets, are left out: other tensors have these values too.
    A line that also makes correct ones is not reported, unless both are the same for that batch.
    """

    def __init__(self, get_loss_kind: Callable[[], LossKind]) -> None:
        self.get_loss_kind = get_loss_kind
        self.uses: dict[tuple[SourceLine, DecisionKind], _Uses] = {}
        self.refuted: set[tuple[SourceLine, DecisionKind]] = set()
        self.clear()

    def clear(self) -> None:
        """Forget the batches of an evaluation."""
        self.scores: list[Tensor] = []
        self.targets: list[Tensor] = []
        self.decisions: dict[int, tuple[Tensor, _Decisions] | None] = {}
        self.makers: dict[DecisionKind, SourceLine] = {}

    def start(self, scores: Tensor, targets: list[Tensor], is_new_phase: bool) -> None:
        """Record the scores of a pass of an evaluation, and the tensors of its batch."""
        if is_new_phase or sum(values.numel() for values in self.scores) > _MAX_VALUES:
            self.clear()
        self.decisions = {}
        fitting = [values for values in targets if values.dim() and _class_axes(scores, values)]
        if scores.numel() <= _MAX_VALUES and fitting and fitting[-1].numel() >= _MIN_ROWS:
            self.scores.append(scores.detach().cpu())
            self.targets.append(fitting[-1].cpu())

    def record(
        self, function: Any, args: tuple[Any, ...], result: Any, get_line: Callable[[], SourceLine | None]
    ) -> None:
        """Record a call of the evaluation after a pass: it may make predictions, compare or export them."""
        name = str(getattr(function, "__name__", "")).strip("_")
        if name in _EXPORTS:
            self.count(args[0], get_line)
        elif name in _COMPARISONS and len(args) > 1:
            for values, other in (args[:2], args[1::-1]):
                if self.is_target(other):
                    self.count(values, get_line)
        elif outputs := tree_tensors(result):
            kind = self.find_kind(outputs[-1])
            if kind and kind not in self.makers and (line := get_line()):
                self.makers[kind] = line

    def count(self, values: Any, get_line: Callable[[], SourceLine | None]) -> None:
        """Count the use of some predictions."""
        kind = self.find_kind(values)
        line = (self.makers.get(kind) or get_line()) if kind else None
        decided = self.decide(values.numel()) if kind else None
        decisions = decided[1] if decided else {}
        if kind == "correct" and line:
            self.refuted |= {(line, other) for other in decisions if not torch.equal(decisions[other], decisions[kind])}
        elif kind and line:
            correct = decisions["correct"]
            uses = self.uses.setdefault((line, kind), _Uses())
            uses.count += 1
            uses.rows += len(correct)
            uses.different += int((_on_host(values) != correct).sum())

    def is_target(self, values: Any) -> bool:
        """Check whether a tensor has the values of the targets."""
        decided = self.decide(values.numel()) if isinstance(values, Tensor) else None
        return decided is not None and torch.equal(_on_host(values), decided[0])

    def find_kind(self, values: Any) -> DecisionKind | None:
        """Return the kind of decision that some values are; None if they are no decision."""
        decided = self.decide(values.numel()) if type(values) is Tensor and not values.requires_grad else None
        if decided is None:
            return None
        flat = _on_host(values)
        return next((kind for kind, decision in decided[1].items() if torch.equal(flat, decision)), None)

    def decide(self, size: int) -> tuple[Tensor, _Decisions] | None:
        """Return the targets and the decisions of the latest batch, or of all batches, by their number."""
        if size not in self.decisions:
            batches = (self.scores[-1:], self.targets[-1:]), (self.scores, self.targets)
            fitting = [item for item in batches if size and sum(values.numel() for values in item[1]) == size]
            self.decisions[size] = self._decide(*fitting[-1]) if fitting else None
        return self.decisions[size]

    def _decide(self, scores: list[Tensor], targets: list[Tensor]) -> tuple[Tensor, _Decisions]:
        kind = self.get_loss_kind()
        batches = [dict(_decisions(batch, target, kind)) for batch, target in zip(scores, targets, strict=True)]
        kinds = [kind for kind in batches[0] if all(kind in batch for batch in batches)]
        joined = {kind: torch.cat([batch[kind].flatten().double() for batch in batches]) for kind in kinds}
        flat_targets = torch.cat([target.flatten().double() for target in targets])
        known = {k: v for k, v in joined.items() if k == "correct" or (_varies(v) and not torch.equal(v, flat_targets))}
        return flat_targets, known

    def summary(self) -> tuple[WrongDecision, ...]:
        """Return the lines that always made decisions of a wrong kind, each with its most frequent kind."""
        by_line: dict[SourceLine, WrongDecision] = {}
        for (line, kind), uses in sorted(self.uses.items(), key=lambda item: item[1].count):
            if uses.count >= _MIN_USES and (line, kind) not in self.refuted:
                by_line[line] = WrongDecision(line, kind, uses.rows, uses.different)
        return tuple(by_line.values())


def _on_host(values: Tensor) -> Tensor:
    """Return values of any device in the form in which decisions are compared."""
    return values.detach().flatten().cpu().double()


def _varies(values: Tensor) -> bool:
    return bool((values != values[0]).any())


def _class_axes(scores: Tensor, target: Tensor) -> list[int]:
    """Return the axes of the scores that a class of each target may run along; the batch axis if there is none."""
    if scores.numel() == target.numel():
        return [0]
    return [
        axis
        for axis in range(1, scores.dim())
        if scores.shape[axis] > 1 and (*scores.shape[:axis], *scores.shape[axis + 1 :]) == tuple(target.shape)
    ]


def _decisions(scores: Tensor, target: Tensor, loss_kind: LossKind) -> Iterator[tuple[DecisionKind, Tensor]]:
    """Yield the correct decision first, then wrong ones; nothing if the loss is not known."""
    axis = _class_axes(scores, target)[0]
    if axis and loss_kind in ("cross-entropy", "nll") and not target.is_floating_point():
        yield "correct", scores.argmax(axis)
        yield "lowest", scores.argmin(axis)
        yield "scores", scores.amax(axis)
        if scores.dim() == 2:
            yield "batch softmax", scores.softmax(0).argmax(1)
    elif not axis and loss_kind == "bce-with-logits":
        yield "correct", scores > 0
        yield "threshold", scores > 0.5
        yield "rounded", scores.round()
