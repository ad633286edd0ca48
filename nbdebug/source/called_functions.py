"""What functions of the user's return, also those that a call of a parameter or a variable may run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.assignments import FunctionNode, find_function, function_by_name
from nbdebug.source.location import SourceLine
from nbdebug.source.scopes import UNKNOWN, Expression, Scope, bind_arguments, local_names, user_function
from nbdebug.source.search import call_name, enclosing_scope
from nbdebug.source.variable_values import possible_assignments

_MAX_DEPTH = 8
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def possible_returns(call: Expression) -> list[Expression]:
    """Return what the functions return that a call of a parameter or a local variable may run, in any order.

    Follows parameters to what the calls pass, variables to their possible values, and both branches of a choice whose
    test is unknown. The functions are those of the user, lambdas, bound methods, and ``functools.partial`` of these.
    """
    node = call.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.IfExp)):
        return []
    functions = _functions(Expression(call.scope, node.func))
    return [returned for function in functions for returned in _returns(function, node, call.scope)]


def _functions(expression: Expression, depth: int = _MAX_DEPTH) -> Iterator[Expression]:
    """Yield the expressions of the functions that an expression may stand for."""
    scope, node = expression.scope, expression.node
    values: list[Expression] = []
    if isinstance(node, ast.IfExp):
        truth = scope.truth(node.test)
        branches = [node.body, node.orelse] if truth is None else [node.body if truth else node.orelse]
        values = [Expression(scope, branch) for branch in branches]
    elif isinstance(node, ast.Name) and node.id in scope.arguments:
        values = [scope.arguments[node.id]]
    elif isinstance(node, ast.Name):
        values = [value for value, position in possible_assignments(expression, None) if position is None]
    if not values or not depth:
        yield expression
    for value in values if depth else ():
        yield from _functions(value, depth - 1)


def _returns(function: Expression, call: ast.Call, caller: Scope) -> list[Expression]:
    """Return what a function returns in a call: one of the user's, a lambda, or a partial function of one."""
    scope, node = function.scope, function.node
    if isinstance(node, ast.Lambda):
        passed = dict(bind_arguments(node, call, caller, scope))
        inner = Scope(scope.file, scope.function, scope.variables, scope.bound, {**scope.arguments, **passed})
        return [Expression(inner, node.body)]
    if isinstance(node, ast.Call) and call_name(node) == "partial" and node.args:
        return [*_returns_of_partial(Expression(scope, node), call, caller)]
    value = scope.value(node)
    if value is UNKNOWN and isinstance(node, ast.Name) and (named := _function_of_file(scope, node)):
        own = Scope(scope.file, named.name, scope.variables)
        arguments = dict(bind_arguments(named, call, caller, own))
        return all_returned(Scope(scope.file, named.name, scope.variables, {}, arguments), named)
    callee = user_function(value)
    syntax = find_function(callee[0].__code__) if callee else None
    return all_returned(caller.entered(*callee, call), syntax) if callee and syntax else []


def _function_of_file(scope: Scope, name: ast.Name) -> ast.FunctionDef | None:
    """Return the only function of a file with a name that is not a local variable; None without one."""
    syntax = enclosing_scope(SourceLine(scope.file, name.lineno))
    is_local = not isinstance(syntax, ast.Module) and syntax is not None and name.id in local_names(syntax)
    return None if is_local else function_by_name(scope.file, name.id)


def _returns_of_partial(partial: Expression, call: ast.Call, caller: Scope) -> Iterator[Expression]:
    """Yield what the function of a partial function returns; its first arguments are evaluated where it is made."""
    made = partial.node
    if not isinstance(made, ast.Call):
        return
    own = {id(argument) for argument in (*made.args, *(keyword.value for keyword in made.keywords))}
    keywords = [*made.keywords, *call.keywords]
    whole = ast.copy_location(ast.Call(made.args[0], [*made.args[1:], *call.args], keywords), call)
    for function in _functions(Expression(partial.scope, made.args[0])):
        for returned in _returns(function, whole, caller):
            arguments = {
                name: Expression(partial.scope, argument.node) if id(argument.node) in own else argument
                for name, argument in returned.scope.arguments.items()
            }
            scope = returned.scope
            yield Expression(Scope(scope.file, scope.function, scope.variables, scope.bound, arguments), returned.node)


def all_returned(scope: Scope, syntax: FunctionNode) -> list[Expression]:
    """Return the expressions that a function returns or yields in the branches that run."""
    if isinstance(syntax, ast.Lambda):
        return [Expression(scope, syntax.body)]
    values = [value for statement in running_statements(scope, syntax.body) for value in _returned_values(statement)]
    return [Expression(scope, value) for value in values]


def running_statements(scope: Scope, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block, and of those in it, without branches that do not run."""
    for statement in body:
        truth = scope.truth(statement.test) if isinstance(statement, ast.If) else None
        yield statement
        if isinstance(statement, ast.If) and truth is not None:
            branch = [*running_statements(scope, statement.body if truth else statement.orelse)]
            yield from branch
            if branch and isinstance(branch[-1], ast.Return):
                return
            continue
        for block in _BLOCKS if not isinstance(statement, _DEFINITIONS) else ():
            yield from running_statements(scope, getattr(statement, block, []))
        if isinstance(statement, ast.Return):
            return


def _returned_values(statement: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(statement, ast.Return):
        yield from filter(None, [statement.value])
    else:
        yields = (ast.Yield, ast.YieldFrom)
        yield from (n.value for n in ast.iter_child_nodes(statement) if isinstance(n, yields) and n.value)
