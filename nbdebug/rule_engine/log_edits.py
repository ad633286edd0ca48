"""Changes of the logarithm of a softmax or sigmoid into one stable call."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import is_namespace, only_call
from nbdebug.source.assignments import certain_line, covering_statement
from nbdebug.source.edits import node_text, replace_around, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, call_subject, enclosing_scope

_MOVING_CALLS = {"gather", "squeeze", "unsqueeze", "view", "reshape", "flatten", "transpose", "permute"}


def take_stable_log(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only ``log`` of a softmax or sigmoid on a line: ``log(softmax(x))`` to ``log_softmax``.

    Indices and changes of shape may be between them, and the probabilities may be in a variable with no other use.
    """
    log = only_call(line, ("log",))
    subject = call_subject(log) if log is not None else None
    if line is None or log is None or subject is None:
        return ()
    moved = _moved_values(subject)
    activation = _assigned_value(line, moved.id) if isinstance(moved, ast.Name) else moved
    text = _stable_call(line.file, activation) if isinstance(activation, ast.Call) else ""
    if activation is None or not text:
        return ()
    return (*replace_around(line.file, log, subject, "", ""), replace_node(line.file, activation, text))


def _moved_values(node: ast.expr) -> ast.expr:
    """Return the expression of which indices and changes of shape take the values."""
    while True:
        inner = node.value if isinstance(node, ast.Subscript) else None
        if isinstance(node, ast.Call) and call_name(node) in _MOVING_CALLS:
            inner = call_subject(node)
        if inner is None:
            return node
        node = inner


def _assigned_value(line: SourceLine, name: str) -> ast.expr | None:
    """Return what a variable holds that a function assigns and reads once; None for any other."""
    scope, assigned = enclosing_scope(line), certain_line(line, name)
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name] if scope else []
    statement = covering_statement(assigned) if assigned else None
    is_single = len(uses) == 2 and isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    return statement.value if is_single and isinstance(statement, ast.Assign) else None


def _stable_call(file: str, activation: ast.Call) -> str:
    """Return the call of the logarithm of a softmax or sigmoid of torch; "" for other calls, and for imported names."""
    function, subject = activation.func, call_subject(activation)
    if not isinstance(function, ast.Attribute) or subject is None:
        return ""
    if function.attr == "softmax":
        arguments = node_text(file, activation).removeprefix(node_text(file, function))
        return f"{node_text(file, function.value)}.log_softmax{arguments}"
    if function.attr == "sigmoid" and (subject is function.value or is_namespace(function.value)):
        return f"torch.nn.functional.logsigmoid({node_text(file, subject)})"
    return ""
