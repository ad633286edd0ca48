"""The statement by which the data of one split lack a transform that those of the other split have."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from torch.utils.data import Subset

from nbdebug.setup.data_lines import tensor_dataset_calls
from nbdebug.setup.part_sources import constructor_argument, find_part, operands
from nbdebug.setup.sample_functions import nested_datasets
from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.attribute_makers import assigned_value
from nbdebug.source.creation import Creation
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_steps
from nbdebug.source.scopes import Expression
from nbdebug.source.search import (
    assignment_targets,
    call_name,
    covers_line,
    enclosing_scope,
    expression_texts,
    file_nodes,
    parameter_names,
    syntax_tree,
    walk,
)
from nbdebug.source.variable_values import Part, possible_assignments

_MAX_DEPTH, _MAX_CHAINS = 40, 16
_NO_TRANSFORMS = {"train_test_split", "random_split", "TensorDataset", "DataLoader", "Subset", "split", "array_split"}
_NO_TRANSFORMS |= {"tensor", "as_tensor", "from_numpy", "asarray", "array", "FloatTensor", "Tensor", "astype", "to"}
_NO_TRANSFORMS |= {"float", "double", "half", "type", "numpy", "copy", "clone", "contiguous", "to_numpy", "drop"}
_NO_TRANSFORMS |= {"unsqueeze", "squeeze", "view", "reshape", "flatten", "ascontiguousarray", "DataFrame", "detach"}
_NO_TRANSFORMS |= {"reset_index", "head", "tail", "sample", "shuffle", "permutation", "stack", "read_csv", "load"}
_Chain = list[Expression]


def find_lacking_transform(setup: Setup, position: int = 0) -> SourceLine | None:
    """Return the last statement that makes the data of the split whose chain lacks a transform of the other one.

    The inputs (position 0) or targets (-1) of both splits are followed back to their common source. If validation has
    a transform that training lacks, it is the line of this transform, and if a statement transforms the rows of one
    split in their common source, it is this one. None if neither chain lacks any.
    """
    try:
        chains = [_chains(setup, loader, position) for loader in (setup.train_loader, setup.val_loader)]
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    if written := _written_rows(setup, chains):
        return written
    for train in chains[0]:
        for val in chains[1]:
            own, other = _without_common_source(val, train), _without_common_source(train, val)
            transforms, expected = Counter(_transforms(own)), Counter(_transforms(other))
            if extra := transforms - expected:
                return next((e.line for e in own if _transform(e) in extra), None)
            if expected - transforms:
                return _last_statement(own)
    return None


def _chains(setup: Setup, loader: Any, position: int) -> list[_Chain]:
    """Return the expressions from the data of a loader back to their source, for each choice that may have been."""
    start = find_part(setup, loader, position)
    return [*_extended([], start, setup, loader)][:_MAX_CHAINS] if start else []


def _extended(chain: _Chain, part: Part, setup: Setup, loader: Any) -> Iterator[_Chain]:
    """Yield the chains that start with some expressions and go on with a part."""
    steps = [*part_steps(*part, passes_conversions=True)]
    chain, (end, position) = [*chain, *(step for step, _ in steps)], steps[-1]
    sources: list[Part] = []
    if isinstance(end.node, ast.Name):
        sources = possible_assignments(end, position)
        passed = constructor_argument(setup, loader, end.node.id) if end.scope.function == "__init__" else None
        sources += [(passed, None)] if passed else []
    else:
        sources = [source for source in operands(end, position) if not isinstance(source[0].node, ast.Constant)][:1]
    if not sources or len(chain) > _MAX_DEPTH:
        yield chain
    for source in sources if len(chain) <= _MAX_DEPTH else ():
        yield from _extended(chain, source, setup, loader)


def _without_common_source(chain: _Chain, other: _Chain) -> _Chain:
    """Return a chain without the expressions at its end that are those of another chain."""
    end = 0
    while end < min(len(chain), len(other)) and chain[-1 - end].node is other[-1 - end].node:
        end += 1
    return chain[: len(chain) - end]


def _transforms(chain: _Chain) -> list[str]:
    return list(filter(None, map(_transform, chain)))


def _transform(expression: Expression) -> str:
    """Return what an expression does to data: the function that it calls, or its operator with the constants in it."""
    node = expression.node
    if isinstance(node, ast.BinOp):
        constants = [ast.unparse(side) for side in (node.left, node.right) if isinstance(side, ast.Constant)]
        return " ".join([type(node.op).__name__, *constants])
    name = call_name(node).removeprefix("fit_")
    return "" if name in _NO_TRANSFORMS or name[:1].isupper() else name


def _last_statement(chain: _Chain) -> SourceLine | None:
    """Return the first statement of a chain that assigns a variable, else its first expression outside of a class."""
    outside = [expression for expression in chain if expression.scope.function not in ("__getitem__", "__init__")]
    for expression in outside:
        if not isinstance(expression.node, ast.Name) and isinstance(covering_statement(expression.line), ast.Assign):
            return expression.line
    return outside[0].line if outside else None


def _written_rows(setup: Setup, chains: list[list[_Chain]]) -> SourceLine | None:
    """Return the first statement that transforms, in the common source, the rows that only one split selects.

    None if statements transform other rows of it too.
    """
    loaders = (setup.train_loader, setup.val_loader)
    splits = [_selections(setup, *pair) for pair in zip(loaders, chains, strict=True)]
    sources = [{ast.unparse(e.node) for chain in split for e in chain} for split in chains]
    writes = [
        (rows, SourceLine(file, statement.lineno))
        for file in {expression.scope.file for split in chains for chain in split for expression in chain}
        for statement in file_nodes(syntax_tree(file))
        for target in assignment_targets(statement)
        if isinstance(target, ast.Subscript) and isinstance(statement, (ast.Assign, ast.AugAssign))
        if (rows := _rows(target.slice)) != ":"
        if (source := ast.unparse(_indexed(target))) in sources[0] & sources[1]
        if isinstance(statement, ast.AugAssign) or source in expression_texts(statement.value)
    ]
    indices = {index for index, _ in writes}
    is_of_one_split = len(indices) == 1 and sum(not indices.isdisjoint(selections) for selections in splits) == 1
    return min((line for _, line in writes), key=lambda line: line.number) if is_of_one_split else None


def _selections(setup: Setup, loader: Any, chains: list[_Chain]) -> set[str]:
    """Return the indices by which the rows of a loader are selected from other data."""
    datasets = [*nested_datasets(getattr(loader, "dataset", None))]
    calls = [call for call in tensor_dataset_calls(setup, loader, datasets) if isinstance(call.node, ast.Call)]
    parts = [Expression(call.scope, part) for call in calls for part in getattr(call.node, "args", [])]
    selections = set()
    for expression in [*parts, *(expression for chain in chains for expression in chain)]:
        if isinstance(expression.node, ast.Subscript):
            index = expression.node.slice
            passed = expression.scope.arguments.get(getattr(index, "id", ""))
            selections.add(_rows(passed.node if passed else index))
    for dataset in datasets:
        creation = find_setup_creation(setup, dataset) if isinstance(dataset, Subset) else None
        if creation and (indices := creation.argument(dataset, "indices")):
            selections.add(ast.unparse(indices))
    return selections


def _rows(index: ast.expr) -> str:
    """Return the part of an index that selects rows."""
    return ast.unparse(index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index)


def _indexed(target: ast.Subscript) -> ast.expr:
    """Return the table or array of which an index selects a part."""
    owner = target.value
    return owner.value if isinstance(owner, ast.Attribute) and owner.attr in ("iloc", "loc") else owner


def find_lacking_option(setup: Setup, executed: SourceLine | None) -> SourceLine | None:
    """Return the call that creates the dataset of one split without an option that the other one's has.

    The option, such as a transform, is None by default. If the splits differ in an executed line, it must be one that
    uses this option.
    """
    datasets = [
        [*nested_datasets(getattr(loader, "dataset", None))] for loader in (setup.train_loader, setup.val_loader)
    ]
    for train, val in zip(*datasets, strict=False):
        for attribute in vars(train) if type(train) is type(val) and hasattr(train, "__dict__") else ():
            values = [getattr(dataset, "__dict__", {}).get(attribute) for dataset in (train, val)]
            is_option = (values[0] is None) != (values[1] is None)
            is_plain = any(isinstance(value, (bool, int, float, str)) for value in values)
            option = constructor_option(train, attribute) if is_option and not is_plain else ""
            if option and (executed is None or _uses(executed, attribute)):
                lacking = train if values[0] is None else val
                passes = partial(_passes_option, lacking, option)
                creation = find_setup_creation(setup, lacking, is_excluded=passes)
                return creation.line if creation and not passes(creation) else None
    return None


def constructor_option(dataset: Any, attribute: str) -> str:
    """Return the parameter of the constructor that a dataset keeps in an attribute; "" if there is none."""
    kind: type = type(dataset)
    parameters = parameter_names(kind)
    if attribute in parameters:
        return attribute
    values = [assigned_value(line, attribute) for line in find_assignments(dataset, attribute)]
    names = {getattr(value[0], "id", "") for value in values if value}
    return next(iter(names.intersection(parameters)), "")


def _passes_option(dataset: Any, option: str, creation: Creation) -> bool:
    argument = creation.argument(dataset, option)
    return argument is not None and getattr(argument, "value", ...) is not None


def _uses(line: SourceLine, attribute: str) -> bool:
    """Check whether a statement, or the test of a choice around it, reads an attribute."""
    scope, statement = enclosing_scope(line), covering_statement(line)
    choices = [node.test for node in walk(scope) if isinstance(node, ast.If) and covers_line(node, line.number)]
    parts = [*choices, *([statement] if statement else [])]
    return any(getattr(node, "attr", "") == attribute for part in parts for node in ast.walk(part))
