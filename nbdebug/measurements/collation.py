"""What the user's own collate function makes of a list of samples, by passing it other lists of them."""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.data_lines import collated_target_line
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.source.list_lines import ListLines
from nbdebug.source.location import SourceLine, get_definition_line
from nbdebug.source.search import call_name, enclosing_scope
from nbdebug.tensors.memory import share_memory
from nbdebug.tensors.pytree import tree_leaves
from nbdebug.tensors.row_search import get_row_keys

_MAX_SAMPLES, _MIN_SAMPLES, _MAX_SECONDS = 32, 6, 0.2
_SHARED_SAMPLES = 8  # of a batch, each of which is passed first and last
_ORDERS = 3  # other orders in which the samples are passed
_ORDER_SEED = 20_231  # not that of `collate`: a function that permutes its samples would draw the first order itself
_Rows = list[Hashable]
MovedRows = Literal["inputs", "targets", "both", "first label", "last label"]


@dataclass(frozen=True)
class CollateMisalignment:
    """Samples of a split whose target, in a collated batch, depends on the order in which they are passed.

    ``line`` is the line that reorders the samples or parts of them, else the one that makes the tensor whose rows do
    not have the order of the samples, else the first line of the collate function. Inputs are sorted by length on
    purpose, so that it is then the line that leaves the targets in their order, unless they were taken from the samples
    before the same function sorts the inputs. ``moved`` tells which of the two rows have another order than the
    samples, and ``is_by_length`` whether they are in the order of their lengths. It is "first label" or "last label" if
    all rows get the target of one sample; ``line`` then makes the target.
    """

    split: str
    samples: int
    changed: int
    line: SourceLine | None
    moved: MovedRows = "both"
    is_by_length: bool = False

    @property
    def change(self) -> str:
        """What the collate function does to the order of inputs and targets, as the predicate of a sentence."""
        if self.is_shared:
            return "repeats the target of one sample"
        if self.moved == "both":
            return "sorts or selects the inputs and the targets separately"
        kept = "targets" if self.moved == "inputs" else "inputs"
        change = f"sorts the {self.moved} by length" if self.is_by_length else f"puts the {self.moved} in another order"
        return f"{change} and leaves the {kept} in the order of the batch"

    @property
    def is_shared(self) -> bool:
        """True if all rows get the target of one sample."""
        return self.moved in ("first label", "last label")


def collates_by_user(loader: Any) -> bool:
    """Return whether a loader makes its batches of a list of samples with a function other than torch's own."""
    return is_map_style(loader) and loader.batch_sampler is not None and loader.collate_fn is not default_collate


def read_samples(loader: DataLoader[Any], count: int = _MAX_SAMPLES) -> list[Any]:
    """Return the first samples that a loader's sampler may draw: enough to check, and more within a time limit."""
    deadline, samples = time.perf_counter() + _MAX_SECONDS, list[Any]()
    for index in islice(get_visited_indices(loader), count):
        samples.append(loader.dataset[index])
        if len(samples) >= _MIN_SAMPLES and time.perf_counter() > deadline:
            break
    return samples


@measurement
def collate_misalignments(setup: Setup) -> list[CollateMisalignment]:
    """The splits whose collate function pairs inputs with the targets of other samples."""
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    checked = {split: loader for split, loader in loaders.items() if collates_by_user(loader)}
    results = [
        _find_misalignment(setup, split, loader) or _find_shared_target(setup, split, loader)
        for split, loader in checked.items()
    ]
    return [result for result in results if result is not None]


def _find_misalignment(setup: Setup, split: str, loader: DataLoader[Any]) -> CollateMisalignment | None:
    """Return a misalignment; None if there is none, or if inputs or targets do not have one row per sample.

    A batch may hold its samples in any order, but the pairs of input and target may not depend on the order in which
    the samples are passed. Targets that a collate function numbers within the batch are no property of a sample: they
    differ for copies of one sample.
    """
    try:
        samples = read_samples(loader)
        if len(samples) < _MIN_SAMPLES:
            return None
        generator = torch.Generator().manual_seed(_ORDER_SEED)
        orders = [torch.randperm(len(samples), generator=generator).tolist() for _ in range(_ORDERS)]
        lines, lists = CallLines(), ListLines(samples)
        with lines:
            batch = lists.run(lambda: collate(setup, loader, samples))
        others = [collate(setup, loader, [samples[index] for index in order]) for order in orders]
        copies = collate(setup, loader, [samples[0]] * len(samples))
    except Exception:  # samples that are not readable or not collatable are reported elsewhere
        return None
    inputs = _find_comparable_rows(_inputs(batch), [_inputs(other) for other in others], len(samples))
    targets = _find_comparable_rows(_targets(batch), [_targets(other) for other in others], len(samples))
    targets = {number: rows for number, rows in targets.items() if _is_constant(_targets(copies)[number], len(samples))}
    if not inputs or not targets:
        return None
    widest = max(inputs, key=lambda number: _inputs(batch)[number].numel())
    changes = {number: _count_changed_pairs(inputs[widest], rows) for number, rows in targets.items()}
    if not min(changes.values()):
        return None
    number = max(changes, key=lambda number: changes[number])
    kept = _follows(inputs[widest], orders), _follows(targets[number], orders)
    moved: MovedRows = "inputs" if kept == (False, True) else "targets" if kept == (True, False) else "both"
    tensor = _inputs(batch)[widest] if moved == "inputs" else _targets(batch)[number]
    is_by_length = moved != "both" and _is_ordered_by_length(tensor, len(samples))
    reordering_line = lists.reordering_line or (lines.sorting_line(tensor, len(samples)) if is_by_length else None)
    line = _separating_line(loader, reordering_line) if moved == "inputs" and is_by_length else reordering_line
    line = line or lines.by_tensor.get(id(tensor)) or get_definition_line(loader.collate_fn)
    return CollateMisalignment(split, len(samples), changes[number], line, moved, is_by_length)


