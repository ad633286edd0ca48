"""The user's lines that make the data of a setup, and its other parts by origin."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sized
from functools import partial
from itertools import combinations
from types import FunctionType, GeneratorType
from typing import Any, Literal

import numpy as np
from torch.utils.data import IterableDataset, RandomSampler, SequentialSampler, Subset, TensorDataset

from nbdebug.setup.batch import TARGET_KEYS
from nbdebug.setup.class_choices import creating_call
from nbdebug.setup.sample_functions import Method, collate_method, nested_datasets, sample_functions
from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import call_argument, creation_line, find_setup_creation, option_line
from nbdebug.source.assignments import (
    certain_line,
    covering_statement,
    find_function,
    returned_by_function,
    returned_value,
)
from nbdebug.source.creation import Creation
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.non_finite_makers import NonFiniteKind, find_non_finite_maker
from nbdebug.source.numbering_lines import coding_calls
from nbdebug.source.producers import chosen_branch, executed_return, part_producer, part_steps, returned_expression
from nbdebug.source.scopes import Expression, Scope, file_scope, user_function
from nbdebug.source.search import assigned_names, call_arguments, call_name, read_names
from nbdebug.source.table_columns import value_names
from nbdebug.source.window_arrays import misplaced_slice_line
from nbdebug.source.window_lines import converted_start_line, misplaced_item_line, misplaced_window_line
from nbdebug.source.writes import find_filled_array, find_meeting, find_repetition, find_write, written_columns

Origin = (
    Literal["samples", "inputs", "targets", "padded targets", "target order", "loader"]
    | Literal["validation", "validation values"]
    | Literal["optimizer", "parameters", "scheduler", "loss"]
)
_POSITIONS: dict[Origin, int] = {"inputs": 0, "targets": -1, "padded targets": -1, "target order": -1}
_MAX_NESTING = 8


def origin_line(setup: Setup, origin: Origin, split: str | None = None) -> SourceLine | None:
    """Return the line that makes a part of the setup; the data are those of the training split by default.

    A loss of the user's own is made by what it returns. A conversion to a tensor or another dtype makes targets, but
    not their order; a collate function pads them. A function that makes the values of the validation split and none of
    training is entered.
    """
    optimizer = setup.optimizers[0] if len(setup.optimizers) == 1 else None
    if origin == "parameters":
        return option_line(setup, optimizer, "params", None) if optimizer is not None else None
    own_loss = user_function(setup.loss_fn) if origin == "loss" else None
    if own_loss and (returned := executed_return(*own_loss)):
        return returned.line
    if origin in ("optimizer", "scheduler", "loss"):
        return creation_line(
            setup, {"optimizer": optimizer, "scheduler": setup.scheduler, "loss": setup.loss_fn}[origin]
        )
    is_validation = origin.startswith("validation") or split in ("val", "validation")
    loader = setup.val_loader if is_validation else setup.train_loader
    if origin == "loader":
        sampler = getattr(loader, "sampler", None)
        stream = getattr(loader, "dataset", None)
        if isinstance(stream, IterableDataset) and (samples := next(sample_functions(loader, [stream]), None)):
            return _returned_line(setup, samples, None, [])
        chosen_sampler = None if isinstance(sampler, (RandomSampler, SequentialSampler)) else sampler
        return _sampler_line(loader) or creation_line(setup, chosen_sampler) or creation_line(setup, loader)
    if origin == "target order" and is_validation and (line := target_coding_line(setup)):
        return line
    selection = _split_line(setup, loader) if origin.startswith("validation") else None
    if selection and origin == "validation values":
        selection = _line_in_own_function(setup, selection)
    if origin == "padded targets" and (collated := collate_method(loader)):
        return _returned_line(setup, collated, -1, [])
    passes_conversions = origin == "target order"
    return selection or _data_line(setup, loader, _POSITIONS.get(origin), passes_conversions=passes_conversions)


def known_origin_line(setup: Setup, origin: Origin, split: str | None = None) -> SourceLine | None:
    """Return the line that makes a part of the setup as ``origin_line`` does; None also if the user's code raises."""
    try:
        return origin_line(setup, origin, split)
    except Exception:  # a finding is worth more than its second line
        return None


