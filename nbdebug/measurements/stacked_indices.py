"""Row numbers of each sample that a model uses for the joined rows of all samples, without those that come before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.input_usage import display_names
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.source.location import SourceLine

_MIN_SAMPLES, _MAX_SAMPLES = 3, 7
_RELATIVE_TOLERANCE = 1e-4  # of the largest output; sums over other batches are rounded differently
_INDEX_CALLS = frozenset(
    {"getitem", "setitem", "index_select", "gather", "take", "take_along_dim", "index_add", "index_copy", "index_put"}
    | {"scatter", "scatter_add", "scatter_reduce", "index_reduce", "embedding"}
)
_SUMS = frozenset({"add", "radd", "iadd", "sub", "rsub", "isub"})


@dataclass(frozen=True)
class StackedIndex:
    """An input of row numbers that count the rows of each sample from 0, in a model that joins the rows of all samples.

    With the number of the preceding rows, ``rows`` for each sample, added to them, ``affected`` of ``samples`` outputs
    become those of the samples alone. ``line`` is the line that makes a constant offset for them, if ``has_offset``, or
    joins them, and ``used_at`` the first line that adds it or uses them.
    """

    input_name: str
    samples: int
    affected: int
    rows: int
    has_offset: bool
    line: SourceLine | None
    used_at: SourceLine | None


@measurement
def stacked_index(eval_outputs: EvalOutputs) -> StackedIndex | None:
    """The integer input that needs the number of preceding rows added to it, by trying; None if there is none."""
    size, inputs = eval_outputs.batch.size, eval_outputs.inputs
    names = [name for name, t in inputs.items() if t.dtype in (torch.int32, torch.int64) and 1 < t.dim() < 5]
    names = [name for name in names if len(inputs[name]) == size and inputs[name].numel()]
    has_rows = any(t.dim() > 1 and len(t) == size for name, t in inputs.items() if [name] != names)
    if not names or not has_rows or eval_outputs.called_functions.isdisjoint(_INDEX_CALLS):
        return None
    if size < _MIN_SAMPLES or len(eval_outputs.outputs[0]) % size:
        return None
    lengths = {length for t in inputs.values() for length in t.shape[1:]}
    counts = (count for count in range(min(size, _MAX_SAMPLES), _MIN_SAMPLES - 1, -1) if count not in lengths)
    count = next(counts, min(size, _MIN_SAMPLES))
    outputs = [eval_outputs.predict(eval_outputs.batch.take_samples([row]))[0] for row in range(count)]
    if any(output.dim() == 0 or output.shape[1:] != outputs[0].shape[1:] for output in outputs):
        return None  # as where squeeze() also removes the axis of one sample
    alone = torch.cat(outputs)
    joined = replace(eval_outputs, batch=eval_outputs.batch.take_samples(range(count)))
    affected = _count_affected(joined, eval_outputs.predict(joined.batch)[0], alone)
    for name in names if affected else ():
        for rows in _rows_of_samples(joined, name):
            if _is_repaired(joined, name, rows, alone):
                shown = display_names([name], eval_outputs)[0]
                return StackedIndex(shown, count, affected, rows, *_find_lines(joined, joined.inputs[name]))
    return None


def _count_affected(joined: EvalOutputs, together: Tensor, alone: Tensor) -> int:
    """Return the number of samples whose output differs from that of the sample alone; 0 for other shapes."""
    if together.shape != alone.shape:
        return 0
    tolerance = max(joined.noise, _RELATIVE_TOLERANCE * float(alone.abs().max()))
    return int(((together - alone).abs().reshape(joined.batch.size, -1).amax(1) > tolerance).sum())


def _rows_of_samples(joined: EvalOutputs, name: str) -> Iterator[int]:
    """Yield the numbers of rows that a sample may have in other inputs, more than the largest row number."""
    largest = int(joined.inputs[name].max())
    lengths = {t.shape[1] for other, t in joined.inputs.items() if other != name and t.dim() > 1}
    yield from sorted(length for length in lengths if length > largest)


def _is_repaired(joined: EvalOutputs, name: str, rows: int, alone: Tensor) -> bool:
    """Return whether each sample has the output that it has alone if the preceding rows are added to an input."""
    index = joined.inputs[name]
    offsets = torch.arange(len(index), device=index.device).to(index.dtype) * rows
    shifted = torch.where(index < 0, index, index + offsets.view(-1, *[1] * (index.dim() - 1)))
    batch = joined.transform_inputs(lambda leaf: shifted if leaf is index else leaf)
    try:
        together = joined.predict(batch)[0]
    except NotChecked:  # numbers of something else
        return False
    return together.shape == alone.shape and not _count_affected(joined, together, alone)


def _find_lines(joined: EvalOutputs, index: Tensor) -> tuple[bool, SourceLine | None, SourceLine | None]:
    """Return whether a constant is added to an index, the line that makes it or joins the index, and that of its use.

    Joined are the axis of the samples and another one.
    """
    calls: list[TorchCall] = []
    with record_calls(joined.setup.eager_model, calls.append):
        joined.predict(joined.batch)
    derived, makers, joined_at = {id(index)}, dict[int, TorchCall](), None
    for call in calls:
        read = [t for t in call.inputs if id(t) in derived]
        if read and any(t.is_floating_point() for t in call.outputs):
            return False, joined_at or call.line, call.line
        if read:
            others = [t for t in call.inputs if id(t) not in derived]
            constant = next(
                (t for t in others if call.name in _SUMS and t.numel() and bool((t == t.flatten()[0]).all())), None
            )
            if constant is not None and (maker := makers.get(id(constant))):
                return True, maker.line, call.line
            was_separate = any(len(index) in t.shape for t in read)
            if was_separate and not any(len(index) in t.shape for t in call.outputs):
                joined_at = joined_at or call.line
            derived.update(map(id, call.outputs))
        makers.update((id(t), call) for t in call.outputs)
    return False, joined_at, None
