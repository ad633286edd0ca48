"""Match the tensors of two runs by their values, and find where the computations part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations

import numpy as np
from torch import Tensor

from nbdebug.tools.agreement.recording import RecordedTensor, Recording
from nbdebug.tools.agreement.tolerance import Deviation

_MAX_PERMUTED_AXES = 4
_MEAN_ROUNDING = 1e-9  # of a mean in double precision, with a margin


class ValueIndex:
    """Nodes by their size and mean value, so that a tensor is compared with the few that may have its values."""

    def __init__(self, nodes: Iterable[RecordedTensor]) -> None:
        self._by_size: dict[int, list[RecordedTensor]] = {}
        for node in nodes:
            self._by_size.setdefault(node.value.numel(), []).append(node)
        self._means = {size: np.array([_mean(node.value) for node in group]) for size, group in self._by_size.items()}

    def near(self, value: Tensor, tolerance_of: Callable[[RecordedTensor], Deviation]) -> list[RecordedTensor]:
        """Return the nodes whose mean is that of a tensor within their tolerance, in order."""
        nodes = self._by_size.get(value.numel(), [])
        if not nodes:
            return []
        limits = np.array([tolerance_of(node).typical for node in nodes])
        # Means differ by no more than the root mean square of the difference.
        distances = np.abs(self._means[value.numel()] - _mean(value))
        return [nodes[i] for i in np.flatnonzero(distances <= limits * (1 + _MEAN_ROUNDING) + _MEAN_ROUNDING)]


class Matching:
    """The node of the other run that has the value of each node of one run, within its tolerance.

    ``tolerance_of`` returns that of a node and a candidate; by default that of the node.
    """

    def __init__(
        self, first: Recording, second: Recording, tolerance_of: Callable[[RecordedTensor, RecordedTensor], Deviation]
    ) -> None:
        self.first, self.second, self._tolerance_of = first, second, tolerance_of
        self._index = ValueIndex([*second.nodes, *leaves(second)])
        self._partners: dict[int, RecordedTensor | None] = {}
        self._used: set[int] = set()
        for node in first.nodes:  # in order, so that equal tensors are matched in the order of execution
            self.partner(node)

    def partner(self, node: RecordedTensor) -> RecordedTensor | None:
        """Return the node of the other run with the same value, one that no other node has taken if possible."""
        if id(node) not in self._partners:
            partner = max(self.equals(node), key=lambda other: self._likeness(node, other), default=None)
            self._partners[id(node)] = partner
            if partner is not None:
                self._used.add(id(partner))
        return self._partners[id(node)]

    def equals(self, node: RecordedTensor) -> list[RecordedTensor]:
        """Return all nodes of the other run with the value of a node."""
        candidates = self._index.near(node.value, lambda other: self._tolerance_of(node, other))
        return [other for other in candidates if is_equal(node.value, other.value, self._tolerance_of(node, other))]

    def _likeness(self, node: RecordedTensor, other: RecordedTensor) -> tuple[bool, bool, bool]:
        """Return how well a node of equal value fits: not taken yet, of the same operation and shape."""
        return id(other) not in self._used, other.operation == node.operation, other.value.shape == node.value.shape

    def first_unmatched(self, output: RecordedTensor) -> RecordedTensor | None:
        """Return the first operation, among those that the output depends on, whose inputs match and result does not.

        Follows the inputs of results without a partner only: behind a result with one, both runs have agreed.
        """
        pending, seen, roots = [output], set[int](), []
        while pending:
            node = pending.pop()
            if id(node) in seen or node.is_leaf or self.partner(node) is not None:
                continue
            seen.add(id(node))
            unmatched = [source for source in node.inputs if not source.is_leaf and self.partner(source) is None]
            if unmatched:
                pending += unmatched
            else:
                roots.append(node)
        order = {id(node): number for number, node in enumerate(self.first.nodes)}
        return min(roots, key=lambda node: order.get(id(node), len(order)), default=None)

    def unmatched_parameter(self, node: RecordedTensor) -> str:
        """Return the parameter that an operation reads and that the other run has nowhere; empty if there is none."""
        names = [leaf.parameter for leaf in node.inputs if leaf.parameter and self.partner(leaf) is None]
        return names[0] if names else ""


def leaves(recording: Recording) -> Iterator[RecordedTensor]:
    """Yield the tensors that operations read and none computes, each once."""
    seen: set[int] = set()
    for node in recording.nodes:
        for leaf in node.inputs:
            if leaf.is_leaf and id(leaf) not in seen:
                seen.add(id(leaf))
                yield leaf


def _mean(value: Tensor) -> float:
    """Return the mean of the finite values."""
    return float(value.double().nan_to_num(0.0, 0.0, 0.0).mean()) if value.numel() else 0.0


def is_equal(first: Tensor, second: Tensor, limit: Deviation) -> bool:
    """Check whether two tensors have the same values within a tolerance, also with permuted or merged axes."""
    second = second.to(first.device)
    if first.shape == second.shape and not Deviation.between(first, second).exceeds(limit):
        return True
    if first.numel() != second.numel() or not _may_be_equal(first, second, limit):
        return False
    if first.shape != second.shape and not Deviation.between(first.flatten(), second.flatten()).exceeds(limit):
        return True
    if first.dim() != second.dim() or sorted(first.shape) != sorted(second.shape) or first.dim() > _MAX_PERMUTED_AXES:
        return False
    return any(
        second.permute(order).shape == first.shape
        and not Deviation.between(first, second.permute(order)).exceeds(limit)
        for order in permutations(range(first.dim()))
        if list(order) != sorted(order)
    )


def _may_be_equal(first: Tensor, second: Tensor, limit: Deviation) -> bool:
    """Check whether the sorted ends of two tensors agree, which no order of their elements changes."""
    one, other = first.double(), second.double()
    if not one.numel():
        return True
    ends = Deviation(max(abs(float(one.max() - other.max())), abs(float(one.min() - other.min()))), 0.0)
    return not ends.typical > limit.largest