def pairing_line(setup: Setup) -> SourceLine | None:
    """Return the line that makes the target of a training sample in the function that pairs it with the input.

    That is the method of the dataset or the collate function, or the last function that it calls for both.
    """
    loader = setup.train_loader
    functions = sample_functions(loader, [*nested_datasets(getattr(loader, "dataset", None))])
    return next(filter(None, (_paired_target_line(function) for function in functions)), None)


def collated_target_line(loader: Any) -> SourceLine | None:
    """Return the line that takes the targets from the samples in the user's collate function, as ``pairing_line``."""
    collated = collate_method(loader)
    return _paired_target_line(collated, passes_conversions=True) if collated else None


def _paired_target_line(function: Method, *, passes_conversions: bool = False) -> SourceLine | None:
    """Return the line that makes the target in the function that pairs it with the input."""
    pair = executed_return(*function)
    for _ in range(_MAX_NESTING):
        pair = chosen_branch(pair) if pair else None
        pair = (returned_expression(pair) if pair else None) or pair
    if pair is None:
        return None
    target = part_producer(pair, -1, TARGET_KEYS, enters=lambda _: False, passes_conversions=passes_conversions)
    return target.line if target.scope is pair.scope else pair.line


def copying_line(setup: Setup) -> SourceLine | None:
    """Return the line of the user's collate function that makes targets which equal inputs; None if samples have both.

    Then it makes both of one part of the samples.
    """
    collated, dataset = collate_method(setup.train_loader), getattr(setup.train_loader, "dataset", None)
    try:
        parts = [*_arrays(dataset[0])] if collated and dataset is not None else []
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    pairs = combinations([part for part in parts if part.size > 1], 2)
    if collated is None or any(np.array_equal(first, second) for first, second in pairs):
        return None
    return _returned_line(setup, collated, -1, [], passes_conversions=True)


