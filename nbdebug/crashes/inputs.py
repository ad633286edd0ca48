"""Changes of the input of a layer or an operation, at the place where the user passes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import find_layer_creation
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.model_copies import find_model_call
from nbdebug.finding import Edit
from nbdebug.source.assignments import last_assignment, returned_by_function
from nbdebug.source.edits import insert_before, node_text, replace_node, wrap_node
from nbdebug.source.search import assigned_names, call_name, enclosing_loops, enclosing_scope, syntax_tree

_CONVERSIONS = {"tensor", "as_tensor", "from_numpy", "arange", "randint", "zeros", "ones", "full", "rand", "stack"} | {
    *("Tensor", "LongTensor", "FloatTensor", "to_numpy", "floor")
}
_RESHAPES = ("view", "reshape", "flatten", "unflatten", "squeeze")


@dataclass(frozen=True)
class Change:
    """Edits of the source, and the modules of a copy that stand for them in a trial."""

    edits: tuple[Edit, ...] = ()
    modules: dict[nn.Module, nn.Module] = field(default_factory=dict)


def _is_passed_by_user(crash: Crash) -> bool:
    """Return whether the value that the layer got is the first argument of the user's call."""
    if crash.is_direct_layer_call or crash.value(crash.input_node) is crash.layer_input:
        return True
    calls = [frame for frame in crash.torch_frames if frame.function == "_call_impl"]
    arguments: Any = calls[0].variables.get("args", ()) if calls else ()
    return bool(arguments) and arguments[0] is crash.layer_input


def outermost_place(
    crash: Crash, node: ast.expr | None, *, only_forward: bool = False, start: CrashFrame | None = None
) -> tuple[CrashFrame, ast.expr] | None:
    """Return the outermost of the ``passing_places`` of a value; None without an expression."""
    places = [*passing_places(crash, node, only_forward=only_forward, start=start)]
    return places[-1] if places else None


def passing_places(
    crash: Crash, node: ast.expr | None, *, only_forward: bool = False, start: CrashFrame | None = None
) -> Iterator[tuple[CrashFrame, ast.expr]]:
    """Yield the frames of the user that pass on a value unchanged, innermost first, with its expression there.

    A variable that is a parameter of its function and has not been assigned since has the value of the caller's
    argument. With ``only_forward``, only the arguments of ``forward`` methods are followed. ``start`` is the frame of
    the expression, by default the innermost one.
    """
    frames = list(crash.user_frames())
    frames = frames[frames.index(start) :] if start in frames else frames
    if node is None or not frames:
        return
    frame = frames[0]
    yield frame, node
    for outer in frames[1:]:
        position = _parameter_position(frame, node)
        call = outer.node
        if only_forward and frame.function != "forward":
            return
        if position is None or not isinstance(call, ast.Call) or not isinstance(node, ast.Name):
            return
        named = next((keyword.value for keyword in call.keywords if keyword.arg == node.id), None)
        has_star = any(isinstance(argument, ast.Starred) for argument in call.args)
        argument = named or (call.args[position] if not has_star and position < len(call.args) else None)
        if argument is None:
            return
        frame, node = outer, argument
        yield frame, node


def _parameter_position(frame: CrashFrame, node: ast.expr) -> int | None:
    """Return the position of a variable among the parameters of a function, without ``self``."""
    code = frame.code
    names = list(code.co_varnames[: code.co_argcount])
    if not isinstance(node, ast.Name) or node.id not in names or last_assignment(frame.line, node.id):
        return None
    return names.index(node.id) - (names[0] in ("self", "cls"))


def wrap_at_source(crash: Crash, node: ast.expr | None, template: str) -> tuple[Edit, ...]:
    """Return the edit of a value where it is made, or where it is passed in first if that is not one assignment.

    Without this, another operation that reads the same variable would still get the old value.
    """
    place = outermost_place(crash, node)
    if place is None:
        return ()
    frame, expression = place
    value = assigned_value_in(frame, expression)
    if (made := returned_once(frame.file, value)) is not None:
        return (wrap_node(frame.file, made, template),)
    is_read_again = isinstance(expression, ast.Name) and count_reads(frame, expression.id) > 1
    is_conversion = isinstance(value, ast.Call) and call_name(value) in _CONVERSIONS
    if value is not None and (is_conversion or is_read_again):
        return (wrap_node(frame.file, value, template),)
    if isinstance(expression, ast.Name) and is_read_again:
        target = _loop_target(frame, expression.id)
        if target is not None:
            text = f"{expression.id} = {template.format(expression.id)}"
            return (insert_before(frame.file, target.body[0].lineno, text),)
    return (wrap_node(frame.file, expression, template),)


