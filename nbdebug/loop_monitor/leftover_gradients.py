"""Gradients that the loss of one optimizer leaves in the parameters of another one, which then steps with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from nbdebug.loop_monitor.gradient_accumulation import GradientVersions, TrackedOptimizer
from nbdebug.source.location import SourceLine, get_calling_line

_MAX_PASSES = 64  # backward passes whose graphs are read


@dataclass(frozen=True)
class LeftoverGradients:
    """Steps of one optimizer whose gradients included those of a loss that another optimizer had already minimized.

    These are ``steps`` of the ``checked_steps``. The backward pass on ``foreign_line`` left the gradients in the
    ``parameters``, that on ``line`` added to them, and the step is on ``step_line``.
    """

    steps: int
    checked_steps: int
    parameters: frozenset[str]
    foreign_line: SourceLine | None
    line: SourceLine | None
    step_line: SourceLine | None


@dataclass
class _Pass:
    """A backward pass: its number and line, and the optimizers whose gradients it added to, by their identities.

    ``applications`` are pairs of optimizers: parameters of the first one are applied to what those of the second one
    computed. ``minimized_at`` holds the number of passes when an optimizer stepped with the gradients of this one.
    """

    number: int
    line: SourceLine | None
    applications: set[tuple[int, int]]
    changed: set[int] = field(default_factory=set)
    minimized_at: dict[int, int] = field(default_factory=dict)

    def is_foreign_to(self, optimizer: int, own: _Pass) -> bool:
        """Return whether another optimizer stepped with this pass before an ``own`` pass, which does not reach it.

        The loss of this pass must take what the other optimizer's parameters compute through those of ``optimizer``.
        A trunk with several heads is no such case: it is meant to sum the gradients of their losses.
        """
        return any(
            number < own.number
            and other not in own.changed
            and (optimizer, other) in self.applications
            and (other, optimizer) not in self.applications
            for other, number in self.minimized_at.items()
        )


@dataclass
class _LeftoverCounts:
    checked: int = 0
    leftover: int = 0
    lines: tuple[SourceLine | None, SourceLine | None, SourceLine | None] = (None, None, None)


class LeftoverGradientMonitor:
    """Follows which backward passes the gradients of each optimizer hold, if a loop has several optimizers."""

    def __init__(self, optimizers: Mapping[int, TrackedOptimizer]) -> None:
        self._optimizers, self._passes = optimizers, 0
        self._current: _Pass | None = None
        self._versions: dict[int, GradientVersions] = {}
        self._held: dict[int, list[_Pass]] = {}
        self._counts: dict[int, _LeftoverCounts] = {}

    def on_backward_begin(self, roots: Sequence[Tensor]) -> None:
        """Read the graph of a loss, and forget the passes whose gradients have been cleared."""
        self._current = None
        if len(self._optimizers) < 2 or self._passes >= _MAX_PASSES:
            self._held.clear()
            return
        for key in [*self._held]:
            if key not in self._optimizers or not self._optimizers[key].has_gradients:
                del self._held[key]
        self._passes += 1
        owners = {id(p): key for key, tracked in self._optimizers.items() for p in tracked.parameters}
        applications = {pair for root in roots if root.grad_fn for pair in _find_applications(root.grad_fn, owners)}
        self._current = _Pass(self._passes, get_calling_line(sys._getframe(1)), applications)
        self._versions = {key: GradientVersions(tracked.parameters) for key, tracked in self._optimizers.items()}

    def on_backward_end(self) -> None:
        """Add the pass to those whose gradients the optimizers hold."""
        current, self._current = self._current, None
        if current is None:
            return
        current.changed.update(key for key, versions in self._versions.items() if versions.have_changed)
        self._versions.clear()
        for key in current.changed:
            self._held.setdefault(key, []).append(current)

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Check which passes the gradients of a step hold."""
        key = id(tracked.optimizer)
        passes = self._held.pop(key, [])
        for backward_pass in passes:
            backward_pass.minimized_at[key] = self._passes
        if not passes:
            return
        counts = self._counts.setdefault(key, _LeftoverCounts())
        counts.checked += 1
        pairs = ((first, own) for first in passes for own in passes if first.is_foreign_to(key, own))
        if pair := next(pairs, None):
            counts.leftover += 1
            counts.lines = (pair[0].line, pair[1].line, get_calling_line(sys._getframe(1)))

    def summary(self, model: nn.Module) -> LeftoverGradients | None:
        """Return the counts of the optimizer with the most such steps; None if there are none."""
        key = max(self._counts, key=lambda key: self._counts[key].leftover, default=None)
        if key is None or key not in self._optimizers or not self._counts[key].leftover:
            return None
        held_ids = {id(parameter) for parameter in self._optimizers[key].parameters}
        names = frozenset(name for name, parameter in model.named_parameters() if id(parameter) in held_ids)
        counts = self._counts[key]
        return LeftoverGradients(counts.leftover, counts.checked, names, *counts.lines)


def _find_applications(root: Any, owners: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of owners: a function of a graph takes a parameter of the first, and a value made by the second.

    Keeps no reference to the graph, so that it can be freed.
    """
    below: dict[Any, frozenset[int]] = {}
    pending = [root]
    while pending:
        node = pending[-1]
        children = [child for child, _ in node.next_functions if child is not None]
        if missing := [child for child in children if child not in below]:
            pending += missing
            continue
        pending.pop()
        own = owners.get(id(getattr(node, "variable", None)))
        below[node] = frozenset() if own is None else frozenset({own})
        below[node] = below[node].union(*(below[child] for child in children))
        direct = {owner for child in children if (owner := _parameter_owner(child, owners)) is not None}
        yield from ((first, second) for first in direct for second in below[node] if first != second)


def _parameter_owner(node: Any, owners: Mapping[int, int]) -> int | None:
    """Return the owner of a parameter that a node passes on, as it is, transposed or in another type."""
    while len(node.next_functions) == 1 and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return owners.get(id(getattr(node, "variable", None)))
