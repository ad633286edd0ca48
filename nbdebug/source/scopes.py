"""Scopes of the user's code: what its names refer to in the running program, and which branch of a choice runs."""

from __future__ import annotations

import ast
import inspect
import operator
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from nbdebug.source.assignments import FunctionNode, find_function, own_statements
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import assigned_names, covers_line, enclosing_scope

UNKNOWN = object()
# The name of the module that was read from a file; without any, the number of modules that were searched, of thousands.
_NAMES_OF_MODULES: dict[str, tuple[str, int]] = {}
_SIMPLE_TYPES = (bool, int, float, str, type(None))
_PARTS_OF_MODULES = ("_modules", "_parameters", "_buffers")
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le},
    **{ast.Gt: operator.gt, ast.GtE: operator.ge},
}


@dataclass(frozen=True)
class Expression:
    """An expression of the user's source and the scope in which it is evaluated."""

    scope: Scope
    node: ast.expr

    @property
    def line(self) -> SourceLine:
        """The first line of the expression."""
        return SourceLine(self.scope.file, self.node.lineno, self.scope.function)

    @property
    def span(self) -> tuple[object, ...]:
        """The file and the first and last character of the expression, the same in all scopes."""
        node = self.node
        return self.scope.file, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


@dataclass(frozen=True)
class Scope:
    """A function, file or cell, with what its names refer to.

    ``variables`` are those of the module and of closures, ``bound`` the local ones whose objects are known, such as
    ``self``, and ``arguments`` the expressions that the call of the function passes.
    """

    file: str
    function: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    bound: Mapping[str, Any] = field(default_factory=dict, repr=False)
    arguments: Mapping[str, Expression] = field(default_factory=dict, repr=False)

    def value(self, node: ast.expr) -> Any:
        """Return the value of a name, an attribute, a comparison or a sum; ``UNKNOWN`` if it cannot be told."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._variable(node)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return UNKNOWN if owner is UNKNOWN else _stored_attribute(owner, node.attr)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return _compare(node.ops[0], self.value(node.left), self.value(node.comparators[0]))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _calculate(_ARITHMETIC[type(node.op)], self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.truth(node.operand)
            return UNKNOWN if truth is None else not truth
        return UNKNOWN

    def truth(self, test: ast.expr) -> bool | None:
        """Return whether a test holds; None if it cannot be told."""
        value = self.value(test)
        if value is UNKNOWN or isinstance(value, _SIMPLE_TYPES):
            return None if value is UNKNOWN else bool(value)
        decides = any(inspect.getattr_static(type(value), name, None) for name in ("__bool__", "__len__"))
        return None if decides else True

    def runs(self, statement: ast.stmt, choices: list[ast.If]) -> bool:
        """Return False if a statement is in the branch of a choice that does not run."""
        for choice in choices:
            truth = self.truth(choice.test) if covers_line(choice, statement.lineno) else None
            branch = choice.orelse if truth else choice.body
            if truth is not None and any(covers_line(part, statement.lineno) for part in branch):
                return False
        return True

    def _variable(self, node: ast.Name) -> Any:
        if node.id in self.bound:
            return self.bound[node.id]
        if node.id in self.arguments:
            argument = self.arguments[node.id]
            return argument.scope.value(argument.node)
        syntax = enclosing_scope(SourceLine(self.file, node.lineno))
        is_local = not isinstance(syntax, ast.Module) and syntax is not None and node.id in local_names(syntax)
        return UNKNOWN if is_local else self.variables.get(node.id, UNKNOWN)

    def callee(self, call: ast.Call) -> tuple[FunctionType, Any] | None:
        """Return the user's function that a call runs, and the object of which it is a method."""
        return user_function(self.value(call.func))

    def entered(self, function: FunctionType, owner: Any, call: ast.Call) -> Scope:
        """Return the scope of a function that a call in this scope runs."""
        scope = function_scope(function, owner)
        syntax = find_function(function.__code__)
        arguments = dict(bind_arguments(syntax, call, self, scope, has_owner=owner is not None)) if syntax else {}
        return Scope(scope.file, scope.function, scope.variables, scope.bound, arguments)

    def entered_by_name(self, syntax: ast.FunctionDef, call: ast.Call, owner: Any = None) -> Scope:
        """Return the scope of a function of the same file of which no object is known, or of a method of ``owner``."""
        parameters = [*syntax.args.posonlyargs, *syntax.args.args]
        bound = {parameters[0].arg: owner} if owner is not None and owner is not UNKNOWN and parameters else {}
        scope = Scope(self.file, syntax.name, self.variables, bound)
        arguments = dict(bind_arguments(syntax, call, self, scope, has_owner=owner is not None))
        return Scope(self.file, syntax.name, self.variables, bound, arguments)


def function_scope(function: FunctionType, owner: Any = None) -> Scope:
    """Return the scope of a function or method of the running program."""
    code = function.__code__
    enclosed = dict(_cell_contents(zip(code.co_freevars, function.__closure__ or (), strict=True)))
    bound = {code.co_varnames[0]: owner} if owner is not None and code.co_argcount else {}
    # The lines of a lambda function are those of the function around it, of which its free variables are local ones.
    bound |= enclosed if code.co_name == "<lambda>" else {}
    return Scope(code.co_filename, code.co_name, ChainMap(enclosed, function.__globals__), bound)


