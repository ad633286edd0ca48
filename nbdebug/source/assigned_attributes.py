"""The values that the methods of a class of the user's give to its attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.assignments import effective_methods, find_function
from nbdebug.source.called_functions import running_statements
from nbdebug.source.scopes import UNKNOWN, Expression, Scope, function_scope, user_function
from nbdebug.source.search import assignment_targets, call_name, covers_line, syntax_tree
from nbdebug.source.variable_values import Part, assigned_part


def assigned_attribute(expression: Expression, name: str) -> Part | None:
    """Return the only value that the methods of a class assign to an attribute, and the position of it in a tuple.

    Buffers and parameters that a module registers under the name count as assigned. None if there are several values.
    The class is that of ``self`` in the scope of the expression if its object is known, else the one around it.
    """
    values: list[Part] = []
    for scope, syntax in _methods(expression):
        for statement in running_statements(scope, syntax.body):
            targets = [getattr(target, "attr", None) for target in assignment_targets(statement)]
            if name in targets and isinstance(statement, ast.Assign):
                value, position = assigned_part(statement, name)
                values.append((Expression(scope, value), position))
            elif name in targets and isinstance(statement, ast.AnnAssign) and statement.value:
                values.append((Expression(scope, statement.value), None))
            elif registered := _registered_value(statement, name):
                values.append((Expression(scope, registered), None))
    return values[0] if len(values) == 1 else None


def _registered_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """Return the tensor that a statement registers under a name, as in ``self.register_buffer("weight", tensor)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or call_name(call) not in ("register_buffer", "register_parameter"):
        return None
    arguments = [
        *call.args,
        *(keyword.value for keyword in call.keywords if keyword.arg in ("name", "tensor", "param")),
    ]
    return arguments[1] if len(arguments) > 1 and getattr(arguments[0], "value", None) == name else None


def _methods(expression: Expression) -> Iterator[tuple[Scope, ast.FunctionDef]]:
    """Yield the methods of the object to which an expression belongs, or those of the class around it."""
    owner = expression.scope.bound.get("self")
    owner = None if owner is UNKNOWN else owner
    for method in effective_methods(type(owner)) if owner is not None else ():
        syntax = find_function(method.__code__) if user_function(method) else None
        if isinstance(syntax, ast.FunctionDef):
            yield function_scope(method, owner), syntax
    tree = syntax_tree(expression.scope.file) if owner is None else None
    classes = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.ClassDef)]
    around = [node for node in classes if covers_line(node, expression.node.lineno)]
    innermost = max(around, key=lambda node: node.lineno, default=None)
    for node in innermost.body if innermost else ():
        if isinstance(node, ast.FunctionDef):
            yield Scope(expression.scope.file, node.name, expression.scope.variables), node
