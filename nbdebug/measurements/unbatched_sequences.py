"""Recurrent layers that take the rows of a batch for the steps of one sequence, as they get a matrix."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from nbdebug.finding import Location
from nbdebug.hooks.module_hooks import hooked
from nbdebug.measurements.batch_independence import has_batch_axis, is_batch_first, replace_sample
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Batch
from nbdebug.source.location import get_line_from_frame, get_location


@dataclass(frozen=True)
class UnbatchedSequence:
    """A recurrent layer that gets a matrix of one row for each sample, which it takes for one sequence.

    With sample ``changed_sample`` replaced, ``affected`` of the others get another output. ``output_shape`` is the
    shape of an output that all samples share; None if the output has a row for each sample.
    """

    where: Location
    shape: tuple[int, ...]
    changed_sample: int
    affected: int
    output_shape: tuple[int, ...] | None
    is_batch_first: bool


@slow_measurement
def unbatched_sequence(eval_outputs: EvalOutputs) -> UnbatchedSequence | None:
    """The first recurrent layer that gets a matrix with the samples as rows, if it makes outputs depend on others.

    The first sample is replaced by another one, and the last one if that has no effect, as what a layer reads first may
    be forgotten: only this row of the matrix changes, and outputs of other samples do.
    """
    batch, size = eval_outputs.batch, eval_outputs.batch.size
    layers = {path: m for path, m in eval_outputs.setup.eager_model.named_modules() if isinstance(m, nn.RNNBase)}
    if not layers or size < 2 or not is_batch_first(batch, size):
        return None
    before = _recorded_matrices(eval_outputs, layers, batch)
    for position in (0, size - 1) if before else ():
        changed = replace_sample(eval_outputs, size, position)
        affected = _count_affected_others(eval_outputs, changed, size, position)
        after = _recorded_matrices(eval_outputs, layers, changed) if affected else []
        for (path, where, matrix), (_, _, changed_matrix) in zip(before, after, strict=False):
            if _changed_rows(matrix, changed_matrix, size) == [position]:
                output = eval_outputs.outputs[0]
                shared = None if has_batch_axis(output, size) else tuple(output.shape)
                return UnbatchedSequence(
                    where, tuple(matrix.shape), position, affected, shared, layers[path].batch_first
                )
    return None


def _recorded_matrices(
    answers: EvalOutputs, layers: dict[str, nn.RNNBase], batch: Batch
) -> list[tuple[str, Location, Tensor]]:
    """Return the matrices that recurrent layers get, each with the path of the layer and the place of the call."""
    recorded: list[tuple[str, Location, Tensor]] = []

    def record(path: str, _: nn.Module, args: Any) -> None:
        if args and isinstance(args[0], Tensor) and args[0].dim() == 2:
            where = get_location(get_line_from_frame(sys._getframe(1)), path)
            recorded.append((path, where, args[0].detach().clone()))

    with hooked({layer: partial(record, path) for path, layer in layers.items()}, before=True):
        answers.predict(batch)
    return recorded


def _count_affected_others(answers: EvalOutputs, changed: Batch, size: int, position: int) -> int:
    """Return the number of other samples whose output changes; all of them if they share the output.

    An output with several values for each sample may have the samples along another axis, and does not count.
    """
    mask = answers.changed_values(answers.predict(changed)[0])
    if has_batch_axis(mask, size):
        return int(mask.reshape(size, -1).any(1).sum()) - int(mask[position].any())
    return size - 1 if mask.numel() % size and bool(mask.any()) else 0


def _changed_rows(before: Tensor, after: Tensor, size: int) -> list[int]:
    if before.shape != after.shape or len(before) != size:
        return []
    rows: list[int] = (before != after).any(1).nonzero().flatten().tolist()
    return rows
