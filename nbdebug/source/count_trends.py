"""Whether numbers that the source computes from class counts rise or fall with these counts."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.element_order import is_scalar
from nbdebug.source.producers import part_steps
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, call_subject, is_literal, paired_targets, read_names

_MAX_STEPS = 12
_COUNTING_CALLS = {"bincount", "value_counts", "Counter", "histc"}
_SUMS = {"sum", "mean", "count", "len"}
_RISING_FUNCTIONS = {
    *("sqrt", "log", "log1p", "exp", "clamp", "clip", "maximum", "round", "softmax", "square", "normalize"),
}
_PASSING_CALLS = {
    *("items", "values", "most_common", "sort_index", "fillna", "reindex"),
    *("list", "enumerate", "stack", "tensor", "array"),
}
_FALLING = {"reciprocal", "rsqrt"}
_Loops = Mapping[str, ast.expr]  # what the variables of a comprehension are elements of


def self_attribute(node: ast.expr) -> str:
    """Return the attribute of ``self`` that an expression reads; "" for others."""
    is_own = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
    return node.attr if is_own and isinstance(node, ast.Attribute) else ""


def count_trend(expression: Expression) -> int:
    """Return 1 if numbers rise with the class counts from which they are made, -1 if they fall; 0 if it is not certain.

    Follows arithmetic with a single number, functions of each element, rows at an index, and comprehensions, back to a
    call that counts.
    """
    trend, position, loops = 1, None, dict[str, ast.expr]()
    for _ in range(_MAX_STEPS):
        expression, position = [*part_steps(expression, position, passes_conversions=True)][-1]
        node = expression.node
        if (name := self_attribute(node)) and (stored := assigned_attribute(expression, name)):
            expression, position = stored
            continue
        if _counts(node, position, loops):
            return trend
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            loops |= _loop_variables(node)
        operand, factor = _operand(expression, loops)
        if operand is None or not factor:
            return 0
        if loops.keys().isdisjoint(read_names(operand)):
            loops = {}
        expression, position, trend = Expression(expression.scope, operand), None, trend * factor
    return 0


def makes_counts(expression: Expression) -> bool:
    """Check whether an expression counts classes, and computes nothing from the counts."""
    return _counts(expression.node, None, {})


def _counts(node: ast.expr, position: int | None, loops: _Loops) -> bool:
    """Check whether an expression counts classes, with or without a division by the number of samples."""
    name = call_name(node)
    if isinstance(node, ast.Subscript) and call_name(node.value) == "unique":
        return isinstance(node.slice, (ast.Constant, ast.UnaryOp))
    if not isinstance(node, ast.Call):
        return False
    if name in _SUMS and not loops.keys().isdisjoint(read_names(node)):
        return True  # the samples of one class, as in ``(labels == c).sum() for c in classes``
    has_axis = {"dim", "axis"} & {keyword.arg for keyword in node.keywords} or len(node.args) > 1
    has_axis = has_axis or (len(node.args) == 1 and call_subject(node) is not node.args[0])
    is_sum_of_rows = name in ("sum", "mean") and has_axis  # of one-hot rows
    return name in _COUNTING_CALLS or (name == "unique" and bool(position)) or bool(is_sum_of_rows)


def _loop_variables(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> dict[str, ast.expr]:
    """Return what each variable of a comprehension is an element of; an index of an enumeration is one of nothing."""
    variables: dict[str, ast.expr] = {}
    for loop in node.generators:
        pairs = [pair for pair in paired_targets(loop.target, loop.iter) if isinstance(pair[0], ast.Name)]
        variables |= {getattr(target, "id", ""): iterated for target, iterated in pairs}
    return variables


def _operand(expression: Expression, loops: _Loops) -> tuple[ast.expr | None, int]:
    """Return the part of an expression that varies with the class, and 1 if the expression rises with it, -1 if not."""
    node = expression.node
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return node.elt, 1
    if isinstance(node, ast.DictComp):
        return node.value, 1
    if isinstance(node, ast.Name):
        return loops.get(node.id), 1
    if isinstance(node, ast.BinOp):
        return _operand_of_arithmetic(expression, node, loops)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand, -1
    if isinstance(node, ast.Subscript):
        return node.value, 1
    if not isinstance(node, ast.Call):
        return None, 0
    name, subject = call_name(node), call_subject(node)
    if name in ("pow", "power"):
        exponents = [argument for argument in node.args if argument is not subject]
        return subject, _sign(expression, exponents[0]) if len(exponents) == 1 else 0
    return subject, 1 if name in _RISING_FUNCTIONS | _PASSING_CALLS else -1 if name in _FALLING else 0


def _operand_of_arithmetic(expression: Expression, node: ast.BinOp, loops: _Loops) -> tuple[ast.expr | None, int]:
    sides = (node.left, node.right)
    left_varies, right_varies = (_varies(expression, side, loops) for side in sides)
    if left_varies == right_varies:
        return None, 0
    operand, number = sides if left_varies else sides[::-1]
    if isinstance(node.op, ast.Pow):
        return operand, _sign(expression, number) if left_varies else _sign_of_base(expression, number)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        return operand, -1 if isinstance(node.op, ast.Sub) and right_varies else 1
    if isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
        factor = -1 if right_varies and not isinstance(node.op, ast.Mult) else 1
        return operand, factor if _sign(expression, number, otherwise=1) > 0 else -factor
    return None, 0


def _varies(expression: Expression, side: ast.expr, loops: _Loops) -> bool:
    """Check whether a part of an expression differs between classes."""
    if loops:
        return not loops.keys().isdisjoint(read_names(side))
    return not is_scalar(expression, side)


def _sign(expression: Expression, number: ast.expr, *, otherwise: int = 0) -> int:
    value = _number(expression, number)
    return otherwise if value is None or not value else 1 if value > 0 else -1


def _sign_of_base(expression: Expression, base: ast.expr) -> int:
    """Return whether powers of a base rise or fall with the exponent; 0 if the base is unknown."""
    value = _number(expression, base)
    return 0 if value is None or value <= 0 or value == 1 else 1 if value > 1 else -1


def _number(expression: Expression, node: ast.expr) -> float | None:
    """Return the number that an expression is; None if it is unknown."""
    made = [*part_steps(Expression(expression.scope, node), None)][-1][0]
    if is_literal(made.node, value := getattr(made.node, "value", None)) and isinstance(value, (int, float)):
        return float(value)
    if isinstance(made.node, ast.UnaryOp) and isinstance(made.node.op, ast.USub):
        inner = _number(made, made.node.operand)
        return None if inner is None else -inner
    value = made.scope.value(made.node)
    return float(value) if isinstance(value, (int, float)) else None
