"""Whether a number that the source computes from binary labels rises or falls with the share of positives."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.count_trends import self_attribute
from nbdebug.source.producers import part_producer, part_steps
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, call_subject

_MAX_DEPTH = 12
_SIZES = {"len", "size", "numel", "shape", "ones_like", "zeros_like"}
_RISING_CALLS = {
    *("sqrt", "log", "log1p", "clamp", "clip", "round", "item"),
    *("reshape", "view", "tensor", "as_tensor", "array", "asarray", "float", "double", "long", "int", "to", "max"),
}
_FALLING_CALLS = {"reciprocal", "rsqrt"}
_COUNTS = {"sum", "mean", "count_nonzero"}


def positive_trend(expression: Expression) -> int:
    """Return 1 if a number rises with the share of positives among labels, -1 if it falls; 0 if it is not certain.

    Labels are what is summed, averaged, compared or counted, so that ``(1 - y).sum()`` and ``(y == 0).sum()`` fall.
    Quotients and differences of numbers with opposite trends have the trend of the first.
    """
    return _trend(expression, None, _MAX_DEPTH) or 0


def _trend(expression: Expression, position: int | None, depth: int) -> int | None:
    """Return the trend of an expression, 0 for a number that does not depend on labels; None if it is unknown."""
    if not depth:
        return None
    expression, position = [*part_steps(expression, position, passes_conversions=True)][-1]
    scope, node = expression.scope, expression.node
    if (name := self_attribute(node)) and (stored := assigned_attribute(expression, name)):
        return _trend(*stored, depth - 1)
    if position is not None and call_name(node) == "bincount":
        return _sign_of_class(position)

    def of(part: ast.expr) -> int | None:
        return _trend(Expression(scope, part), None, depth - 1)

    if isinstance(node, ast.BinOp):
        is_inverse = isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv))
        right = of(node.right)
        return _joined(of(node.left), -right if is_inverse and right is not None else right)
    if isinstance(node, ast.UnaryOp):
        operand = of(node.operand)
        return None if operand is None else -operand
    if isinstance(node, ast.Compare):
        return _trend_of_labels(expression)
    if isinstance(node, ast.Subscript):
        return _trend_of_item(expression, node, of)
    if isinstance(node, ast.Call):
        return _trend_of_call(expression, node, of)
    if isinstance(node, ast.Attribute) and node.attr in _SIZES:
        return 0
    if isinstance(node, ast.Constant) or isinstance(scope.value(node), (int, float)):
        return 0
    return None


def _joined(left: int | None, right: int | None) -> int | None:
    """Return the trend of a sum or a product of positive numbers; None if they have opposite trends."""
    if left is None or right is None or left * right < 0:
        return None
    return left or right


def _trend_of_labels(labels: Expression, depth: int = _MAX_DEPTH) -> int:
    """Return -1 if labels are those of the negatives, as in ``1 - y`` and ``y == 0``, also of a variable; else 1."""
    made = part_producer(labels, None, passes_conversions=True)
    node, operand, sign = made.node, None, -1
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant):
        operand = node.right
    elif isinstance(node, ast.UnaryOp):
        operand = node.operand
    elif isinstance(node, ast.Call) and call_name(node) in ("eq", "ne", "logical_not"):
        operand = call_subject(node)
        compared = getattr(node.args[-1], "value", None) if node.args else None
        sign = -1 if call_name(node) == "logical_not" or (compared in (0, -1)) != (call_name(node) == "ne") else 1
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        is_of_zero = ast.unparse(node.comparators[0]) in ("0", "0.0", "-1")
        operand, sign = node.left, -1 if is_of_zero == isinstance(node.ops[0], ast.Eq) else 1
    elif isinstance(labels.node, ast.Compare):
        return -1 if isinstance(labels.node.ops[0], (ast.Lt, ast.LtE)) else 1
    return sign * _trend_of_labels(Expression(made.scope, operand), depth - 1) if operand is not None and depth else 1


def _trend_of_item(expression: Expression, node: ast.Subscript, of: Callable[[ast.expr], int | None]) -> int | None:
    """Return the trend of an item of class counts, or of a part of the labels."""
    counts = [*part_steps(Expression(expression.scope, node.value), None, passes_conversions=True)][-1][0]
    index = getattr(node.slice, "value", None)
    if call_name(counts.node) in ("bincount", "Counter", "value_counts"):
        return _sign_of_class(int(index)) if index in (0, 1) else None
    return 0 if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" else of(node.value)


def _trend_of_call(expression: Expression, node: ast.Call, of: Callable[[ast.expr], int | None]) -> int | None:
    name, subject = call_name(node), call_subject(node)
    if name in _SIZES:
        return 0
    if subject is None or name not in _COUNTS | _RISING_CALLS | _FALLING_CALLS:
        return None
    if name in _COUNTS:
        return _trend_of_labels(Expression(expression.scope, subject))
    trend = of(subject)
    return -trend if trend is not None and name in _FALLING_CALLS else trend


def _sign_of_class(number: int) -> int:
    return 1 if number else -1
