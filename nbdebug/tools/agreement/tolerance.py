"""The tolerance of two tensors, measured by runs in which every result is perturbed by rounding noise.

This is Monte Carlo arithmetic (Parker, Pierce and Eggert 2000, doi:10.1109/5992.852391) at the level of operations:
each result, gradient, weight and input gets a relative error of the size of the rounding error of the coarsest type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.tools.agreement.recording import RecordedTensor, Recording

# The spread of a few runs underestimates the largest error, and a sum in another order makes an error in each term.
_SAFETY = 8.0
_TINY = 1e-300


def unit_roundoff(recordings: Iterable[Recording]) -> float:
    """Return the relative rounding error of the coarsest floating-point type that some runs compute with."""
    values = [node.value for recording in recordings for node in recording.nodes]
    dtypes = {value.dtype for value in values if value.is_floating_point() and value.numel()}
    return max((torch.finfo(dtype).eps / 2 for dtype in dtypes), default=torch.finfo(torch.float32).eps / 2)


class RoundingNoise:
    """Perturbs tensors by a relative error of up to ``roundoff``."""

    def __init__(self, roundoff: float, seed: int) -> None:
        self.roundoff, self.generator = roundoff, torch.Generator().manual_seed(seed)

    def __call__(self, tensor: Tensor) -> Tensor:
        """Return the tensor with noise; at least one step of its own type."""
        own = torch.finfo(tensor.dtype).eps / 2
        size = max(self.roundoff, own)
        noise = torch.rand(tensor.shape, generator=self.generator, dtype=torch.float32).to(tensor.device)
        return (tensor.double() * (1 + (2 * noise.double() - 1) * 2 * size)).to(tensor.dtype)


@dataclass(frozen=True)
class Deviation:
    """The root mean square and the largest element of a difference."""

    typical: float = 0.0
    largest: float = 0.0

    @classmethod
    def between(cls, first: Tensor, second: Tensor) -> Deviation:
        """Return the deviation between two tensors of equal shape; infinite where only one is not finite."""
        one, other = first.double(), second.double()
        is_same = (one == other) | (one.isnan() & other.isnan())
        difference = torch.where(is_same, 0.0, (one - other).abs()).nan_to_num(float("inf"), float("inf"))
        if not difference.numel():
            return cls()
        return cls(float(difference.square().mean().sqrt()), float(difference.max()))

    def exceeds(self, other: Deviation) -> bool:
        """Check whether this deviation is larger than a tolerance in either measure."""
        return self.typical > other.typical or self.largest > other.largest

    def ratio(self, other: Deviation) -> float:
        """Return how many times larger this deviation is than a tolerance."""
        return max(self.typical / max(other.typical, _TINY), self.largest / max(other.largest, _TINY))


def tolerance(value: Tensor, perturbed: Sequence[Tensor | None], roundoff: float) -> Deviation:
    """Return the tolerance of a tensor from its values in the perturbed runs.

    It is no smaller than one rounding of the largest elements, as another operation may round once more.
    """
    finite = value.double().nan_to_num(0.0, 0.0, 0.0)
    scale = float(finite.square().mean().sqrt()) if value.numel() else 0.0
    deviations = [
        Deviation.between(value, other) for other in perturbed if other is not None and other.shape == value.shape
    ]
    typical = max([*(d.typical for d in deviations), roundoff * scale])
    largest = max([*(d.largest for d in deviations), roundoff * scale])
    return Deviation(_SAFETY * typical, _SAFETY * largest)


class NodeTolerances:
    """The tolerance of each node of a run, and of its gradient; nodes are aligned by their number."""

    def __init__(self, recording: Recording, perturbed: Sequence[Recording], roundoff: float) -> None:
        self.roundoff = roundoff
        self._aligned = [run for run in perturbed if _same_operations(run, recording)]
        self._known: dict[int, Deviation] = {}
        self._numbers = {id(node): number for number, node in enumerate(recording.nodes)}

    def of_value(self, node: RecordedTensor) -> Deviation:
        """Return the tolerance of the value of a node, which is computed once."""
        if id(node) not in self._known:
            self._known[id(node)] = self._measure(node)
        return self._known[id(node)]

    def of_first(self, node: RecordedTensor, _: RecordedTensor) -> Deviation:
        """Return the tolerance of a node that is compared with one of the other run."""
        return self.of_value(node)

    def of_second(self, _: RecordedTensor, node: RecordedTensor) -> Deviation:
        """Return the tolerance of a node with which one of the other run is compared."""
        return self.of_value(node)

    def _measure(self, node: RecordedTensor) -> Deviation:
        number = self._numbers.get(id(node))
        others = [run.nodes[number].value for run in self._aligned] if number is not None else []
        return tolerance(node.value, others, self.roundoff)

    def of_gradient(self, node: RecordedTensor) -> Deviation:
        """Return the tolerance of the gradient of a node."""
        number = self._numbers[id(node)]
        assert node.gradient is not None
        return tolerance(node.gradient, [run.nodes[number].gradient for run in self._aligned], self.roundoff)


def _same_operations(first: Recording, second: Recording) -> bool:
    return [node.operation for node in first.nodes] == [node.operation for node in second.nodes]
