"""Other ways to write the calls of a statement: another axis, order of axes or size, or without the call."""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nbdebug.finding import Edit
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.search import call_name

_AXIS_METHODS = {"sum", "mean", "max", "min", "softmax", "log_softmax", "cat", "concat", "stack", "squeeze", "amax"} | {
    *("unsqueeze", "size", "norm", "chunk", "split", "argmax", "repeat_interleave", "cumsum", "flatten", "normalize"),
    *("std", "var", "prod", "amin", "logsumexp", "unbind", "select", "index_select", "gather", "glu"),
}
_ORDERS = {"permute", "transpose", "movedim", "swapaxes"}
_LEFT_OUT = {"unsqueeze", "squeeze", "transpose", "permute", "flatten", "t", "movedim", "contiguous", "mean", "sum"}
_SHAPES = {"view", "reshape"}
_SIZED = {"zeros", "ones", "randn", "rand", "full", "empty", "new_zeros", "new_ones", "expand", "view", "reshape"}
_AXES = (1, 0, -1, 2, -2)

Rewrite = tuple[Edit, str]


def rewrites(file: str, statement: ast.stmt, sizes: Sequence[int]) -> Iterator[Rewrite]:
    """Yield edits of one call of a statement, small changes first, with the call as it reads afterwards.

    ``sizes`` are the numbers that may stand for a size of a reshape.
    """
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    for node in ast.walk(statement):
        for first, second in _pairs(node):
            texts = node_text(file, first), node_text(file, second)
            whole = replace_node(file, first, ""), replace_node(file, second, "")
            edit = replace(whole[0], end_line=whole[1].end_line, end_column=whole[1].end_column)
            between = _between(file, *whole)
            yield replace(edit, text=f"{texts[1]}{between}{texts[0]}"), f"{texts[1]}, {texts[0]}"
    for make in (_other_axes, _other_flags, _other_orders, _other_reshapes, _without_call):
        for call in calls:
            for node, text in make(file, call, sizes):
                edit = replace_node(file, node, text)
                yield edit, text if node is call else f"{text} in {node_text(file, call)}"


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield neighboring sizes of a shape: of a tuple that is assigned or passed, or of a call that creates a tensor."""
    sizes: list[ast.expr] = []
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and not isinstance(node.targets[0], ast.Tuple)
    ):
        sizes = node.value.elts
    elif isinstance(node, ast.Call) and call_name(node) in _SIZED:
        sizes = node.args
        if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = sizes[0].elts
    for first, second in itertools.pairwise(sizes):
        if ast.unparse(first) != ast.unparse(second) and not isinstance(first, ast.Starred):
            yield first, second


def _between(file: str, first: Edit, second: Edit) -> str:
    if first.end_line != second.line:
        return ", "
    return linecache.getline(file, first.end_line)[first.end_column : second.column]


def _subject(call: ast.Call) -> ast.expr | None:
    """Return the tensor of a method, or the first argument of a function of torch."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_function = owner is None or ast.unparse(owner) in ("torch", "F", "nn.functional", "torch.nn.functional")
    return (call.args[0] if call.args else None) if is_function else owner


def _axis_arguments(call: ast.Call) -> list[ast.expr]:
    arguments = call.args[1:] if _subject(call) in call.args[:1] else call.args
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis", "start_dim", "dim0", "dim1")]
    return [*named, *(argument for argument in arguments if _is_number(argument))]


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def _other_axes(file: str, call: ast.Call, sizes: Sequence[int]) -> Iterator[tuple[ast.expr, str]]:
    if call_name(call) not in _AXIS_METHODS:
        return
    for argument in _axis_arguments(call):
        for axis in _AXES:
            if _is_number(argument) and str(axis) != ast.unparse(argument):
                yield argument, str(axis)


def _other_flags(file: str, call: ast.Call, sizes: Sequence[int]) -> Iterator[tuple[ast.expr, str]]:
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Constant) and keyword.arg in ("keepdim", "batch_first"):
            yield keyword.value, str(not keyword.value.value)
    if call_name(call) in ("sum", "mean", "max", "amax") and not any(k.arg == "keepdim" for k in call.keywords):
        text = node_text(file, call)
        if call.args or call.keywords:
            yield call, f"{text[:-1]}, keepdim=True)"


def _other_orders(file: str, call: ast.Call, sizes: Sequence[int]) -> Iterator[tuple[ast.expr, str]]:
    subject = _subject(call)
    numbers = [argument for argument in call.args if _is_number(argument)]
    if call_name(call) not in _ORDERS or subject is None or len(numbers) != len(call.args) or not numbers:
        return
    owner, name = node_text(file, subject), call_name(call)
    values = [int(ast.unparse(number)) for number in numbers]
    if name == "permute" and len(values) <= 4:
        orders = [list(order) for order in itertools.permutations(values) if list(order) != values]
        orders.sort(key=lambda order: sum(a != b for a, b in zip(order, values, strict=True)))
        for order in orders:
            yield call, f"{owner}.permute({', '.join(map(str, order))})"
    elif len(values) == 2:
        for first, second in ((1, 2), (-2, -1), (0, 1), (2, 3), (1, -1)):
            if [first, second] != values:
                yield call, f"{owner}.{name}({first}, {second})"


def _other_reshapes(file: str, call: ast.Call, sizes: Sequence[int]) -> Iterator[tuple[ast.expr, str]]:
    subject, name = _subject(call), call_name(call)
    if subject is None:
        return
    owner = node_text(file, subject)
    if name in _SHAPES or (name in ("squeeze", "flatten") and not call.args):
        yield call, f"{owner}.flatten(1)"
    if name == "squeeze" and not call.args:
        yield from ((call, f"{owner}.squeeze({axis})") for axis in (-1, 1))
    if name == "view":
        yield call, f"{owner}.reshape{node_text(file, call)[len(node_text(file, call.func)) :]}"
    if name in _SHAPES:
        for argument in reversed(call.args):
            yield from ((argument, str(size)) for size in (-1, *sizes) if ast.unparse(argument) != str(size))


def _without_call(file: str, call: ast.Call, sizes: Sequence[int]) -> Iterator[tuple[ast.expr, str]]:
    subject = _subject(call)
    if call_name(call) in _LEFT_OUT and subject is not None:
        yield call, node_text(file, subject)
