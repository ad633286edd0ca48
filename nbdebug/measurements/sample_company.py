"""Dependence of a sample's output on the other samples with which the user's collate function concatenates it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.collation import CallLines, collate, collates_by_user, read_samples
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch
from nbdebug.source.list_lines import ListLines
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map

_MAX_SAMPLES, _MIN_SAMPLES = 8, 3
_RELATIVE_TOLERANCE = 1e-4  # of the largest output; sums over other batches are rounded differently


@dataclass(frozen=True)
class SampleCompany:
    """Samples of a concatenated batch whose output differs from that of the sample alone.

    ``index_input`` is the name of an integer input that holds positions within each sample: with the positions of the
    concatenated samples in it, every sample gets the output that it has alone. None if there is no such input.
    ``line`` is the line that puts its parts into a list, else the one that concatenates it.
    """

    samples: int
    affected: int
    index_input: str | None = None
    line: SourceLine | None = None


@measurement
def sample_company(eval_outputs: EvalOutputs) -> SampleCompany:
    """The samples whose output changes when others are concatenated to them, without any padding."""
    setup, loader = eval_outputs.setup, eval_outputs.setup.train_loader
    if not collates_by_user(loader):
        raise NotChecked("the samples are not joined by a collate function")
    try:
        samples = read_samples(loader, _MAX_SAMPLES)
        lines, lists = CallLines(), ListLines(samples)
        with lines:
            batch = lists.run(lambda: collate(setup, loader, samples))
        alone = [collate(setup, loader, [sample]) for sample in samples]
        outputs = [eval_outputs.predict(part)[0] for part in alone]
        together = eval_outputs.predict(batch)[0]
    except Exception as error:
        raise NotChecked(f"single samples raised {type(error).__name__}: {error}") from error
    parts = [replace(eval_outputs, batch=part).inputs for part in alone]
    joined = replace(eval_outputs, batch=batch)
    if len(samples) < _MIN_SAMPLES or not _is_concatenated(joined.inputs, parts, len(samples)):
        raise NotChecked("the collate function does not concatenate the samples")
    if len(together) != len(samples) or any(len(output) != 1 for output in outputs):
        raise NotChecked("the output does not have one row per sample")
    affected = _count_affected(together, outputs, eval_outputs.noise)
    name = _find_unshifted_index(joined, parts, outputs) if affected else None
    index = id(lines.viewed(joined.inputs[name])) if name is not None else 0
    line = lists.storing_line(lines.operands.get(index, ())) or lines.by_tensor.get(index)
    return SampleCompany(len(samples), affected, name, line)


def _is_concatenated(joined: dict[str, Tensor], parts: list[dict[str, Tensor]], count: int) -> bool:
    """Return whether each input has the values of all samples, without padding, and one of them no row per sample."""
    if any(part.keys() != joined.keys() for part in parts):
        return False
    has_all_values = all(t.numel() == sum(part[name].numel() for part in parts) for name, t in joined.items())
    return has_all_values and any(t.dim() > 0 and count not in t.shape[:1] for t in joined.values())


def _count_affected(together: Tensor, outputs: list[Tensor], noise: float) -> int:
    """Return the number of samples whose own output is not among the rows of the batch, in whatever order."""
    rows = together.reshape(len(together), -1)
    tolerance = max(noise, _RELATIVE_TOLERANCE * float(rows.abs().max()))
    distances = torch.stack([(rows - output.reshape(1, -1)).abs().amax(1).min() for output in outputs])
    return int((distances > tolerance).sum())


def _find_unshifted_index(joined: EvalOutputs, parts: list[dict[str, Tensor]], outputs: list[Tensor]) -> str | None:
    """Return the integer input that needs the number of preceding rows of another input added to it, by trying."""
    for name, tensor in joined.inputs.items():
        axis = _concatenation_axis(tensor, [part[name] for part in parts])
        if tensor.is_floating_point() or axis is None:
            continue
        for counted in joined.inputs:
            counts = [len(part[counted]) if part[counted].dim() else 0 for part in parts]
            shifted = _with_offsets(joined, tensor, [part[name].shape[axis] for part in parts], counts, axis)
            try:
                is_repaired = not _count_affected(joined.predict(shifted)[0], outputs, joined.noise)
            except NotChecked:  # positions of something else
                continue
            if is_repaired:
                return name
    return None


def _concatenation_axis(tensor: Tensor, parts: list[Tensor]) -> int | None:
    """Return the axis along which the values of the samples were concatenated as they are."""
    for axis in range(tensor.dim()):
        sizes = [part.shape[axis] if part.dim() == tensor.dim() else -1 for part in parts]
        if sum(sizes) == tensor.shape[axis] and all(map(torch.equal, torch.split(tensor, sizes, axis), parts)):
            return axis
    return None


def _with_offsets(joined: EvalOutputs, tensor: Tensor, sizes: list[int], counts: list[int], axis: int) -> Batch:
    """Return the batch with the number of the preceding rows added to the part of each sample."""
    offsets = [0, *accumulate(counts)][: len(sizes)]
    parts = [part + offset for part, offset in zip(torch.split(tensor, sizes, axis), offsets, strict=True)]
    changed = torch.cat(parts, axis)
    batch = joined.batch
    args, kwargs = tree_map((batch.args, batch.kwargs), lambda leaf: changed if leaf is tensor else leaf)
    return replace(batch, args=args, kwargs=kwargs)
