"""The recordings of the ranks of a data-parallel run, merged into one that is compared with that of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.tools.agreement.matching import ValueIndex, leaves
from nbdebug.tools.agreement.recording import RecordedTensor, Recording
from nbdebug.tools.agreement.tolerance import Deviation, tolerance, unit_roundoff

_MAX_BATCH_AXIS = 2
_MAX_NAMES = 2


@dataclass
class FlatRecording:
    """A recording whose tensors refer to each other by number, so that it can be sent however deep it is."""

    tensors: list[RecordedTensor]
    inputs: list[tuple[int, ...]]
    nodes: list[int]
    outputs: list[int]
    recording: Recording  # the rest

    @property
    def structure(self) -> tuple[object, ...]:
        """The operations and how they depend on each other."""
        return [tensor.operation for tensor in self.tensors], self.inputs, self.outputs


def flatten(recording: Recording) -> FlatRecording:
    """Return a recording without references between its tensors."""
    numbers: dict[int, int] = {}
    tensors: list[RecordedTensor] = []
    for node in [*recording.nodes, *recording.outputs]:
        for tensor in (*node.inputs, node):
            if numbers.setdefault(id(tensor), len(tensors)) == len(tensors):
                tensors.append(tensor)
    return FlatRecording(
        tensors=[replace(tensor, inputs=()) for tensor in tensors],
        inputs=[tuple(numbers[id(source)] for source in tensor.inputs) for tensor in tensors],
        nodes=[numbers[id(node)] for node in recording.nodes],
        outputs=[numbers[id(node)] for node in recording.outputs],
        recording=replace(recording, nodes=[], outputs=[]),
    )


@dataclass(frozen=True)
class _Join:
    """A way to make one tensor of those of all ranks: the values, and the gradient of the mean of the losses."""

    values: Callable[[Sequence[Tensor]], Tensor]
    gradients: Callable[[Sequence[Tensor]], Tensor]


def _concatenation(axis: int) -> _Join:
    return _Join(lambda parts: torch.cat([*parts], axis), lambda parts: torch.cat([*parts], axis) / len(parts))


def _mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([*parts]).double().mean(0).to(parts[0].dtype)


_REPLICA = _Join(lambda parts: parts[0], _mean)
_MEAN = _Join(_mean, _mean)
_SUM = _Join(lambda parts: torch.stack([*parts]).sum(0), lambda parts: _mean(parts) / len(parts))


class RankMerger:
    """Merges recordings of ranks, each of which has its part of the batch of a reference in one process.

    A tensor of the ranks is joined along the axis of the batch, or as a mean or sum, whichever the reference has.
    """

    def __init__(self, reference: Recording) -> None:
        self._index = ValueIndex([*reference.nodes, *leaves(reference)])
        self._roundoff = unit_roundoff((reference,))
        self._tolerances: dict[int, Deviation] = {}

    def merge(self, ranks: Sequence[FlatRecording], has_loss: bool) -> Recording:
        """Return one recording of all ranks; the loss, which is the last output, is their mean."""
        merged = replace(ranks[0].recording, remarks=_rank_differences(ranks))
        if any(rank.structure != ranks[0].structure for rank in ranks):
            numbers = zip(*(rank.outputs for rank in ranks), strict=False)
            merged.hidden_reason = "runs other operations on each rank"
            merged.outputs = [self._join(_tensors(ranks, number), _joins) for number in numbers]
            return merged
        loss = ranks[0].outputs[-1] if has_loss else None
        tensors = [
            self._join(_tensors(ranks, [i] * len(ranks)), _mean_only if i == loss else _joins)
            for i in range(len(ranks[0].tensors))
        ]
        for tensor, inputs in zip(tensors, ranks[0].inputs, strict=True):
            tensor.inputs = tuple(tensors[i] for i in inputs)
        merged.nodes = [tensors[i] for i in ranks[0].nodes]
        merged.outputs = [tensors[i] for i in ranks[0].outputs]
        return merged

    def _join(
        self, parts: Sequence[RecordedTensor], joins: Callable[[Sequence[Tensor]], Iterator[_Join]]
    ) -> RecordedTensor:
        """Return the tensor of all ranks, joined as in the reference if it has one of that value."""
        values, gradients = [part.value for part in parts], [part.gradient for part in parts]
        ways = [*joins(values)]
        way = next((way for way in ways if self._is_known(way.values(values))), ways[0])
        known = [gradient for gradient in gradients if gradient is not None]
        gradient = way.gradients(known) if len(known) == len(parts) else None
        return replace(parts[0], value=way.values(values), gradient=gradient, inputs=())

    def _is_known(self, value: Tensor) -> bool:
        """Check whether the reference has a tensor of this shape and these values, up to rounding."""
        return any(
            node.value.shape == value.shape and not Deviation.between(node.value, value).exceeds(self._tolerance(node))
            for node in self._index.near(value, self._tolerance)
        )

    def _tolerance(self, node: RecordedTensor) -> Deviation:
        if id(node) not in self._tolerances:
            self._tolerances[id(node)] = tolerance(node.value, (), self._roundoff)
        return self._tolerances[id(node)]


def _tensors(ranks: Sequence[FlatRecording], numbers: Sequence[int]) -> list[RecordedTensor]:
    return [rank.tensors[number] for rank, number in zip(ranks, numbers, strict=True)]


def _joins(values: Sequence[Tensor]) -> Iterator[_Join]:
    """Yield the ways in which tensors of ranks may belong together, the likeliest first."""
    is_same_shape = all(value.shape == values[0].shape for value in values)
    if is_same_shape and all(torch.equal(value, values[0]) for value in values):
        yield _REPLICA
    for axis in range(min(values[0].dim(), _MAX_BATCH_AXIS)):
        others = {(*value.shape[:axis], *value.shape[axis + 1 :]) for value in values}
        if len(others) == 1:
            yield _concatenation(axis)
    if is_same_shape:
        yield from _mean_only(values)
        yield _SUM
    else:
        yield _REPLICA


def _mean_only(values: Sequence[Tensor]) -> Iterator[_Join]:
    if values[0].is_floating_point():
        yield _MEAN
    else:
        yield _REPLICA


def _rank_differences(ranks: Sequence[FlatRecording]) -> dict[str, tuple[str, ...]]:
    """Return what differs between the ranks although each rank has the same model: weights, gradients, updates."""
    weights = [{t.parameter: t.value for t in rank.tensors if t.parameter} for rank in ranks]
    recordings = [rank.recording for rank in ranks]
    texts = {
        "forward": ("the ranks start from different values of", weights),
        "backward": ("nothing averages the gradients: the ranks differ in that of", [r.gradients for r in recordings]),
        "update": ("the ranks hold different weights after the update:", [r.updated for r in recordings]),
    }
    remarks = {phase: (text, _unequal_names(tensors)) for phase, (text, tensors) in texts.items()}
    return {
        phase: (f"{text} {', '.join(names[:_MAX_NAMES])}{' and others' if len(names) > _MAX_NAMES else ''}",)
        for phase, (text, names) in remarks.items()
        if names
    }


def _unequal_names(ranks: Sequence[dict[str, Tensor]]) -> list[str]:
    """Return the names of the tensors that differ between ranks by more than rounding."""
    first, *others = ranks
    return [
        name
        for name, value in first.items()
        if any(
            name not in other
            or other[name].shape != value.shape
            or Deviation.between(value, other[name]).exceeds(tolerance(value, (), torch.finfo(value.dtype).eps / 2))
            for other in others
            if value.is_floating_point()
        )
    ]