def returned_once(file: str, value: ast.expr | None) -> ast.expr | None:
    """Return what a function of the same file returns, if a value is its only call."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return None
    tree = syntax_tree(file) or ast.Module([], [])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and call_name(node) == value.func.id]
    returned = returned_by_function(file, value.func.id) if len(calls) == 1 else None
    return None if isinstance(returned, (ast.Tuple, ast.List)) else returned


def count_reads(frame: CrashFrame, name: str) -> int:
    """Return how often a variable is read from the statement of a frame on."""
    scope = enclosing_scope(frame.line)
    nodes = [node for node in ast.walk(scope) if isinstance(node, ast.Name)] if scope is not None else []
    first = frame.statement.lineno if frame.statement is not None else frame.number
    return sum(node.id == name and isinstance(node.ctx, ast.Load) and node.lineno >= first for node in nodes)


def _loop_target(frame: CrashFrame, name: str) -> ast.For | None:
    """Return the innermost loop around a frame's statement that assigns a variable, if nothing else in it does."""
    scope = enclosing_scope(frame.line)
    for loop in enclosing_loops(scope, frame.number) if scope is not None else ():
        if name in assigned_names(loop.target):
            return loop
    return None


def change_input(crash: Crash, template: str, layer_text: str = "", layer: nn.Module | None = None) -> Change:
    """Return the change of the input of the layer that raised.

    ``template`` has ``{}`` for the input; ``layer_text`` is the call that makes ``layer``, which does the same inside a
    ``Sequential``.
    """
    node = crash.input_node
    place = outermost_place(crash, node) if _is_passed_by_user(crash) else None
    if place is not None:
        return Change((wrap_node(place[0].file, place[1], template),))
    creation = find_layer_creation(crash, crash.layer)
    if creation is None or layer is None or crash.layer is None:
        return Change()
    prefix = node_text(creation.file, creation.call.func).rpartition(".")[0]
    if not prefix or not _is_item_of_sequential(creation.file, creation.call):
        return Change()
    text = f"{prefix}.{layer_text}, {node_text(creation.file, creation.call)}"
    return Change((replace_node(creation.file, creation.call, text),), {crash.layer: nn.Sequential(layer, crash.layer)})


def _is_item_of_sequential(file: str, call: ast.Call) -> bool:
    tree = syntax_tree(file)
    calls = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.Call)]
    lists = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.List)]
    is_argument = any(call_name(node) == "Sequential" and _has_part(node.args, call) for node in calls)
    return is_argument or any(_has_part(node.elts, call) for node in lists)


def _has_part(nodes: list[ast.expr], call: ast.Call) -> bool:
    spans = [(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) for node in nodes]
    return (call.lineno, call.col_offset, call.end_lineno, call.end_col_offset) in spans


def assigned_value(crash: Crash, node: ast.AST | None) -> ast.expr | None:
    """Return the expression that was assigned last to a variable, in the user's innermost frame."""
    return assigned_value_in(crash.own, node) if crash.own is not None else None


def assigned_value_in(frame: CrashFrame, node: ast.AST | None) -> ast.expr | None:
    """Return the expression that was assigned last to a variable in a frame."""
    line = last_assignment(frame.line, node.id) if isinstance(node, ast.Name) else None
    tree = syntax_tree(frame.file)
    if line is None or tree is None:
        return None
    statements = [n for n in ast.walk(tree) if isinstance(n, (ast.Assign, ast.AnnAssign)) and n.lineno == line.number]
    single = [s for s in statements if not isinstance(s, ast.Assign) or isinstance(s.targets[0], ast.Name)]
    return single[0].value if len(single) == 1 else None


def find_reshape(crash: Crash, node: ast.AST | None) -> ast.Call | None:
    """Return the call of ``view`` or the like that made a value: the expression itself, or what its variable got."""
    for candidate in (node, assigned_value(crash, node)):
        if isinstance(candidate, ast.Call) and call_name(candidate) in _RESHAPES:
            return candidate
    return None


def reshaped_owner(crash: Crash, call: ast.Call) -> ast.expr | None:
    """Return the expression of the tensor that a call reshapes."""
    if isinstance(call.func, ast.Attribute) and not isinstance(crash.value(call.func.value), type(ast)):
        return call.func.value
    return call.args[0] if call.args else None


def batch_size(crash: Crash) -> int | None:
    """Return the number of samples: the first size of the first tensor that the model got."""
    call = find_model_call(crash)
    arguments: list[Any] = [*call.args, *call.kwargs.values()] if call is not None else []
    tensors = [argument for argument in arguments if isinstance(argument, Tensor) and argument.dim()]
    return tensors[0].shape[0] if tensors else None
