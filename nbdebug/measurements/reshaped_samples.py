"""Samples whose axes a dataset or a collate function exchanges by a reshape, which mixes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import CONVOLUTION_CALLS, RECURRENT_CALLS, CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.measurements.axes import Shape, is_swap, split_into_groups
from nbdebug.measurements.collation import collate
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.source.location import SourceLine, get_definition_line
from nbdebug.source.search import call_name, enclosing_scope
from nbdebug.tensors.pytree import tree_leaves, tree_tensors

_READING_CALLS = CONVOLUTION_CALLS | RECURRENT_CALLS | {"linear", "multi_head_attention_forward"}
_RESHAPE_CALLS = {"view", "reshape", "view_as", "reshape_as", "unflatten"}
_SAMPLE_COUNTS, _MAX_VALUES = range(4, 9), 2**20
_MIN_CORRELATION = 1 - 1e-6  # of the values in their order: a scale and an offset may be applied in between


@dataclass(frozen=True)
class ReshapedSamples:
    """Samples of some shape that arrive in a batch as rows of ``shape_after`` with their values in the same order.

    Both shapes begin with the number of samples. ``line`` reshapes them; it is else the first line of the function.
    ``is_collated`` tells whether the samples have the shape before in the dataset, and not just in what that stores.
    """

    shape_before: Shape
    shape_after: Shape
    is_collated: bool
    line: SourceLine | None


@measurement
def reshaped_samples(setup: Setup, eval_outputs: EvalOutputs) -> ReshapedSamples | None:
    """The training samples whose axes change places without their values, and that the model reads along these axes."""
    loader = setup.train_loader
    if not is_map_style(loader) or loader.batch_sampler is None or loader.collate_fn is None:
        return None
    calls: list[TorchCall] = []
    try:
        with CallRecorder(ModuleStack(), calls.append):
            indices = [*get_visited_indices(loader)[: _SAMPLE_COUNTS[-1]]]
            samples = [loader.dataset[index] for index in indices]
            if not (count := _choose_count(samples)):
                return None
            batch = collate(setup, loader, samples[:count])
        sources = [*_stacks(loader.dataset, samples[:count], indices)]
    except Exception:  # samples that are not readable or not collatable are reported elsewhere
        return None
    for number, tensor in enumerate(tree_tensors((batch.args, batch.kwargs))):
        for is_collated, source in sources:
            if _is_reshaped(source, tensor) and _is_read_along_axes(eval_outputs, number, tensor):
                function = loader.collate_fn if is_collated else type(loader.dataset).__getitem__
                line = _reshaping_line(calls, tensor.shape) or _only_reshape_in(get_definition_line(function))
                return ReshapedSamples(tuple(source.shape), tuple(tensor.shape), is_collated, line)
    return None


def _choose_count(samples: Sequence[Any]) -> int:
    """Return a number of samples that is the length of no axis of their arrays; 0 if there is none."""
    arrays = [leaf for _, leaf in tree_leaves(samples) if isinstance(leaf, (Tensor, np.ndarray))]
    lengths = {length for array in arrays for length in array.shape}
    return next((count for count in _SAMPLE_COUNTS if count not in lengths and count <= len(samples)), 0)


def _stacks(dataset: Any, samples: Sequence[Any], indices: Sequence[int]) -> Iterator[tuple[bool, Tensor]]:
    """Yield stacks of the arrays of samples, with True, and of the stored rows that they are read from, with False."""
    for column in zip(*([leaf for _, leaf in tree_leaves(sample)] for sample in samples), strict=True):
        if (stack := _stack(column)) is not None:
            yield True, stack
    for value in getattr(dataset, "__dict__", {}).values():
        if isinstance(value, (Tensor, np.ndarray)) and value.ndim > 2 and len(value) == len(dataset):
            stack = _stack([value[index] for index in indices[: len(samples)]])
            if stack is not None and len(samples) not in stack.shape[1:]:
                yield False, stack


def _stack(rows: Sequence[Any]) -> Tensor | None:
    """Return arrays of one shape, with two axes or more that are longer than 1, as one tensor; else None."""
    if not all(isinstance(row, (Tensor, np.ndarray)) and row.shape == rows[0].shape for row in rows):
        return None
    if sum(length > 1 for length in rows[0].shape) < 2 or len(rows) * int(np.prod(rows[0].shape)) > _MAX_VALUES:
        return None
    tensors = [torch.as_tensor(np.asarray(row)) for row in rows]
    return None if tensors[0].is_complex() else torch.stack([tensor.double() for tensor in tensors])


def _is_reshaped(source: Tensor, tensor: Tensor) -> bool:
    """Check whether a tensor has the values of samples in their order, and their axes in another order."""
    before, after = tuple(source.shape), tuple(tensor.shape)
    if sorted(before) != sorted(after) or before == after or tensor.is_complex():
        return False
    if not any(is_swap(*group) for group in split_into_groups(before, after)):
        return False
    return _have_same_order(source, tensor)


def _have_same_order(first: Tensor, second: Tensor) -> bool:
    pair = torch.stack([values.detach().double().flatten().cpu() for values in (first, second)])
    return bool(torch.corrcoef(pair)[0, 1] > _MIN_CORRELATION)


def _is_read_along_axes(answers: EvalOutputs, number: int, tensor: Tensor) -> bool:
    """Check whether a layer of the model reads such an input in its shape, not flattened or with its axes restored."""
    inputs = tree_tensors((answers.batch.args, answers.batch.kwargs))
    if len(inputs) <= number or inputs[number].dim() != tensor.dim():
        return False
    lengths = zip(inputs[number].shape, tensor.shape, strict=True)
    if sum(now != then for now, then in lengths) > 1:  # the numbers of samples may differ
        return False
    return any(
        call.name in _READING_CALLS
        and any(
            value.shape == inputs[number].shape and _have_same_order(value, inputs[number]) for value in call.inputs
        )
        for call in answers.recorded_calls(answers.batch)
    )


def _reshaping_line(calls: Sequence[TorchCall], shape: Shape) -> SourceLine | None:
    """Return the line of the last reshape to the shape of the batch, or of one sample of it."""
    shapes = (tuple(shape), tuple(shape[1:]))
    lines = [c.line for c in calls if c.name in _RESHAPE_CALLS and c.line and tuple(c.outputs[0].shape) in shapes]
    return lines[-1] if lines else None


def _only_reshape_in(line: SourceLine | None) -> SourceLine | None:
    """Return the only line of a function that reshapes an array; its first line if there is none, or several."""
    scope = enclosing_scope(line) if line else None
    if line is None or scope is None:
        return line
    numbers = {*_reshape_numbers(scope)}
    return SourceLine(line.file, numbers.pop(), line.function) if len(numbers) == 1 else line


def _reshape_numbers(scope: ast.AST) -> Iterator[int]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and call_name(node) in _RESHAPE_CALLS | {"resize"}:
            yield node.end_lineno or node.lineno