def _find_shared_target(setup: Setup, split: str, loader: DataLoader[Any]) -> CollateMisalignment | None:
    """Return that all rows of a batch get the target of its first or its last sample; None if they do not.

    A target that all samples of a batch have in common, such as their mean or the size of the batch, does not depend on
    the order in which they are passed. Batches that a sampler of the user's own composes may have one target each.
    """
    try:
        samples = _spread_samples(loader)
        count = len(samples)
        if count < _MIN_SAMPLES:
            return None
        with CallLines() as lines:
            batches = [collate(setup, loader, samples)]
        orders = [torch.roll(torch.arange(count), shift).tolist() for shift in range(count)]
        batches += [collate(setup, loader, [samples[index] for index in order]) for order in orders[1:]]
        own = [_targets(collate(setup, loader, [sample] * count)) for sample in samples]
    except Exception:  # samples that are not readable or not collatable are reported elsewhere
        return None
    tensors = [[t for t in _targets(batch) if t.dim() and len(t) == count] for batch in batches]
    if not all(tensors) or not any(
        len(t) == count and not _is_constant(t, count) for t in _inputs(batches[0]) if t.dim()
    ):
        return None
    if not all(_is_constant(target, count) for targets in tensors for target in targets):
        return None
    number = next(index for index, target in enumerate(_targets(batches[0])) if target is tensors[0][0])
    own_rows = [targets[number][0] for targets in own]
    changed = sum(not torch.equal(row, _targets(batches[0])[number][0]) for row in own_rows)
    for moved, position in (("first label", 0), ("last label", -1)):
        pairs = zip(batches, (order[position] for order in orders), strict=True)
        if changed and all(torch.equal(_targets(batch)[number][0], own_rows[index]) for batch, index in pairs):
            line = lines.by_tensor.get(id(tensors[0][0])) or get_definition_line(loader.collate_fn)
            return CollateMisalignment(split, count, changed, line, moved)  # type: ignore[arg-type]
    return None


def _spread_samples(loader: DataLoader[Any]) -> list[Any]:
    """Return a few samples that a batch of torch's own samplers may hold; none if batches have a single sample."""
    sampler, batch_sampler = loader.sampler, loader.batch_sampler
    if type(batch_sampler) is not BatchSampler or batch_sampler.batch_size < _MIN_SAMPLES:
        return []
    if type(sampler) is SequentialSampler:
        indices: Sequence[int] = range(min(batch_sampler.batch_size, len(sampler)))
    elif type(sampler) in (RandomSampler, SubsetRandomSampler, WeightedRandomSampler):
        indices = get_visited_indices(loader)
    else:
        return []
    order = torch.randperm(len(indices), generator=torch.Generator().manual_seed(_ORDER_SEED))
    return [loader.dataset[indices[position]] for position in order[:_SHARED_SAMPLES].tolist()]


def _separating_line(loader: DataLoader[Any], sorting_line: SourceLine | None) -> SourceLine | None:
    """Return the line that takes the targets in their old order, or the one that sorts the inputs.

    It is the latter if its function has taken the targets before, or leaves that to a function that it calls.
    """
    kept = collated_target_line(loader)
    sorting, keeping = (enclosing_scope(line) if line else None for line in (sorting_line, kept))
    if kept is None or sorting_line is None or sorting is None or keeping is None:
        return kept or sorting_line
    if sorting is keeping:
        return sorting_line if kept.number < sorting_line.number else kept
    calls = {call_name(node) for node in ast.walk(sorting) if isinstance(node, ast.Call)}
    return sorting_line if getattr(keeping, "name", None) in calls else kept


