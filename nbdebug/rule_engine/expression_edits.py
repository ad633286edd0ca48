"""Changes of one expression of the user's line: an option, an operand, a sign, an index."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.finding import Edit, Location
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import OPERATOR_SIGNS, append_argument, node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, call_subject, enclosing_scope, read_names

_NAMESPACES = ("torch", "F", "nn", "np", "functional", "nn.functional", "torch.nn.functional", "torch.special")
_PRODUCTS = ("matmul", "bmm", "einsum")
_FILLS = ("masked_fill", "masked_fill_")
_PADDING_MASKS = ("src_key_padding_mask", "key_padding_mask", "memory_key_padding_mask", "tgt_key_padding_mask")
_DOMAINS = {
    "sqrt": (("sqrt",), "({} + 1e-12)"),
    "log": (("log", "log2", "log10"), "{}.clamp_min(1e-8)"),
    "pow": (("pow",), "({} + 1e-12)"),
    "exp": (("exp",), "{}.clamp(max=30)"),
    "acos": (("acos", "arccos"), "{}.clamp(-1 + 1e-6, 1 - 1e-6)"),
    "asin": (("asin", "arcsin"), "{}.clamp(-1 + 1e-6, 1 - 1e-6)"),
}
_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")  # of a statement that contains others


def line_of(where: Location) -> SourceLine | None:
    """Return the line of a location; None if it has none."""
    return SourceLine(where.file, where.line) if where.file and where.line else None


def expressions_at(line: SourceLine | None) -> list[ast.AST]:
    """Return the nodes of the statement on a line, without those of the statements that it contains."""
    statement = covering_statement(line) if line else None
    return list(_own_nodes(statement)) if statement is not None else []


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if name not in _PARTS or not isinstance(node, ast.stmt):
            for child in (child for child in children if isinstance(child, ast.AST)):
                yield from _own_nodes(child)


def only_call(line: SourceLine | None, names: Collection[str]) -> ast.Call | None:
    """Return the only call of some names in the statement on a line."""
    calls = [node for node in expressions_at(line) if isinstance(node, ast.Call) and call_name(node) in names]
    return calls[0] if len(calls) == 1 else None


def set_option(
    line: SourceLine | None, names: Collection[str], option: str, value: str, position: int | None = None
) -> tuple[Edit, ...]:
    """Return the change of an argument of the only call of some names on a line; () if it is that already.

    ``position`` is that of the argument if it may be passed without its name.
    """
    call = only_call(line, names)
    if line is None or call is None or any(keyword.arg is None for keyword in call.keywords):
        return ()
    present = next((keyword.value for keyword in call.keywords if keyword.arg == option), None)
    if present is None and position is not None and position < len(call.args):
        present = call.args[position]
    if present is None:
        return (append_argument(line.file, call, f"{option}={value}"),)
    return (replace_node(line.file, present, value),) if ast.unparse(present) != value else ()


def set_axis(line: SourceLine | None, names: Collection[str], value: str) -> tuple[Edit, ...]:
    """Return the change of the axis of the only call of some names: of a function, a method or a module's class."""
    call = only_call(line, names)
    if call is None:
        return ()
    has_tensor = isinstance(call.func, ast.Attribute) and not is_namespace(call.func.value)
    is_class = call_name(call)[:1].isupper()
    return set_option(line, names, "dim", value, 0 if has_tensor or is_class else 1)


def value_axis(shape: Sequence[int]) -> int:
    """Return the last axis with several values for each sample, as -1 if it is the last of all."""
    axis = max((number for number, length in enumerate(shape) if number and length > 1), default=len(shape) - 1)
    return -1 if axis == len(shape) - 1 else axis


