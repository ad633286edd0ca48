"""The statement that writes the values of a target at a row and a column."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.sample_functions import nested_datasets
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import effective_methods, function_by_name
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import assignment_targets, call_name, covers_line, enclosing_scope, function_node, read_names

_Functions = dict[tuple[str, str, int], ast.AST]


def position_write_line(setup: Setup) -> SourceLine | None:
    """Return the only statement that writes to two computed positions of an array, where the targets are made.

    That is a method of the training dataset, or the function that makes the targets, or one that these call by name. If
    there is one in each branch of a choice, it is the choice. None if there is none, or more than one.
    """
    functions = _functions(setup)
    for (file, _, _), node in [*functions.items()]:
        names = {call_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}
        called = (function_by_name(file, name) for name in names)
        functions |= {(file, function.name, function.lineno): function for function in called if function}
    lines = {
        SourceLine(file, number, name) for (file, name, _), node in functions.items() for number in _write_numbers(node)
    }
    return lines.pop() if len(lines) == 1 else None


def _functions(setup: Setup) -> _Functions:
    """Return the methods of the training dataset, and the function that makes its targets."""
    made = origin_line(setup, "targets")
    scope = enclosing_scope(made) if made else None
    functions: _Functions = dict(_methods(setup))
    if made and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        functions[made.file, scope.name, scope.lineno] = scope
    return functions


def _methods(setup: Setup) -> Iterator[tuple[tuple[str, str, int], ast.AST]]:
    for dataset in nested_datasets(getattr(setup.train_loader, "dataset", None)):
        for method in effective_methods(type(dataset)):
            file, node = method.__code__.co_filename, function_node(method)
            if is_user_code(file) and node is not None:
                yield (file, node.name, node.lineno), node


def _write_numbers(function: ast.AST) -> set[int]:
    """Return the lines of a function that write to a place, or of the innermost choice around them all."""
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    writes = {node.lineno for node in statements if any(map(_names_place, assignment_targets(node)))}
    choices = [node for node in statements if isinstance(node, ast.If) and all(covers_line(node, n) for n in writes)]
    return {max(choice.lineno for choice in choices)} if len(writes) > 1 and choices else writes


def _names_place(target: ast.expr) -> bool:
    """Check whether the last two indices of a write are computed from different variables."""
    index = target.slice if isinstance(target, ast.Subscript) else None
    names = [read_names(part) for part in index.elts[-2:]] if isinstance(index, ast.Tuple) else []
    return len(names) == 2 and all(names) and names[0] != names[1]