def _is_ordered_by_length(tensor: Tensor, count: int) -> bool:
    """Check whether padded rows have a growing or a falling number of steps before the zeros at their end."""
    rows = tensor if len(tensor) == count else tensor.movedim(1, 0)
    if rows.dim() < 2 or not rows.shape[1]:
        return False
    steps = torch.arange(1, rows.shape[1] + 1)
    lengths = ((rows.detach().cpu().reshape(*rows.shape[:2], -1) != 0).any(-1) * steps).amax(1)
    changes = lengths.diff()
    return bool(changes.any()) and (bool((changes >= 0).all()) or bool((changes <= 0).all()))


def _follows(rows: Sequence[_Rows], orders: Sequence[Sequence[int]]) -> bool:
    """Check whether the rows of a collated tensor have the order in which the samples are passed, in each order."""
    first, *others = rows
    return all(other == [first[index] for index in order] for other, order in zip(others, orders, strict=True))


def collate(setup: Setup, loader: DataLoader[Any], samples: list[Any]) -> Batch:
    """Return the batch of some samples; a random collate function draws the same numbers each time."""
    seed_all(0)
    return setup.split_batch(loader.collate_fn(samples), None)


def _inputs(batch: Batch) -> list[Tensor]:
    return _unpacked_tensors((batch.args, batch.kwargs))


def _targets(batch: Batch) -> list[Tensor]:
    return _unpacked_tensors(batch.targets)


def _unpacked_tensors(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree, with packed sequences padded: their rows are in the order of the samples."""
    leaves = [leaf for _, leaf in tree_leaves(tree) if isinstance(leaf, (Tensor, PackedSequence))]
    return [pad_packed_sequence(x, batch_first=True)[0] if isinstance(x, PackedSequence) else x for x in leaves]


def _find_comparable_rows(first: list[Tensor], others: list[list[Tensor]], count: int) -> dict[int, list[_Rows]]:
    """Return the rows of each tensor in all batches, if they are the same rows in other orders, and not all equal."""
    comparable: dict[int, list[_Rows]] = {}
    for number, tensors in enumerate(zip(first, *others, strict=True)):
        for axis in (0, 1):
            if any(t.dim() <= axis or t.shape[axis] != count or t.shape != tensors[0].shape for t in tensors):
                continue
            rows = [get_row_keys([t.detach().cpu().movedim(axis, 0).reshape(count, -1)]) for t in tensors]
            counts = [Counter(part) for part in rows]
            if len(counts[0]) > 1 and all(other == counts[0] for other in counts):
                comparable[number] = rows
                break
    return comparable


def _is_constant(tensor: Tensor, count: int) -> bool:
    """Return whether the rows of all samples are equal."""
    rows = tensor if len(tensor) == count else tensor.movedim(1, 0)
    return bool((rows == rows[:1]).all())


def _count_changed_pairs(inputs: Sequence[_Rows], targets: Sequence[_Rows]) -> int:
    """Return the number of pairs that at least occur in one order of the samples and in none of the others."""
    pairs = [Counter(zip(*rows, strict=True)) for rows in zip(inputs, targets, strict=True)]
    return min((pairs[0] - other).total() for other in pairs[1:])


class CallLines(CallRecorder):
    """Records the line of the user's code that makes each tensor, and what it is made of."""

    def __init__(self) -> None:
        super().__init__(ModuleStack(), self._record)
        self.by_tensor: dict[int, SourceLine] = {}
        self.operands: dict[int, tuple[Tensor, ...]] = {}
        self._references: list[Tensor] = []

    def viewed(self, tensor: Tensor) -> Tensor:
        """Return the tensor that a tensor is a view of, such as a transposed one; itself if it is none."""
        operands = self.operands.get(id(tensor), ())
        is_view = len(operands) == 1 and operands[0] is not tensor and share_memory(tensor, operands[0])
        return self.viewed(operands[0]) if is_view else tensor

    def sorting_line(self, tensor: Tensor, count: int) -> SourceLine | None:
        """Return the line that puts the rows of a tensor in the order of their lengths, else None.

        The tensor that it selects the rows from has them in another order.
        """
        source = next((part for part in self.operands.get(id(tensor), ()) if part.shape == tensor.shape), None)
        if source is None or source is tensor:
            return None
        if _is_ordered_by_length(source, count):
            return self.sorting_line(source, count)
        return self.by_tensor.get(id(tensor))

    def _record(self, call: TorchCall) -> None:
        self._references += call.outputs
        if call.line is not None:
            self.by_tensor.update({id(t): call.line for t in call.outputs})
            self.operands.update({id(t): call.inputs for t in call.outputs})
