"""The number in the user's source that an expression stands for: a variable, an argument, a default or a field."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.source.assignments import last_assignment
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, call_name, enclosing_scope, syntax_tree

_MAX_STEPS = 6


def find_number_literal(crash: Crash, file: str, node: ast.expr) -> tuple[str, ast.Constant] | None:
    """Return the only number that an expression stands for, with its file; None if there is none, or several."""
    places = [(file, node)]
    for _ in range(_MAX_STEPS):
        numbers = [(path, part) for path, part in places if isinstance(part, ast.Constant) and type(part.value) is int]
        if len(numbers) == len(places) == 1:
            return numbers[0]
        places = [place for path, part in places for place in _origins(crash, path, part)]
        if len(places) != 1:
            return None
    return None


def _origins(crash: Crash, file: str, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions that give a variable or an attribute its value."""
    if isinstance(node, ast.Name):
        line = last_assignment(SourceLine(file, node.lineno), node.id)
        scope = enclosing_scope(SourceLine(file, node.lineno))
        if line is not None:
            yield from _assigned_expressions(line, node.id)
        elif isinstance(scope, ast.FunctionDef) and node.id in [a.arg for a in _parameters(scope)]:
            yield from _passed_expressions(crash, file, scope, node.id)
        else:
            tree = syntax_tree(file)
            for statement in tree.body if tree is not None else ():
                yield from _assigned_expressions(SourceLine(file, statement.lineno), node.id)
    elif isinstance(node, ast.Attribute):
        yield from _field_expressions(crash, node.attr)


def _assigned_expressions(line: SourceLine, name: str) -> Iterator[tuple[str, ast.expr]]:
    tree = syntax_tree(line.file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.lineno == line.number and node.value is not None:
            targets = [getattr(target, "id", None) for target in assignment_targets(node)]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if name in targets and len(values) == len(targets):
                yield line.file, values[targets.index(name)]


def _parameters(scope: ast.FunctionDef) -> list[ast.arg]:
    return [*scope.args.args, *scope.args.kwonlyargs]


def _passed_expressions(crash: Crash, file: str, scope: ast.FunctionDef, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield what the calls of a function, or of the class that it constructs, pass for a parameter, or its default."""
    tree = syntax_tree(file) or ast.Module([], [])
    owners = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and scope in node.body]
    callee = owners[0] if owners and scope.name == "__init__" else scope.name
    names = [argument.arg for argument in scope.args.args][1 if owners else 0 :]
    arguments: list[tuple[str, ast.expr]] = []
    for path in sorted(crash_files(crash)):
        for call in ast.walk(syntax_tree(path) or ast.Module([], [])):
            if isinstance(call, ast.Call) and call_name(call) == callee:
                named = [keyword.value for keyword in call.keywords if keyword.arg == name]
                position = names.index(name) if name in names else len(call.args)
                arguments += [(path, value) for value in [*named, *call.args[position : position + 1]]]
    defaults = dict(zip([a.arg for a in scope.args.args][::-1], scope.args.defaults[::-1], strict=False))
    yield from arguments or ([(file, defaults[name])] if name in defaults else [])


def _field_expressions(crash: Crash, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield what constructors pass for a field, else its default, else what ``self`` gets for it."""
    arguments, defaults, assignments = [], [], []
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, ast.Call) and call_name(node)[:1].isupper():
                arguments += [(file, keyword.value) for keyword in node.keywords if keyword.arg == name]
            elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name and node.value is not None:
                defaults.append((file, node.value))
            elif isinstance(node, ast.Assign):
                targets = assignment_targets(node)
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                names = [getattr(target, "attr", None) for target in targets]
                if name in names and len(values) == len(targets):
                    assignments.append((file, values[names.index(name)]))
    yield from assignments or arguments or defaults
