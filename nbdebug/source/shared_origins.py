"""Find where several objects got the same list or dictionary: a default, a class, or a variable that functions use."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal

from nbdebug.source.assignments import own_statements
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import (
    assigned_names,
    assignment_targets,
    covers_line,
    file_nodes,
    function_node,
    syntax_tree,
)

CACHE_TYPE = type(functools.cache(int))
_MAX_FUNCTIONS = 200


@dataclass(frozen=True)
class SharedOrigin:
    """What gives several objects the same value: the default of a parameter, a class, or a variable.

    ``name`` is that of the parameter, the attribute or the variable, ``owner`` that of the function or the class.
    """

    holder: Literal["default", "class", "variable"]
    name: str
    owner: str
    line: SourceLine | None


def find_shared_origin(value: object, owners: Sequence[object]) -> SharedOrigin | None:
    """Return where some objects of the user's classes got a value that all of them have; None if it was passed."""
    classes = [kind for owner in owners for kind in user_classes(type(owner))]
    functions = [function for owner in owners for function in used_functions(owner)]
    for function in functions:
        if name := _default_name(function, value):
            return SharedOrigin("default", name, function.__name__, default_line(function, value))
    for kind in classes:
        for name, member in vars(kind).items():
            if member is value:
                return SharedOrigin("class", name, kind.__name__, class_line(kind, name))
    for function in functions:
        for name, variable in used_variables(function).items():
            if variable is value:
                return SharedOrigin("variable", name, "", _variable_line(function, name))
    return None


def user_classes(kind: type) -> list[type]:
    """Return a class and its bases, without those that have no method of the user's."""
    return [base for base in kind.__mro__ if any(_is_user_function(_as_function(m)) for m in vars(base).values())]


def used_functions(owner: object) -> Iterator[FunctionType]:
    """Yield a function, or the methods of an object, and the user's functions that they name, directly or in others."""
    members = [owner, *(member for kind in user_classes(type(owner)) for member in vars(kind).values())]
    functions = [_as_function(member) for member in members]
    pending = [*functions, *(inspect.unwrap(function) for function in functions if isinstance(function, FunctionType))]
    seen: set[FunctionType] = set()
    while pending and len(seen) < _MAX_FUNCTIONS:
        function = pending.pop(0)
        if _is_user_function(function) and function not in seen:
            seen.add(function)
            yield function
            pending += map(_as_function, used_variables(function).values())


def _is_user_function(member: Any) -> bool:
    return isinstance(member, FunctionType) and is_user_code(member.__code__.co_filename)


def _as_function(member: Any) -> Any:
    """Return the function of a method, a property or a cache; any other object as it is."""
    if type(member) is CACHE_TYPE:
        return _as_function(member.__wrapped__)
    if isinstance(member, (MethodType, classmethod, staticmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def used_variables(function: FunctionType) -> dict[str, Any]:
    """Return the variables outside a function that it names, also in functions inside it."""
    names = {*_names(function.__code__)}
    variables = {name: value for name, value in function.__globals__.items() if name in names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return variables


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def default_line(function: FunctionType, value: object) -> SourceLine | None:
    """Return the line of the parameter of a user's function that has a value as its default."""
    index = _default_index(function, value)
    node = function_node(function) if index is not None else None
    if node is None or index is None:
        return None
    nodes = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    number = nodes[index].lineno if index < len(nodes) else node.lineno
    return SourceLine(function.__code__.co_filename, number, function.__name__)


def _default_index(function: FunctionType, value: object) -> int | None:
    """Return the position of a value among the defaults of a user's function, those of keywords last."""
    if not is_user_code(function.__code__.co_filename):
        return None
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return next((index for index, default in enumerate(defaults) if default is value), None)


def _default_name(function: FunctionType, value: object) -> str | None:
    """Return the parameter of a user's function that has a value as its default."""
    if _default_index(function, value) is None:
        return None
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.default is value]
    return names[0] if names else None


def class_line(kind: type, attribute: str) -> SourceLine | None:
    """Return the line of a class that sets an attribute."""
    methods = [member for member in vars(kind).values() if isinstance(member, FunctionType)]
    file = methods[0].__code__.co_filename if methods else ""
    for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
        for statement in node.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__ else ():
            if any(attribute in assigned_names(target) for target in assignment_targets(statement)):
                return SourceLine(file, statement.lineno, kind.__name__)
    return None


def _variable_line(function: FunctionType, name: str) -> SourceLine | None:
    """Return the first statement that assigns a variable of a function around this one, or of its file."""
    file, number = function.__code__.co_filename, function.__code__.co_firstlineno
    tree = syntax_tree(file)
    if tree is None:
        return None
    nodes = [node for node in file_nodes(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [node for node in nodes if node.lineno < number and covers_line(node, number)]
    scopes = sorted(around, key=lambda node: -node.lineno) if name in function.__code__.co_freevars else [tree]
    return next(
        (SourceLine(file, first) for scope in scopes if (first := _first_line(own_statements(scope), name))), None
    )


def _first_line(statements: Iterable[ast.stmt], name: str) -> int:
    """Return the number of the first statement that assigns a variable; 0 if none does."""
    numbers = [
        statement.lineno
        for statement in statements
        if any(name in assigned_names(target) for target in assignment_targets(statement))
    ]
    return min(numbers, default=0)