def takes_axis(name: str) -> bool:
    """Return whether a function of torch has an argument ``dim``, by its signature or that in its documentation."""
    functions = [getattr(owner, name, None) for owner in (torch, F, torch.linalg, Tensor)]
    for function in filter(callable, functions):
        with suppress(ValueError, TypeError):
            if "dim" in inspect.signature(function).parameters:
                return True
        if re.search(rf"\b{re.escape(name)}\([^)]*\bdim\b", inspect.getdoc(function) or ""):
            return True
    return False


def remove_option(file: str, call: ast.Call, option: str) -> tuple[Edit, ...]:
    """Return the removal of a keyword from a call, with the comma before or after it."""
    keyword = next((keyword for keyword in call.keywords if keyword.arg == option), None)
    if keyword is None:
        return ()
    removed, end = replace_node(file, keyword, ""), replace_node(file, call, "")
    others: list[ast.expr | ast.keyword] = [*call.args, *(other for other in call.keywords if other is not keyword)]
    positions = [replace_node(file, other, "") for other in others]
    before = [edit for edit in positions if (edit.line, edit.column) < (removed.line, removed.column)]
    after = [edit for edit in positions if (edit.line, edit.column) > (removed.line, removed.column)]
    if before:
        last = max(before, key=lambda edit: (edit.end_line, edit.end_column))
        return (Edit(file, last.end_line, last.end_column, removed.end_line, removed.end_column, ""),)
    if after:
        first = min(after, key=lambda edit: (edit.line, edit.column))
        return (Edit(file, removed.line, removed.column, first.line, first.column, ""),)
    return (Edit(file, removed.line, removed.column, end.end_line, end.end_column - 1, ""),)


def _wrap_operand(line: SourceLine | None, names: Collection[str], template: str) -> tuple[Edit, ...]:
    """Return the change of the tensor that the only call of some names takes: its owner or its first argument."""
    call = only_call(line, names)
    if line is None or call is None:
        return ()
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    operand = owner if owner is not None and not is_namespace(owner) else next(iter(call.args), None)
    return (wrap_node(line.file, operand, template),) if operand is not None else ()


def wrap_argument(line: SourceLine | None, name: str, position: int, template: str) -> tuple[Edit, ...]:
    """Return the change of one argument of all calls of a name in the statement on a line, counted with the owner."""
    calls = [node for node in expressions_at(line) if isinstance(node, ast.Call) and call_name(node) == name]
    owners = [call.func.value if isinstance(call.func, ast.Attribute) else None for call in calls]
    operands = [
        [*([owner] if owner is not None and not is_namespace(owner) else []), *call.args]
        for call, owner in zip(calls, owners, strict=True)
    ]
    if line is None or not all(len(arguments) > position for arguments in operands):
        return ()
    return tuple(wrap_node(line.file, arguments[position], template) for arguments in operands)