def _arrays(part: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the parts of a sample as arrays."""
    if isinstance(part, (tuple, dict)):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _arrays(inner)
    else:
        yield np.asarray(part)


def _sampler_line(loader: Any) -> SourceLine | None:
    """Return the line at which the user's sampler yields its first index; the caller preserves its state."""
    samplers: list[Any] = [getattr(loader, name, None) for name in ("batch_sampler", "sampler")]
    for sampler in samplers:
        method = getattr(type(sampler), "__iter__", None)
        if not isinstance(method, FunctionType) or not is_user_code(method.__code__.co_filename):
            continue
        file, indices = method.__code__.co_filename, iter(sampler)
        if next(indices, None) is not None and isinstance(indices, GeneratorType) and (frame := indices.gi_frame):
            return SourceLine(file, frame.f_lineno, method.__name__)
        syntax = find_function(method.__code__)
        value = returned_value(syntax) if syntax else None
        return SourceLine(file, value.lineno) if value else None
    return None


def written_line(
    setup: Setup, origin: Origin, split: str | None, values: Collection[float], columns: Collection[int] = ()
) -> SourceLine | None:
    """Return the line that writes some values, or into some columns, of the data that another line makes."""
    try:
        return find_write(origin_line(setup, origin, split), values, columns)
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def filled_array_line(setup: Setup) -> SourceLine | None:
    """Return the line that makes the array into which inputs are written, like another or of whole numbers."""
    try:
        made = _data_line(setup, setup.train_loader, 0, passes_conversions=True)
        return find_filled_array(made) or find_filled_array(origin_line(setup, "inputs"))
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def repetition_line(setup: Setup) -> SourceLine | None:
    """Return the line that may repeat rows of the data before they are split; None if it is not certain."""
    producer = _dataset_producer(find_setup_creation(setup, setup.val_loader), setup.val_loader)
    statement = covering_statement(producer.line) if producer else None
    names = assigned_names(statement) if isinstance(statement, ast.Assign) else set()
    return find_repetition(producer.line, read_names(producer.node) | names) if producer else None


def _split_line(setup: Setup, loader: Any) -> SourceLine | None:
    """Return the line that selects the samples of a loader: the one that makes its dataset.

    A function that makes it from other data selects what it is passed, so that its call counts; but if it is passed
    variables that the training data are not made from, the last assignment of one of them. So it is in a function whose
    call makes both splits. A function that makes both loaders selects nothing, so the arguments of its call count.
    """
    creation = find_setup_creation(setup, loader)
    producer = _dataset_producer(creation, loader)
    if creation and producer and not isinstance(producer.node, ast.Name):
        training_creation = find_setup_creation(setup, setup.train_loader)
        training_data = _dataset_producer(training_creation, setup.train_loader)
        if training_data and producer.node is training_data.node and isinstance(producer.node, ast.Call):
            producer = _dataset_producer(creation, loader, enters=lambda _: True) or producer
            training_data = _dataset_producer(training_creation, setup.train_loader, enters=lambda _: True)
        elif passed := _own_arguments(producer, training_data):
            makers = [part_producer(argument, None, enters=_has_constant_arguments).line for argument in passed]
            return max(makers, key=lambda maker: maker.number)
        own_names = read_names(producer.node) - read_names(training_data.node) if training_data else set()
        assigned = [assigned for name in own_names if (assigned := certain_line(producer.line, name))]
        return max(assigned, key=lambda assigned: assigned.number, default=producer.line)
    dataset = getattr(loader, "dataset", None)
    is_training_set = dataset is not None and dataset is getattr(setup.train_loader, "dataset", None)
    lines = (creation_line(setup, part) for part in (nested_datasets(dataset) if not is_training_set else ()))
    return next(filter(None, lines), creation.line if creation else None)


def _own_arguments(producer: Expression, other: Expression | None) -> list[Expression]:
    """Return the arguments from which an expression makes data, if another call of the function passes others."""
    passed = [argument for name, argument in producer.scope.arguments.items() if name in read_names(producer.node)]
    texts = {ast.unparse(argument.node) for argument in (other.scope.arguments.values() if other else ())}
    return [argument for argument in passed if texts and ast.unparse(argument.node) not in texts]


def _line_in_own_function(setup: Setup, line: SourceLine) -> SourceLine:
    """Return what is returned by the function that a line calls to make validation data, if training calls another."""
    training_data = _dataset_producer(find_setup_creation(setup, setup.train_loader), setup.train_loader)
    assigned = [certain_line(line, name) for name in (read_names(training_data.node) if training_data else ())]
    training_calls = {call_name(call) for assigned_line in assigned if (call := _assigned_call(assigned_line))}
    call = _assigned_call(line)
    if call is None or not training_calls or call_name(call) in training_calls:
        return line
    if returned := returned_expression(Expression(file_scope(line.file), call)):
        return returned.line
    value = returned_by_function(line.file, call_name(call))
    return SourceLine(line.file, value.lineno, call_name(call)) if value is not None else line


def _assigned_call(line: SourceLine | None) -> ast.Call | None:
    """Return the call whose result a line assigns; None for other lines."""
    statement = covering_statement(line) if line else None
    return statement.value if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) else None


def _dataset_producer(
    creation: Creation | None, loader: Any, enters: Callable[[ast.Call], bool] | None = None
) -> Expression | None:
    """Return the expression that makes the dataset of a loader; without ``enters``, calls with variables count."""
    argument = creation.argument(loader, "dataset") if creation else None
    if creation is None or argument is None:
        return None
    may_make = partial(_may_make, getattr(loader, "dataset", None))
    expression = call_argument(creation, loader, argument)
    return part_producer(expression, None, enters=enters or _has_constant_arguments, may_make=may_make)


def dataset_call(setup: Setup, loader: Any) -> Expression | None:
    """Return the call of its class that makes the dataset of a loader, as its argument is followed; else None."""
    made = _dataset_producer(find_setup_creation(setup, loader), loader)
    return creating_call(made, getattr(loader, "dataset", None)) if made else None


def _may_make(dataset: Any, value: Expression) -> bool:
    """Return whether an expression may make a dataset: it calls its class, or no class at all."""
    name = call_name(value.node)
    if name == "random_split":
        return isinstance(dataset, Subset)
    return not name[:1].isupper() or name in {kind.__name__ for kind in type(dataset).__mro__}


def _has_constant_arguments(call: ast.Call) -> bool:
    return not any(read_names(argument) for argument in call_arguments(call))


def _data_line(setup: Setup, loader: Any, position: int | None, *, passes_conversions: bool) -> SourceLine | None:
    """Return the line that makes the samples of a loader, or their part at a position.

    That is what the user's dataset or collate function returns, or the argument that the dataset keeps, else the
    tensors of a TensorDataset, else the line that creates the dataset or the loader.
    """
    datasets = [*nested_datasets(getattr(loader, "dataset", None))]
    for function in sample_functions(loader, datasets):
        if line := _returned_line(setup, function, position, datasets, passes_conversions=passes_conversions):
            return line
    return _created_data_line(setup, loader, datasets, position, passes_conversions=passes_conversions)


