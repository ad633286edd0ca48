"""Imports of the user's source: what a line can call of a module, and where an edit may add an import."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterator

from nbdebug.finding import Edit
from nbdebug.source.edits import insert_before
from nbdebug.source.location import SourceLine
from nbdebug.source.notebook_cells import current_cells
from nbdebug.source.search import SourceScope, assigned_names, covers_line, scope_nodes, syntax_tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def imported_function(line: SourceLine, module: str, function: str, notebook_names: Collection[str] = ()) -> str | None:
    """Return the code by which a line can call a function of a module, such as ``copy.deepcopy`` or ``deepcopy``.

    Return None unless an import certainly ran before the line: one in another function, or in a branch that the line
    is not in, does not count. ``notebook_names`` are the names of imported modules in a notebook.
    """
    tree = syntax_tree(line.file)
    if tree is None:
        return None
    scopes = _enclosing_scopes(tree, line.number)
    for position, scope in enumerate(scopes):
        for name, code in _imported_codes(_certain_statements(scope, line.number), module, function):
            if not any(_bindings(inner, name) for inner in scopes[:position]):
                return code
    is_known = module in notebook_names and line.file in current_cells()
    return f"{module}.{function}" if is_known and not any(_bindings(scope, module) for scope in scopes[:-1]) else None


def insert_import(line: SourceLine, module: str) -> tuple[Edit, ...]:
    """Return the insertion of an import that certainly runs before a line; () if its name has another meaning there.

    It stands before the outermost statement around the line. If a function around the line imports the module
    itself, in a branch, the name belongs to this function, and the import stands at the start of its body.
    """
    tree = syntax_tree(line.file)
    if tree is None:
        return ()
    scope = next(scope for scope in _enclosing_scopes(tree, line.number) if _bindings(scope, module) or scope is tree)
    if not _bindings(scope, module) <= {module}:
        return ()
    if isinstance(scope, ast.Module):
        return _insert_at_start(line, tree, module)
    first = scope.body[1 if ast.get_docstring(scope) is not None else 0]
    is_on_own_line = linecache.getline(line.file, first.lineno)[: first.col_offset].isspace()
    return (insert_before(line.file, first.lineno, f"import {module}"),) if is_on_own_line else ()


def _insert_at_start(line: SourceLine, tree: ast.Module, module: str) -> tuple[Edit, ...]:
    """Return the insertion of an import before the outermost statement on a line, with its decorators."""
    number = line.number
    for statement in reversed(tree.body):
        if covers_line(statement, number):
            number = min([statement.lineno, *(part.lineno for part in getattr(statement, "decorator_list", ()))])
    return (insert_before(line.file, number, f"import {module}"),)


def _enclosing_scopes(tree: ast.Module, number: int) -> list[SourceScope]:
    """Return the functions around a line, innermost first, and the whole file or cell."""
    functions = [node for node in scope_nodes(tree) if isinstance(node, _FUNCTIONS) and covers_line(node, number)]
    return [*sorted(functions, key=lambda node: node.lineno, reverse=True), tree]


def _certain_statements(scope: SourceScope, number: int) -> Iterator[ast.stmt]:
    """Yield the statements of a function, file or cell that have run when one of its lines runs.

    A function inside runs after the whole body of the file or function around it.
    """
    body: list[ast.stmt] = scope.body
    while body:
        around = next((statement for statement in body if covers_line(statement, number)), None)
        is_outer = isinstance(around, (*_FUNCTIONS, ast.ClassDef))
        yield from (s for s in body if s is not around and (is_outer or s.lineno <= number))
        if around is None or is_outer:
            return
        body = _block_around(around, number)


def _block_around(statement: ast.stmt, number: int) -> list[ast.stmt]:
    """Return the block of a compound statement, such as one branch of a choice, that covers a line."""
    parts: list[ast.AST] = [statement]
    while parts:
        part = parts.pop()
        for name in _BLOCKS:
            block = getattr(part, name, [])
            inner = [item for item in block if isinstance(item, (ast.ExceptHandler, ast.match_case))]
            parts += inner
            if not inner and any(covers_line(item, number) for item in block):
                return list(block)
    return []


def _imported_codes(statements: Iterator[ast.stmt], module: str, function: str) -> Iterator[tuple[str, str]]:
    """Yield the name that each import binds, and the code of a function of its module by this name."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            names = [alias.asname or alias.name for alias in statement.names if alias.name == module]
            yield from ((name, f"{name}.{function}") for name in names)
        elif isinstance(statement, ast.ImportFrom) and statement.module == module and not statement.level:
            names = [alias.asname or alias.name for alias in statement.names if alias.name == function]
            yield from zip(names, names, strict=True)


def _bindings(scope: SourceScope, name: str) -> set[str]:
    """Return what binds a name in a function, file or cell: the modules that imports give it, and "" for all else."""
    nodes = [node for statement in scope.body for node in ast.walk(statement)]
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    bindings = {
        alias.name if isinstance(node, ast.Import) else ""
        for node in imports
        for alias in node.names
        if (alias.asname or alias.name) == name
    }
    arguments = [] if isinstance(scope, ast.Module) else [*ast.walk(scope.args)]
    others = {node.arg for node in arguments if isinstance(node, ast.arg)} | assigned_names(scope)
    others |= {node.name for node in nodes if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}
    return bindings | {""} if name in others else bindings