def bind_loop_variables(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change by which the only ``lambda`` in a comprehension binds the variables that it reads of it."""
    nodes = expressions_at(line)
    functions = [node for node in nodes if isinstance(node, ast.Lambda)]
    targets = [node.target for node in nodes if isinstance(node, ast.comprehension)]
    if line is None or len(functions) != 1 or functions[0].args.kwarg is not None:
        return ()
    function, own = (
        functions[0],
        {argument.arg for argument in ast.walk(functions[0].args) if isinstance(argument, ast.arg)},
    )
    variables = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    bound = [f"{name}={name}" for name in sorted(variables & read_names(function.body) - own)]
    arguments = ", ".join([*filter(None, [ast.unparse(function.args)]), *bound])
    text = f"lambda {arguments}: {node_text(line.file, function.body)}"
    return (replace_node(line.file, function, text),) if bound else ()


def _divide_by(line: SourceLine | None, divisor_template: str) -> tuple[Edit, ...]:
    """Return the change of the divisor of the only division on a line, such as ``({} + 1e-6)``."""
    divisions = [node for node in expressions_at(line) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    if line is None or len(divisions) != 1:
        return ()
    return (wrap_node(line.file, divisions[0].right, divisor_template),)


def negate_value(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the sign of what the statement on a line returns or assigns."""
    statement = covering_statement(line) if line else None
    value = statement.value if isinstance(statement, (ast.Return, ast.Assign)) else None
    if line is None or value is None or isinstance(value, ast.Tuple):
        return ()
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return (replace_node(line.file, value, node_text(line.file, value.operand)),)
    is_atom = isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return (wrap_node(line.file, value, "-{}" if is_atom else "-({})"),)


def flip_only_sign(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only minus sign before a computed term on a line into a plus; () for several."""
    nodes = expressions_at(line)
    differences = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)]
    signs = [node for node in nodes if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)]
    signs = [node for node in signs if not isinstance(node.operand, ast.Constant)]
    if line is None or len(differences) + len(signs) != 1:
        return ()
    if signs:
        return (replace_node(line.file, signs[0], node_text(line.file, signs[0].operand)),)
    return (_exchange_operator(line.file, differences[0], "+"),) if _is_computed(differences[0].right) else ()


def _is_computed(node: ast.expr) -> bool:
    return not isinstance(node, ast.Constant)


def _exchange_operator(file: str, operation: ast.BinOp, sign: str) -> Edit:
    """Return the exchange of the operator between the two operands of an operation."""
    left, right = replace_node(file, operation.left, ""), replace_node(file, operation.right, "")
    if left.end_line != right.line:
        text = f"{node_text(file, operation.left)} {sign} {node_text(file, operation.right)}"
        return replace_node(file, operation, text)
    between = linecache.getline(file, right.line)[left.end_column : right.column]  # with parentheses of the operands
    text = between.replace(OPERATOR_SIGNS[type(operation.op)], sign, 1)
    return Edit(file, left.end_line, left.end_column, right.line, right.column, text)


def scale_product(line: SourceLine | None, width: int) -> tuple[Edit, ...]:
    """Return the division of the only product of two tensors on a line by the square root of its width.

    A product that is multiplied by a root is divided by it instead.
    """
    nodes = expressions_at(line)
    products = [node for node in nodes if _is_product(node)]
    if line is None or len(products) != 1 or not isinstance(products[0], ast.expr):
        return ()
    product = products[0]
    scaled = [
        node
        for node in nodes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and product in (node.left, node.right)
    ]
    if scaled:
        return (_exchange_operator(line.file, scaled[0], "/"),) if scaled[0].left is product else ()
    is_owner = any(isinstance(node, ast.Attribute) and node.value is product for node in nodes)
    needs_parentheses = is_owner and isinstance(product, ast.Call)  # an operation has them already
    return (
        wrap_node(line.file, product, f"({{}} / {width} ** 0.5)" if needs_parentheses else f"{{}} / {width} ** 0.5"),
    )


def divide_instead(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only multiplication on a line to a division by its right operand, a number or a root."""
    nodes = expressions_at(line)
    products = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)]
    if line is None or len(products) != 1 or not _is_number(products[0].right) or _is_number(products[0].left):
        return ()
    return (_exchange_operator(line.file, products[0], "/"),)