def _returned_line(
    setup: Setup, function: Method, position: int | None, datasets: list[Any], *, passes_conversions: bool = False
) -> SourceLine | None:
    """Return the line that makes what a function returns, or its part at a position."""
    returned = executed_return(*function)
    if returned is None:
        return None
    keys = TARGET_KEYS if position == -1 else ()
    if position is not None and not _is_part_of_others(returned.node, position):
        returned = part_producer(returned, position, keys, passes_conversions=passes_conversions)
    return _argument_line(setup, datasets[-1:], returned.node) or returned.line


def _is_part_of_others(value: ast.expr, position: int) -> bool:
    """Check whether a part of a tuple is a variable that the other parts contain, as in ``{"decoder": y}, y``."""
    parts = list(getattr(value, "elts", []))
    part = parts.pop(position) if len(parts) > 1 else None
    return isinstance(part, ast.Name) and any(part.id in read_names(other) for other in parts)


def _argument_line(setup: Setup, datasets: list[Any], value: ast.expr) -> SourceLine | None:
    """Return the line that makes the argument of a constructor which a dataset returns as it is."""
    for dataset in datasets if isinstance(value, ast.Name) else ():
        creation = find_setup_creation(setup, dataset)
        if isinstance(value, ast.Name) and creation and (argument := creation.argument(dataset, value.id)):
            return part_producer(call_argument(creation, dataset, argument), None).line
    return None


def _created_data_line(
    setup: Setup, loader: Any, datasets: list[Any], position: int | None, *, passes_conversions: bool
) -> SourceLine | None:
    """Return the line that makes the tensors of a loader, or that creates its dataset or the loader."""
    if position is not None and (tensor := tensor_argument(setup, loader, datasets, position)):
        return part_producer(tensor, None, passes_conversions=passes_conversions).line
    lines = (creation_line(setup, created) for created in [*reversed(datasets), loader])
    return next(filter(None, lines), None)


def tensor_argument(setup: Setup, loader: Any, datasets: list[Any], position: int) -> Expression | None:
    """Return the argument for a tensor of a TensorDataset in the call that creates the dataset."""
    for call in tensor_dataset_calls(setup, loader, datasets):
        pair = _unpacked_parts(call)
        scope, parts = pair or (call.scope, getattr(call.node, "args", []))
        is_complete = parts and not any(isinstance(part, ast.Starred) for part in parts)
        return Expression(scope, _without_row_selection(parts)[position]) if is_complete else None
    return None


def target_coding_line(setup: Setup) -> SourceLine | None:
    """Return the line of the only call that numbers the classes of the validation targets by themselves, if any."""
    loader = setup.val_loader
    try:
        tensor = tensor_argument(setup, loader, [*nested_datasets(getattr(loader, "dataset", None))], -1)
        lines = {call.line for call in coding_calls(tensor, None)} if tensor else set()
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    return lines.pop() if len(lines) == 1 else None


def computing_line(setup: Setup, origin: Origin, split: str | None, kind: NonFiniteKind) -> SourceLine | None:
    """Return the line of the only operation that can make values of stored tensors which are not finite."""
    loader = setup.val_loader if split in ("val", "validation") else setup.train_loader
    datasets = [*nested_datasets(getattr(loader, "dataset", None))]
    try:
        tensor = tensor_argument(setup, loader, datasets, _POSITIONS[origin])
        return find_non_finite_maker(tensor, kind) if tensor else None
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def unpacked_pair_line(setup: Setup) -> SourceLine | None:
    """Return the line that pairs inputs with targets for a call that unpacks them, as ``TensorDataset(*pairs(x))``."""
    loader = setup.train_loader
    calls = tensor_dataset_calls(setup, loader, [*nested_datasets(getattr(loader, "dataset", None))])
    pairs = (pair for call in calls if (pair := _unpacked_parts(call)))
    return next((Expression(scope, parts[-1]).line for scope, parts in pairs), None)


