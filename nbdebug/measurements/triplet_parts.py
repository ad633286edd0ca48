"""The three parts of inputs and outputs that hold triplets of samples, in any of the usual layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.setup import Batch
from nbdebug.tensors.pytree import tree_map, tree_tensors

_Split = Callable[[list[Tensor]], Tensor]
_Join = Callable[[Tensor], list[Tensor]]


@dataclass(frozen=True)
class Layout:
    """How tensors hold three parts: ``split`` returns the parts as one tensor (3, N, ...), ``join`` the tensors."""

    split: _Split
    join: _Join


_SEPARATE = Layout(lambda tensors: torch.stack(tensors), lambda parts: list(parts))
_STACKED = Layout(lambda tensors: tensors[0].transpose(0, 1), lambda parts: [parts.transpose(0, 1)])
_CHUNKS = Layout(lambda tensors: tensors[0].reshape(3, -1, *tensors[0].shape[1:]), lambda parts: [parts.flatten(0, 1)])
_ALTERNATING = Layout(
    lambda tensors: tensors[0].reshape(-1, 3, *tensors[0].shape[1:]).transpose(0, 1),
    lambda parts: [parts.transpose(0, 1).flatten(0, 1)],
)


def possible_layouts(tensors: Sequence[Tensor]) -> Iterator[Layout]:
    """Yield each layout in which some tensors can hold triplets of vectors."""
    if not tensors or not all(t.is_floating_point() and t.dim() > 1 for t in tensors):
        return
    if len(tensors) == 3 and len({tensor.shape for tensor in tensors}) == 1:
        yield _SEPARATE
    if len(tensors) != 1:
        return
    if tensors[0].dim() > 2 and tensors[0].shape[1] == 3:
        yield _STACKED
    if len(tensors[0]) % 3 == 0:
        yield from (_CHUNKS, _ALTERNATING)


@dataclass(frozen=True)
class TripletInputs:
    """Where inputs hold triplets; ``order`` is the position of the input of each part of the output."""

    layout: Layout
    order: tuple[int, ...]

    @property
    def are_along_batch(self) -> bool:
        """True if a batch lists the parts one after another, so that its sampler may have made the triplets."""
        return self.layout in (_CHUNKS, _ALTERNATING)

    def fit(self, batch: Batch) -> bool:
        """Return whether a batch has this layout; the last batch of an epoch may be cut."""
        return self.layout in possible_layouts(_input_tensors(batch))

    def parts(self, batch: Batch) -> Tensor:
        """Return the inputs of each part of the output, in the order of these parts, as (3, N, features)."""
        parts = self.layout.split(_input_tensors(batch))
        return parts[list(self.order)].detach().flatten(2).float().cpu()


def with_parts(output: Any, layout: Layout, parts: Tensor) -> Any:
    """Return an output with other parts."""
    tensors = iter(layout.join(parts))
    return tree_map(output, lambda leaf: next(tensors) if isinstance(leaf, Tensor) else leaf)


def find_inputs(answers: EvalOutputs, of_outputs: Layout) -> TripletInputs:
    """Return the layout in which every part of the output depends on one part of the input, and each on another.

    Found by giving each triplet one part of the input of the next one; raises NotChecked if there is no such layout.
    """
    count = of_outputs.split(list(answers.outputs)).shape[1]
    for layout in possible_layouts(_input_tensors(answers.batch)):
        if layout.split(_input_tensors(answers.batch)).shape[1] == count > 1:
            order = _find_order(answers, layout, of_outputs)
            if order is not None:
                return TripletInputs(layout, order)
    raise NotChecked("no three parts of the input make the three parts of the output")


def _find_order(answers: EvalOutputs, of_inputs: Layout, of_outputs: Layout) -> tuple[int, ...] | None:
    """Return the position of the only input part that each part of the output depends on; None if there are more."""
    before = of_outputs.split(list(answers.outputs))
    readers = list[int]()
    for position in range(3):
        after = of_outputs.split(list(answers.predict(_roll_part(answers.batch, of_inputs, position))))
        differences = (after - before).abs().flatten(1).amax(1)
        changed = [number for number in range(3) if bool(differences[number] > answers.noise)]
        if len(changed) != 1:
            return None
        readers += changed
    return tuple(readers.index(number) for number in range(3)) if len(set(readers)) == 3 else None


def _roll_part(batch: Batch, layout: Layout, position: int) -> Batch:
    """Return a batch in which each triplet has one part of the next triplet."""
    parts = layout.split(_input_tensors(batch)).clone()
    parts[position] = parts[position].roll(1, 0)
    tensors = iter(layout.join(parts))
    args, kwargs = tree_map(
        (batch.args, batch.kwargs), lambda leaf: next(tensors) if isinstance(leaf, Tensor) else leaf
    )
    return replace(batch, args=args, kwargs=kwargs)


def _input_tensors(batch: Batch) -> list[Tensor]:
    return tree_tensors((batch.args, batch.kwargs))


def require_triplets(answers: EvalOutputs) -> None:
    """Raise NotChecked if inputs or outputs cannot hold triplets."""
    if not all(any(possible_layouts(tensors)) for tensors in (_input_tensors(answers.batch), answers.outputs)):
        raise NotChecked("the model does not map triplets of real-valued inputs to triplets of embeddings")
