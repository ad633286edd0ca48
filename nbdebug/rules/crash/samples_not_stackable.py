"""X1025: the samples of a batch cannot be stacked."""

from __future__ import annotations

import ast
import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.crashes import Crash
from nbdebug.crashes.collate_functions import collate_function, has_none, use_collate_function
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node
from nbdebug.source.location import SourceLine


@crash_rule("X1025")
def samples_not_stackable(crash: Crash) -> CrashCause | None:
    """The samples of a batch have different sizes, or a type that cannot be stacked.

    ## What it does
    Reads the samples that the collate function got, and names the first that differs, with its shape or type.

    ## Why it matters
    The loader cannot make a batch.

    ## How it is measured
    Exactly, by the shapes and types of the samples in the frame of the collate function.

    ## How to fix
    Pad the samples to one length in a ``collate_fn``, or resize them in the dataset.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.utils.data.default_collate.
    """
    frames = [f for f in crash.frames if f.is_in("utils/data/_utils/collate")]
    frames = [frame for frame in frames if "batch" in frame.variables]
    samples: Any = frames[-1].variables["batch"] if frames else None
    fetch = next((f for f in crash.frames if f.is_in("utils/data/_utils/fetch")), None)
    if samples is None and crash.operation == "stack" and fetch is not None:
        return _own_stack(crash)
    if not isinstance(samples, (list, tuple)) or not samples:
        return None
    first = frames[0].variables.get("batch")
    raw = first if isinstance(first, (list, tuple)) else samples
    index = _indices(fetch)
    line, edits = use_collate_function(crash, collate_function(list(raw)))
    if any(has_none(item) for item in raw):
        position = next(i for i, item in enumerate(raw) if has_none(item))
        sample = index[position] if index and position < len(index) else None
        return _missing_sample(position, sample, line, edits)
    tensors = [(i, s) for i, s in enumerate(samples) if isinstance(s, torch.Tensor)]
    if len(tensors) == len(samples):
        unlike = [i for i, s in tensors if s.shape != samples[0].shape]
        if not unlike:
            return None
        position = unlike[0]
        sample = index[position] if index else None
        return _unequal_sizes(samples, position, sample, line, edits)
    lengths = [len(item) if isinstance(item, (list, tuple, str)) else None for item in samples]
    if None not in lengths and len({*lengths}) > 1:
        position = next(i for i, length in enumerate(lengths) if length != lengths[0])
        message = f"The samples of this batch have lengths {lengths[0]} and {lengths[position]} (position {position})."
        cause = "The default collate function stacks lists of one length: pad them in a collate_fn."
        sample = index[position] if index else None
        return CrashCause(message, cause, "" if edits else _COLLATE, edits, line=line, sample=sample)
    message = f"The samples are of type {type(samples[0]).__name__}, which the default collate function cannot stack."
    cause = "It takes tensors, arrays, numbers, strings, and containers of these."
    fix = "return torch.as_tensor(x), y  # in __getitem__, or pass collate_fn="
    return CrashCause(message, cause, "" if edits else fix, edits, line=line)


_COLLATE = "Pass a collate_fn that pads the samples of a batch to one length."


def _indices(fetch: Any) -> list[int]:
    indices = fetch.variables.get("possibly_batched_index") if fetch is not None else None
    return list(indices) if isinstance(indices, (list, tuple)) else []


def _missing_sample(position: int, sample: int | None, line: SourceLine | None, edits: tuple[Edit, ...]) -> CrashCause:
    name = f"Sample {sample}" if sample is not None else f"The sample at position {position}"
    message = f"{name} of the dataset, or a part of it, is None, which cannot be stacked."
    cause = "__getitem__ returns None for it."
    fix = "Return a tensor for every index, or leave the index out when the dataset is created."
    return CrashCause(message, cause, "" if edits else fix, edits, line=line, sample=sample)


def _unequal_sizes(
    samples: Any, position: int, sample: int | None, line: SourceLine | None, edits: tuple[Edit, ...]
) -> CrashCause:
    other, first = samples[position], samples[0]
    name = f"sample {sample}" if sample is not None else f"the sample at position {position}"
    shapes = f"the first is {describe_tensor(first)}, and {name} is {describe_tensor(other)}"
    message = f"The samples of this batch differ in size, so they cannot be stacked: {shapes}."
    is_sequence = first.dim() == other.dim() and first.shape[1:] == other.shape[1:]
    cause = "A batch is one tensor: resize the samples to one size in the dataset, or in a collate_fn."
    if is_sequence:
        cause = "They are sequences of unlike lengths: pad them to one length in a collate_fn."
    return CrashCause(message, cause, "" if edits else _COLLATE, edits, line=line, sample=sample)


def _own_stack(crash: Crash) -> CrashCause | None:
    """Explain a stack in the user's own collate function."""
    node = crash.input_node
    statement = crash.text(node) if node is not None else "the samples"
    message = f"The tensors of {statement} have unlike sizes: {crash.message.rstrip('.')}."
    cause = "torch.stack takes equal sizes: pad or reduce them first."
    edits: tuple[Edit, ...] = ()
    sizes = [ast.literal_eval(size) for size in re.findall(r"\[[\d, ]+\]", crash.message)]
    is_sequence = len({tuple(size[1:]) for size in sizes}) == 1
    if is_sequence and crash.own is not None and crash.call is not None and node is not None:
        text = f"torch.nn.utils.rnn.pad_sequence({crash.text(node)}, batch_first=True)"
        edits = (replace_node(crash.own.file, crash.call, text),)
    return CrashCause(message, cause, "" if edits else "Bring all tensors to one size before torch.stack().", edits)


class _Sequences(Dataset[tuple[Tensor, int]]):
    """Points, of which the third has another length if there is a gap."""

    def __init__(self, gap: bool) -> None:
        self.x, self.y = points()
        self.gap = gap

    def __len__(self) -> int:
        """The number of points."""
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """A point and its class."""
        x = self.x[index]
        return (x[:3] if self.gap and index == 2 else x), int(self.y[index])


def bad() -> Setup:
    """Samples of which one is shorter."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    setup.train_loader = DataLoader(_Sequences(True), batch_size=16)
    return setup


def good() -> Setup:
    """Samples of one size."""
    return classifier()