def _unpacked_parts(call: Expression) -> tuple[Scope, list[ast.expr]] | None:
    """Return the parts of the tuple or list that a call unpacks as all of its arguments; None if it does not."""
    arguments = getattr(call.node, "args", [])
    if len(arguments) != 1 or not isinstance(arguments[0], ast.Starred):
        return None
    for step, _ in part_steps(Expression(call.scope, arguments[0].value), None):
        if isinstance(step.node, (ast.Tuple, ast.List)):
            return step.scope, step.node.elts
    return None


def tensor_dataset_calls(setup: Setup, loader: Any, datasets: list[Any]) -> Iterator[Expression]:
    """Yield the call that creates the TensorDataset of a loader: as its argument is followed, and as it was created."""
    if not datasets or not isinstance(datasets[-1], TensorDataset):
        return
    creation = find_setup_creation(setup, loader)
    argument = creation.argument(loader, "dataset") if creation else None
    followed = part_producer(call_argument(creation, loader, argument), None) if creation and argument else None
    if followed and call_name(followed.node) == "TensorDataset":
        yield followed
    for dataset in reversed(datasets):
        if created := find_setup_creation(setup, dataset):
            yield call_argument(created, dataset, created.call)


def leaking_line(setup: Setup) -> SourceLine | None:
    """Return the only line that computes inputs of stored tensors from their targets; None if it is not certain."""
    inputs, targets = (_stored_tensor(setup, position) for position in (0, -1))
    return find_meeting(inputs.line, read_names(inputs.node), value_names(targets)) if inputs and targets else None


def target_column_line(setup: Setup) -> SourceLine | None:
    """Return the line that sets the column of a table from which stored targets are made.

    None without any, and if the inputs may contain this column: the line that makes them does not name it, as in
    ``frame.drop(columns="target")``.
    """
    inputs, targets = (_stored_tensor(setup, position) for position in (0, -1))
    if inputs is None or targets is None:
        return None
    line = part_producer(targets, None, passes_conversions=True).line
    maker = part_producer(inputs, None, passes_conversions=True).node
    constants = {node.value for node in ast.walk(maker) if isinstance(node, ast.Constant)}
    return line if not constants.isdisjoint(written_columns(covering_statement(line))) else None


def window_line(setup: Setup) -> SourceLine | None:
    """Return the line that selects windows of inputs, or their targets, so that these overlap; else None."""
    inputs, targets = (_stored_tensor(setup, position) for position in (0, -1))
    if inputs is None or targets is None:
        return _item_window_line(setup)
    return misplaced_window_line(inputs, targets) or misplaced_slice_line(inputs, targets)


def _item_window_line(setup: Setup) -> SourceLine | None:
    """Return the line of the user's dataset that selects the window of a sample, or its target, from a series."""
    datasets = [*nested_datasets(getattr(setup.train_loader, "dataset", None))]
    for method, dataset in sample_functions(setup.train_loader, datasets):
        pair = executed_return(method, dataset) if method.__name__ == "__getitem__" else None
        if pair is not None and isinstance(dataset, Sized) and len(dataset):
            return misplaced_item_line(pair, method.__code__.co_varnames[1], len(dataset) - 1)
    return None


def target_start_line(setup: Setup) -> SourceLine | None:
    """Return the line of the user's dataset that computes where a target starts from where its input starts."""
    datasets = [*nested_datasets(getattr(setup.train_loader, "dataset", None))]
    try:
        pairs = (executed_return(*method) for method in sample_functions(setup.train_loader, datasets))
        return next(filter(None, (converted_start_line(pair) for pair in pairs if pair)), None)
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _stored_tensor(setup: Setup, position: int) -> Expression | None:
    """Return the argument for a tensor of the TensorDataset that holds the training data."""
    datasets = [*nested_datasets(getattr(setup.train_loader, "dataset", None))]
    return tensor_argument(setup, setup.train_loader, datasets, position)


def _without_row_selection(parts: list[ast.expr]) -> list[ast.expr]:
    """Return the tensors whose rows are selected, as in ``x[:100], y[:100]``; parts of one tensor stay as they are."""
    selections = [part for part in parts if isinstance(part, ast.Subscript) and not isinstance(part.slice, ast.Tuple)]
    wholes = [selection.value for selection in selections]
    is_same_tensor = len({ast.unparse(whole) for whole in wholes}) < len(wholes)
    return parts if is_same_tensor or len(selections) < len(parts) else wholes