def file_scope(file: str) -> Scope:
    """Return the scope of a file with the variables of its module; that of notebook cells is ``__main__``."""
    module = _module_of_file(file)
    if module is None and (file.startswith("<") or "ipykernel" in file):
        module = sys.modules.get("__main__")
    return Scope(file, "", vars(module) if module is not None else {})


def _module_of_file(file: str) -> Any:
    """Return the first imported module that was read from a file; None without any."""
    known_name, module_count = _NAMES_OF_MODULES.get(file, ("", 0))
    known = sys.modules.get(known_name)
    if getattr(known, "__file__", None) == file:
        return known
    if module_count == len(sys.modules):
        return None
    for name, module in [*sys.modules.items()]:
        if getattr(module, "__file__", None) == file:
            _NAMES_OF_MODULES[file] = name, 0
            return module
    _NAMES_OF_MODULES[file] = "", len(sys.modules)
    return None


def user_function(called: Any) -> tuple[FunctionType, Any] | None:
    """Return the user's function that runs when an object is called, and the object of which it is a method."""
    owner = None
    while isinstance(called, partial):
        called = called.func
    if isinstance(called, MethodType):
        called, owner = called.__func__, called.__self__
    elif called is not UNKNOWN and not isinstance(called, (FunctionType, type)):
        kind = type(called)
        methods = [inspect.getattr_static(kind, name, None) for name in ("__call__", "forward")]
        called, owner = next((method for method in methods if _is_user_function(method)), None), called
    return (called, owner) if _is_user_function(called) else None


def local_names(syntax: FunctionNode | ast.AST) -> set[str]:
    """Return the parameters of a function and the names that it assigns."""
    parameters = {node.arg for node in ast.walk(getattr(syntax, "args", syntax)) if isinstance(node, ast.arg)}
    statements = own_statements(syntax) if isinstance(syntax, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
    return parameters.union(*(_own_assigned_names(statement) for statement in statements))


def _own_assigned_names(statement: ast.stmt) -> set[str]:
    is_compound = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return {statement.name} if is_compound else assigned_names(statement)  # type: ignore[attr-defined]


def _is_user_function(function: Any) -> bool:
    return isinstance(function, FunctionType) and is_user_code(function.__code__.co_filename)


def _cell_contents(cells: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue


def _stored_attribute(owner: Any, name: str) -> Any:
    """Return an attribute without running the user's code: properties and ``__getattr__`` are unknown."""
    stored = getattr(owner, "__dict__", None) or {}
    parts = [stored.get(key) for key in _PARTS_OF_MODULES] if not isinstance(owner, type) else []
    for values in (stored if not isinstance(owner, type) else {}, *filter(None, parts)):
        if name in values:
            return values[name]
    member = inspect.getattr_static(owner if isinstance(owner, type) else type(owner), name, UNKNOWN)
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__ if isinstance(member, staticmethod) else UNKNOWN
    if isinstance(member, FunctionType):
        return member if isinstance(owner, type) else MethodType(member, owner)
    return UNKNOWN if hasattr(type(member), "__get__") else member


def _compare(comparison: ast.cmpop, left: Any, right: Any) -> Any:
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(comparison, (ast.Is, ast.IsNot)):
        return (left is right) == isinstance(comparison, ast.Is)
    compare = _COMPARISONS.get(type(comparison))
    if compare is None or not isinstance(left, _SIMPLE_TYPES) or not isinstance(right, _SIMPLE_TYPES):
        return UNKNOWN
    try:
        return compare(left, right)
    except TypeError:
        return UNKNOWN


def _calculate(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return the sum, difference or product of two whole numbers; ``UNKNOWN`` for others."""
    return operation(left, right) if type(left) is type(right) is int else UNKNOWN


def bind_arguments(
    syntax: FunctionNode, call: ast.Call, caller: Scope, callee: Scope, *, has_owner: bool = False
) -> Iterator[tuple[str, Expression]]:
    """Yield each parameter of a function with its expression: its default, or the argument of a call.

    Arguments belong to the scope of the ``caller``, and defaults to that of the function, the ``callee``.
    """
    positional = [*syntax.args.posonlyargs, *syntax.args.args]
    defaults = [None] * (len(positional) - len(syntax.args.defaults)) + syntax.args.defaults + syntax.args.kw_defaults
    unpacks = any(isinstance(node, ast.Starred) for node in call.args) or any(k.arg is None for k in call.keywords)
    for parameter, default in zip([*positional, *syntax.args.kwonlyargs], defaults, strict=True):
        if default is not None and not unpacks:
            yield parameter.arg, Expression(callee, default)
    for parameter, argument in zip(positional[has_owner:], call.args, strict=False):
        if isinstance(argument, ast.Starred):
            break
        yield parameter.arg, Expression(caller, argument)
    yield from ((keyword.arg, Expression(caller, keyword.value)) for keyword in call.keywords if keyword.arg)
