"""Changes of the lines that put inputs or targets into another order than the other, or remove rows from one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdebug.finding import Edit
from nbdebug.rule_engine.statement_edits import remove_statement
from nbdebug.setup import Setup
from nbdebug.setup.reordered_lines import LoneRemoval
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.assignments import covering_statement
from nbdebug.source.creation import Creation
from nbdebug.source.edits import insert_after_statement, node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import SourceScope, enclosing_scope, syntax_tree

_SHUFFLES = ("shuffle", "permuted")


def find_reordering(setup: Setup) -> tuple[SourceLine | None, tuple[Edit, ...]]:
    """Return the only line that reorders inputs or targets alone, and the edit that reorders both alike or neither.

    Reads the function that creates the training dataset from a variable of inputs and one of targets.
    """
    creation = find_setup_creation(setup, setup.train_loader)
    made = _dataset_call(creation) if creation else None
    names = [_variable(argument) for argument in made.args] if made else []
    if creation is None or made is None or len(names) < 2 or not names[0] or not names[-1]:
        return None, ()
    scope = enclosing_scope(SourceLine(creation.file, made.lineno))
    nodes = list(ast.walk(scope)) if scope else []
    pair = (names[0], names[-1])
    by_statement = [[*_reorderings(node, pair)] for node in nodes if isinstance(node, ast.stmt)]
    changes = [change for group in by_statement if len(group) == 1 for change in group]  # not of both in one statement
    single = [
        change
        for change in changes
        if not any(_is_counterpart(change, other) for other in changes if other is not change)
    ]
    if len(single) != 1:
        return None, ()
    statement, name, index = single[0]
    line = SourceLine(creation.file, statement.lineno)
    if not index.isidentifier():
        return line, (remove_statement(creation.file, statement),)
    other = pair[1] if name == pair[0] else pair[0]
    code = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", other, ast.unparse(statement))
    return line, (insert_after_statement(creation.file, statement, code),)


def _dataset_call(creation: Creation) -> ast.Call | None:
    """Return the call that makes the dataset of a loader, in the call of the loader or assigned before."""
    argument = next(iter(creation.call.args), None)
    if isinstance(argument, ast.Name):
        tree = syntax_tree(creation.file)
        values = [
            node.value
            for node in (ast.walk(tree) if tree else ())
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == argument.id
        ]
        argument = values[0] if len(values) == 1 else None
    return argument if isinstance(argument, ast.Call) else None


def _variable(node: ast.expr) -> str:
    """Return the variable inside slices and conversions; "" for any other value."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return ast.unparse(node) if isinstance(node, ast.Name) else ""


def _reorderings(statement: ast.stmt, names: tuple[str, str]) -> Iterator[tuple[ast.stmt, str, str]]:
    """Yield the statement, the variable and the index, if a statement reorders one of two variables in place."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        call, name = statement.value, _variable(statement.value.args[0])
        if name in names and isinstance(call.func, ast.Attribute) and call.func.attr in _SHUFFLES:
            yield statement, name, ast.unparse(call.func) + "()"
        return
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    pairs = (
        list(zip(target.elts, value.elts, strict=True))
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
        else [(target, value)]
    )
    for part, new in pairs:
        name = _variable(part)
        if name in names and isinstance(new, ast.Subscript) and _variable(new) == name and _is_order(new.slice):
            yield statement, name, ast.unparse(new.slice)


def _is_order(index: ast.expr) -> bool:
    return isinstance(index, (ast.Name, ast.Call))


def _is_counterpart(first: tuple[ast.stmt, str, str], other: tuple[ast.stmt, str, str]) -> bool:
    return first[1] != other[1] and first[2] == other[2] and first[2].isidentifier()


def remove_from_both(removal: LoneRemoval) -> tuple[Edit, ...]:
    """Return the edit that keeps the same rows of inputs and targets, for a statement such as ``x = x[mask]``.

    Return () for another statement, or where the other part is not known by a name before it.
    """
    node, file = removal.expression.node, removal.expression.scope.file
    line, scope = removal.expression.line, enclosing_scope(removal.expression.line)
    statement = covering_statement(line)
    if not isinstance(statement, ast.Assign) or not isinstance(node, ast.Subscript) or scope is None:
        return ()
    name = ast.unparse(statement.targets[0])
    is_of_itself = len(statement.targets) == 1 and ast.unparse(statement.value) == ast.unparse(node)
    other = next((other for other in removal.others if _is_known_before(other, scope, statement)), None)
    if not is_of_itself or ast.unparse(node.value) != name or other is None:
        return ()
    names = {part.id for part in ast.walk(scope) if isinstance(part, ast.Name)}
    keep = node.slice.id if isinstance(node.slice, ast.Name) else "keep" if "keep" not in names else "is_kept"
    first = "" if isinstance(node.slice, ast.Name) else f"{keep} = {node_text(file, node.slice)}\n"
    indentation = " " * statement.col_offset
    text = f"{name}, {other} = {name}[{keep}], {other}[{keep}]"
    return (replace_node(file, statement, f"{first}{indentation if first else ''}{text}"),)


def _is_known_before(name: str, scope: SourceScope, statement: ast.stmt) -> bool:
    """Return whether a variable of a function is a parameter, or is assigned before a statement."""
    parameters = {argument.arg for argument in scope.args.args} if isinstance(scope, ast.FunctionDef) else set[str]()
    stored = (part for part in ast.walk(scope) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    return name in parameters or any(part.id == name and part.lineno < statement.lineno for part in stored)
