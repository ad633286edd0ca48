"""Find inputs, and rows and steps of inputs, that do not influence the output."""

from __future__ import annotations

import inspect
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.hooks.module_hooks import hooked
from nbdebug.measurements.perturbation import EvalOutputs, fill_zero_parameters
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.source.assignments import find_assignments
from nbdebug.source.location import SourceLine, get_line_from_frame, get_location
from nbdebug.tensors.pytree import tree_tensors

_MIN_STEPS = 4  # of a sequence; fewer columns of whole numbers are numbers of different things
_MAX_EQUAL_SHARE = 0.75  # of the samples, at a step of a sequence without padding


@measurement
def ignored_inputs(eval_outputs: EvalOutputs) -> dict[str, bool]:
    """For each input that can be changed, whether the output ignores it in both eval and train mode."""
    ignored = {}
    for name, tensor in eval_outputs.inputs.items():
        if _is_target_of_whole_batch(eval_outputs.batch, name, tensor):
            continue
        replacements = [values for values in _get_replacement_values(tensor) if not torch.equal(values, tensor)]
        if replacements:
            ignored[name] = all(_is_ignored(eval_outputs, tensor, replacement) for replacement in replacements)
    if not ignored:
        raise NotChecked("no input is a tensor with differing rows")
    return ignored


def _is_target_of_whole_batch(batch: Batch, name: str, tensor: Tensor) -> bool:
    """Return whether an input is a target that only comes along in a model that takes the whole batch.

    A recorded step holds copies of what the model and the loss got. An argument of its own may be rebuilt by the model.
    """
    targets = tree_tensors(batch.targets)
    is_part_of_argument = "." in name
    return any(
        target is tensor or (is_part_of_argument and target.dtype == tensor.dtype and torch.equal(target, tensor))
        for target in targets
    )


def display_names(names: list[str], answers: EvalOutputs) -> list[str]:
    """Return the names of inputs in the signature of ``forward``, for those known only by position."""
    parameters = list(inspect.signature(answers.setup.eager_model.forward).parameters)
    names_by_position = {str(position): name for position, name in enumerate(parameters)}
    return [names_by_position.get(name, name) for name in names]


def find_shared_row_input(answers: EvalOutputs, size: int) -> str | None:
    """Return the name of the input of which the outputs of all samples read the first row, and no other one.

    None if there is no such input, or if the model rejects other rows.
    """
    for name, rows in answers.inputs.items():
        try:
            is_read = _has_differing_rows(rows, size) and _is_only_first_read(answers, rows)
            if is_read and not _is_extremum_read(answers, rows):
                return display_names([name], answers)[0]
        except NotChecked:
            continue
    return None


def _has_differing_rows(rows: Tensor, size: int) -> bool:
    """Return whether the rows of samples, the first aside, differ, and are not lengths sorted from the largest on.

    Of sorted lengths, the first one is the length of the batch.
    """
    if size < 3 or not rows.dim() or len(rows) != size or torch.equal(rows[1:], rows[1:].roll(1, 0)):
        return False
    return rows.dim() > 1 or rows.is_floating_point() or bool((rows > rows[0]).any())


def _is_only_first_read(answers: EvalOutputs, rows: Tensor) -> bool:
    """Return whether the first row changes all rows of the output, and the others none: they may equal the first."""
    if bool(_changed_rows(answers, rows, rows[:1].expand_as(rows).clone()).any()):
        return False
    other = next(k for k in range(1, len(rows)) if not torch.equal(rows[k], rows[0]))
    return bool(_changed_rows(answers, rows, torch.cat([rows[other : other + 1], rows[1:]])).all())


def _is_extremum_read(answers: EvalOutputs, rows: Tensor) -> bool:
    """Return whether the other rows change the output if the first one has the smallest or the largest values.

    Then the model reduces all rows, as by a maximum, of which the first one was the result. The values are those of
    the batch, so that numbers of rows of an embedding stay valid. Complex numbers have no order: then it is unknown.
    """
    if rows.is_complex():
        return True
    smallest, largest = rows.amin(0, keepdim=True), rows.amax(0, keepdim=True)
    for first, second in ((smallest, largest), (largest, smallest)):
        different_rows = _predict_with(answers, rows, torch.cat([first, second, rows[2:]]))
        equal_rows = _predict_with(answers, rows, first.expand_as(rows).clone())
        if not different_rows or _do_outputs_differ(answers, different_rows, equal_rows):
            return True
    return False