def divide_exactly(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only division on a line that rounds down, ``//``, to one that does not."""
    divisions = [
        node for node in expressions_at(line) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)
    ]
    return (_exchange_operator(line.file, divisions[0], "/"),) if line is not None and len(divisions) == 1 else ()


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression is a constant, a power of something, a root, or an attribute, as scales are."""
    is_power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    return isinstance(node, (ast.Constant, ast.Attribute)) or is_power or call_name(node) == "sqrt"


def _is_product(node: ast.AST) -> bool:
    return (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)) or call_name(node) in _PRODUCTS


def _invert_mask(file: str, mask: ast.expr) -> Edit:
    """Return the inversion of a Boolean expression: ``==`` becomes ``!=``, and ``~`` is removed or added."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return replace_node(file, mask, node_text(file, mask.operand))
    opposite = {ast.Eq: "!=", ast.NotEq: "=="}.get(type(mask.ops[0])) if isinstance(mask, ast.Compare) else None
    if isinstance(mask, ast.Compare) and opposite and len(mask.ops) == 1:
        text = f"{node_text(file, mask.left)} {opposite} {node_text(file, mask.comparators[0])}"
        return replace_node(file, mask, text)
    is_atom = isinstance(mask, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return wrap_node(file, mask, "~{}" if is_atom else "~({})")


def take_last_step(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only index ``[:, i]`` on a line into ``[:, -1]``."""
    nodes = [node for node in expressions_at(line) if isinstance(node, ast.Subscript)]
    indices = [node.slice.elts[1] for node in nodes if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1]
    indices = [index for index in indices if not isinstance(index, ast.Slice)]
    return (replace_node(line.file, indices[0], "-1"),) if line and len(indices) == 1 else ()


def detach_stored_value(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edit that detaches what the statement on a line appends to a list or adds to a variable."""
    statement = covering_statement(line) if line else None
    if line is None or statement is None:
        return ()
    value: Any = getattr(statement, "value", None)
    if isinstance(value, ast.Call) and call_name(value) in ("append", "add") and value.args:
        value = value.args[0]
    elif isinstance(statement, ast.Assign) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        target = ast.unparse(statement.targets[0])
        value = value.right if ast.unparse(value.left) == target else value.left
    if not isinstance(value, ast.expr) or call_name(value) in ("item", "detach"):
        return ()
    return (wrap_node(line.file, value, "{}.detach()"),)


def is_namespace(node: ast.expr) -> bool:
    """Return whether an expression is a module of functions, such as ``torch``."""
    return ast.unparse(node) in _NAMESPACES


def leave_out_call(line: SourceLine | None, name: str) -> tuple[Edit, ...]:
    """Return the change of the only call of a name on a line to its operand: ``torch.round(x)`` to ``x``."""
    call = only_call(line, (name,))
    operand = call_subject(call) if call is not None else None
    if line is None or call is None or operand is None:
        return ()
    return (replace_node(line.file, call, node_text(line.file, operand)),)


def rename_call(line: SourceLine | None, name: str, new_name: str) -> tuple[Edit, ...]:
    """Return the change of the only call of a name on a line, ``F.softmax`` or ``x.softmax``, to another of its module.

    A bare name is left as it is: the other one may not be imported.
    """
    call = only_call(line, (name,))
    if line is None or call is None or not isinstance(call.func, ast.Attribute):
        return ()
    return (replace_node(line.file, call.func, f"{node_text(line.file, call.func.value)}.{new_name}"),)


def keep_inside_domain(operation: str, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edit that keeps the input of an operation of torch where it and its derivative are finite.

    ``operation`` is the name of the operation or of its backward pass, such as ``log`` or ``SqrtBackward0``.
    """
    name = operation.lower().rpartition(".")[2].rstrip("_")
    if name.startswith("div"):
        return _divide_by(line, "({} + 1e-6)")
    for start, (calls, template) in _DOMAINS.items():
        if name.startswith(start) and not name.startswith(("log_", "logs", "logadd", "expm", "expand")):
            return _wrap_operand(line, calls, template)
    return ()


def invert_padding_mask(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the inversion of the only padding mask on a line: of a call, of ``masked_fill``, or with another name.

    Where the line computes the mask of a later call, or of another function, it is inverted there if it has no other
    use.
    """
    statement = covering_statement(line) if line else None
    if line is not None and isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
        return (_invert_mask(line.file, statement.value),)
    masks = _padding_masks(expressions_at(line))
    scope = enclosing_scope(line) if line else None
    if not masks and isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and scope:
        name = statement.targets[0].id
        masks = [mask for mask in _padding_masks(ast.walk(scope)) if name in read_names(mask)]
        reads = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name]
        is_only_use = sum(isinstance(node.ctx, ast.Load) for node in reads) == 1
        is_passed_on = not masks and isinstance(statement.value, (ast.Compare, ast.UnaryOp))
        if is_only_use and (is_passed_on or (len(masks) == 1 and isinstance(masks[0], ast.Name))):
            masks = [statement.value]
    return (_invert_mask(line.file, masks[0]),) if line is not None and len(masks) == 1 else ()


def _padding_masks(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """Return the padding masks that calls among some nodes take; those of ``masked_fill`` if there are no others."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    masks = [keyword.value for call in calls for keyword in call.keywords if keyword.arg in _PADDING_MASKS]
    return masks or [call.args[0] for call in calls if call_name(call) in ("masked_fill", "masked_fill_") and call.args]


def exclude_by_fill(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the value with which the only ``masked_fill`` on a line fills into the smallest number."""
    call = only_call(line, _FILLS)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    if line is None or call is None or owner is None or is_namespace(owner) or len(call.args) != 2:
        return ()
    return (replace_node(line.file, call.args[1], f"torch.finfo({node_text(line.file, owner)}.dtype).min"),)


def transpose_last_axes(line: SourceLine | None, name: str) -> tuple[Edit, ...]:
    """Return the exchange of the last two axes of what the only call of a name on a line, or an index, returns."""
    node: ast.expr | None = only_call(line, (name,))
    if name == "getitem":
        indexed = [node for node in expressions_at(line) if isinstance(node, ast.Subscript)]
        node = indexed[0] if len(indexed) == 1 else None
    return (wrap_node(line.file, node, "{}.transpose(-2, -1)"),) if line is not None and node is not None else ()


def pass_mode(line: SourceLine | None, function: str) -> tuple[Edit, ...]:
    """Return the edit that passes the mode of the module to a function of torch that a method of the module calls."""
    scope = enclosing_scope(line) if line else None
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    if not arguments or arguments[0].arg != "self":
        return ()
    position = 2 if "dropout" in function else None
    return set_option(line, (function.rpartition(".")[2],), "training", f"{arguments[0].arg}.training", position)


def only_in_training(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edit by which an assignment in a method changes a variable in train mode only: ``x = x * mask``."""
    statement, scope = covering_statement(line) if line else None, enclosing_scope(line) if line else None
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    if line is None or not isinstance(statement, ast.Assign) or not arguments or arguments[0].arg != "self":
        return ()
    target = statement.targets[0]
    reads = [node for node in ast.walk(statement.value) if isinstance(node, ast.Name)]
    if not isinstance(target, ast.Name) or target.id not in [node.id for node in reads]:
        return ()
    return (wrap_node(line.file, statement.value, f"{{}} if self.training else {target.id}"),)


def remove_minus(line: SourceLine) -> tuple[Edit, ...]:
    """Return the removal of the only minus sign before a call or a variable in the statement on a line."""
    statement = covering_statement(line)
    nodes = [node for node in ast.walk(statement) if isinstance(node, ast.UnaryOp)] if statement else []
    negated = [
        node for node in nodes if isinstance(node.op, ast.USub) and isinstance(node.operand, (ast.Call, ast.Name))
    ]
    if len(negated) != 1:
        return ()
    return (replace_node(line.file, negated[0], node_text(line.file, negated[0].operand)),)


def select_operands(line: SourceLine | None, operands: Sequence[str], condition: str) -> tuple[Edit, ...]:
    """Return the change of the only call on a line that takes some variables, to their values where a condition holds.

    Such as ``loss(output, target)`` to ``loss(output[target != 0], target[target != 0])``.
    """
    calls = [node for node in expressions_at(line) if isinstance(node, ast.Call)]
    calls = [call for call in calls if [ast.unparse(argument) for argument in call.args] == [*operands]]
    if line is None or len(calls) != 1:
        return ()
    return tuple(wrap_node(line.file, argument, f"{{}}[{condition}]") for argument in calls[0].args)