def _predict_with(answers: EvalOutputs, rows: Tensor, replacement: Tensor) -> tuple[Tensor, ...]:
    """Return the outputs for other rows of an input; empty if the model raises."""
    changed = answers.transform_inputs(lambda leaf: replacement if leaf is rows else leaf)
    return _predict_or_empty(answers, changed, training=False)


def _changed_rows(answers: EvalOutputs, rows: Tensor, replacement: Tensor) -> Tensor:
    """Return which rows of the output change with the rows of an input."""
    changed = answers.changed_values(
        answers.predict(answers.transform_inputs(lambda leaf: replacement if leaf is rows else leaf))[0]
    )
    return changed.flatten(1).any(1) if changed.dim() > 1 else changed


@dataclass(frozen=True)
class IgnoredSteps:
    """The first steps of an input that no output depends on: ``count`` of ``length``.

    ``line`` is the call of a module that runs as often as there are steps, if there is one.
    """

    input_name: str
    count: int
    length: int
    line: SourceLine | None


@slow_measurement
def ignored_steps(eval_outputs: EvalOutputs) -> IgnoredSteps | None:
    """The steps of a sequence that the output ignores, if they are more than half of it; None if there are none.

    Sequences are floating-point inputs of shape (samples, steps, features), and integers of shape (samples, steps).
    The steps must differ from sample to sample, and the output may have no axis of their number.
    """
    for name, tensor in eval_outputs.inputs.items():
        length = tensor.shape[1] if tensor.dim() > 1 else 0
        is_sequence = tensor.dim() == (3 if tensor.is_floating_point() else 2) and length >= _MIN_STEPS
        if not is_sequence or any(length in output.shape[1:] for output in eval_outputs.outputs):
            continue
        counts = [count for count in (length - 1, 3 * length // 4, length // 2 + 1) if _vary(tensor[:, :count])]
        for count in counts:
            changed = tensor.clone()
            changed[:, :count] = tensor[:, :count].roll(1, 0)
            if _is_ignored(eval_outputs, tensor, changed):
                return IgnoredSteps(name, count, length, _repeated_call_line(eval_outputs, length))
    return None


@dataclass(frozen=True)
class IgnoredColumn:
    """A column of whole numbers of an input that no output depends on.

    ``lookup`` calls an embedding of as many rows as the column needs, with the numbers that another embedding gets.
    """

    input_name: str
    column: int
    width: int
    lookup: Location | None


@slow_measurement
def ignored_column(eval_outputs: EvalOutputs) -> IgnoredColumn | None:
    """A column of numbers, such as that of the users in pairs of users and items, without influence; None if all have.

    The column must differ from sample to sample.
    """
    for name, tensor in eval_outputs.inputs.items():
        is_table = tensor.dim() == 2 and 2 <= tensor.shape[1] < _MIN_STEPS and not tensor.is_floating_point()
        for column in range(tensor.shape[1]) if is_table and tensor.dtype != torch.bool else ():
            changed = tensor.clone()
            changed[:, column] = tensor[:, column].roll(1, 0)
            if _vary(tensor[:, column : column + 1]) and _is_ignored(eval_outputs, tensor, changed):
                lookups = _find_equal_lookups(eval_outputs, int(tensor[:, column].max()) + 1)
                return IgnoredColumn(name, column, tensor.shape[1], _choose_lookup(lookups, column, tensor.shape[1]))
    return None


def _choose_lookup(lookups: list[Location], column: int, width: int) -> Location | None:
    """Return the only lookup, or that of a column: several embeddings of one size are called in the columns' order."""
    if len(lookups) == 1:
        return lookups[0]
    return lookups[column] if len(lookups) == width else None


def _find_equal_lookups(answers: EvalOutputs, rows: int) -> list[Location]:
    """Return the calls of the smallest embeddings of enough rows that get the same numbers as another embedding."""
    model = answers.setup.eager_model
    calls: list[tuple[nn.Embedding, Location, Tensor]] = []

    def record(path: str, module: nn.Module, args: Any) -> None:
        if isinstance(module, nn.Embedding) and args and isinstance(args[0], Tensor):
            calls.append((module, get_location(get_line_from_frame(sys._getframe(1)), path), args[0]))

    embeddings = {path: module for path, module in model.named_modules() if isinstance(module, nn.Embedding)}
    with hooked({module: partial(record, path) for path, module in embeddings.items()}, before=True):
        answers.predict(answers.batch)
    shared = [
        (module.num_embeddings, where)
        for module, where, numbers in calls
        if module.num_embeddings >= rows
        and any(module is not other and torch.equal(numbers, others) for other, _, others in calls)
    ]
    fewest = min((count for count, _ in shared), default=0)
    return [where for count, where in shared if count == fewest]


def _vary(steps: Tensor) -> bool:
    """Check whether samples differ at each step: padding has the same value in many of them."""
    values = steps.reshape(*steps.shape[:2], -1)
    most_frequent = (values == values.mode(0).values).float().mean(0)
    return len(steps) > 2 and bool((most_frequent.amin(-1) <= _MAX_EQUAL_SHARE).all())


def _repeated_call_line(answers: EvalOutputs, length: int) -> SourceLine | None:
    """Return the line that calls a module as often as a sequence has steps; None without any."""
    modules = {path: module for path, module in answers.setup.eager_model.named_modules() if path}
    lines = _record_call_lines(answers.setup, answers.batch, modules)
    return next((calls[0] for calls in lines.values() if len(calls) == length), None)


def _get_replacement_values(tensor: Tensor) -> list[Tensor]:
    """Return other values of an input: its first row everywhere, and for floating-point inputs also 1 - 2x."""
    if tensor.layout is not torch.strided or not tensor.dim() or not tensor.numel():
        return []
    rows = tensor[:1].expand_as(tensor).clone()
    return [rows, 1 - 2 * tensor] if tensor.is_floating_point() else [rows]


def _is_ignored(answers: EvalOutputs, tensor: Tensor, replacement: Tensor) -> bool:
    """Return whether a changed input has no effect, in eval and train mode and with all-zero parameters filled."""
    changed = answers.transform_inputs(lambda leaf: replacement if leaf is tensor else leaf)
    if _do_outputs_differ(answers, answers.outputs, _predict_or_empty(answers, changed, training=False)):
        return False
    with fill_zero_parameters(answers.setup.eager_model):
        return not any(
            _do_outputs_differ(
                answers, _predict_or_empty(answers, answers.batch, mode), _predict_or_empty(answers, changed, mode)
            )
            for mode in (False, True)
        )


def _predict_or_empty(answers: EvalOutputs, batch: Batch, training: bool) -> tuple[Tensor, ...]:
    """Return the outputs for a batch without changing buffers; empty if the model raises."""
    with Preserve(answers.setup.eager_model) if training else nullcontext():
        try:
            return answers.predict(batch, training)
        except Exception:
            return ()


def _do_outputs_differ(answers: EvalOutputs, before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> bool:
    """Return whether two outputs differ; an exception in one of them counts as a difference."""
    if not after or [t.shape for t in before] != [t.shape for t in after]:
        return True
    pairs = zip(before, after, strict=True)
    return not all(torch.allclose(a, b, rtol=0.0, atol=answers.noise, equal_nan=True) for a, b in pairs)


def find_module_call_line(setup: Setup, batch: Batch, path: str) -> SourceLine | None:
    """Return the line of the first call of a module in a pass of a batch; None if it is not called."""
    try:
        lines = _record_call_lines(setup, batch, {path: setup.eager_model.get_submodule(path)})
    except Exception:
        return None
    return next(iter(lines.get(path, ())), None)


def _record_call_lines(setup: Setup, batch: Batch, modules: dict[str, nn.Module]) -> dict[str, list[SourceLine | None]]:
    """Return the lines of the calls of some modules in a pass of a batch, by path."""
    lines: dict[str, list[SourceLine | None]] = {}

    def record(path: str, *_: Any) -> None:
        lines.setdefault(path, []).append(get_line_from_frame(sys._getframe(1)))

    hooks = {module: partial(record, path) for path, module in modules.items()}
    with hooked(hooks, before=True), torch.no_grad():
        setup.predict(batch)
    return lines


def find_module_definition_line(model: nn.Module, path: str) -> SourceLine | None:
    """Return the line that assigns a module to an attribute, or that of its innermost assigned parent.

    None for members of containers without such a line.
    """
    while path:
        owner, _, name = path.rpartition(".")
        if lines := find_assignments(model.get_submodule(owner), name):
            return lines[0]
        path = owner
    return None
