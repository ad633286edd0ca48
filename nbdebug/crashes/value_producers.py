"""The expression that makes a value which the user passes on: an assignment, a dataset, or its arguments."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.crashes.continuation import continues
from nbdebug.crashes.crash import Crash
from nbdebug.crashes.evaluation import Evaluator
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.inputs import count_reads, returned_once
from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement, find_function, last_assignment
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.location import is_user_code
from nbdebug.source.search import assignment_targets, call_name, enclosing_loops, enclosing_scope, syntax_tree

_AXES = re.compile(r"\((-?\d+(?:, -?\d+)*)\)")


def move_to_producer(crash: Crash, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return the edit of a variable that an outer function passes on, where its value is made.

    Every other call with this value then works, too. The edits stay as they are if the value is made elsewhere, or if
    what else reads the variable would not run.
    """
    frames = [frame for frame in crash.user_frames() if frame is not crash.own]
    if len(edits) != 1 or not frames:
        return edits
    (edit,) = edits
    for frame in frames:
        if frame.file != edit.file or frame.statement is None or edit.line != edit.end_line:
            continue
        if (returned := _returned_by_only_call(frame, edit)) is not None:
            return returned
        node = _name_at(frame, edit)
        if node is None or not edit.text.startswith(node.id):
            continue
        producer = _find_producer(frame, node, "{}" + edit.text[len(node.id) :])
        if producer is None:
            return edits
        file, made, template = producer
        moved = (wrap_node(file, made, template),)
        is_read_once = count_reads(frame, node.id) <= 1
        return moved if continues(crash, moved) or is_read_once else edits
    return edits


def _returned_by_only_call(frame: CrashFrame, edit: Edit) -> tuple[Edit, ...] | None:
    """Return the edit of what a function of the user returns, instead of that of its only call."""
    nodes = ast.walk(frame.statement) if frame.statement is not None else ()
    for call in nodes:
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        span, text = replace_node(frame.file, call, ""), node_text(frame.file, call)
        is_edited = (span.line, span.column, span.end_column) == (edit.line, edit.column, edit.end_column)
        returned = returned_once(frame.file, call) if is_edited and edit.text.startswith(f"{text}.") else None
        if returned is not None:
            return (wrap_node(frame.file, returned, "{}" + edit.text[len(text) :]),)
    return None


def _name_at(frame: CrashFrame, edit: Edit) -> ast.Name | None:
    """Return the variable of a frame's statement that an edit replaces."""
    nodes = ast.walk(frame.statement) if frame.statement is not None else ()
    names = [node for node in nodes if isinstance(node, ast.Name)]
    spans = {node: replace_node(frame.file, node, "") for node in names}
    place = (edit.line, edit.column, edit.end_column)
    return next((n for n, span in spans.items() if (span.line, span.column, span.end_column) == place), None)


def _find_producer(frame: CrashFrame, node: ast.expr, template: str) -> tuple[str, ast.expr, str] | None:
    """Return the file and the expression that make the value of a variable, and a change of it as it is there.

    In a dataset the samples have no batch axis yet: the axes that a template names are counted from there. None if
    the variable is not made in one place.
    """
    if not isinstance(node, ast.Name):
        return None
    line = last_assignment(frame.line, node.id)
    statement = covering_statement(line) if line is not None else None
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        value = _assigned_expression(statement, node.id)
        return (frame.file, value, template) if value is not None else None
    scope = enclosing_scope(frame.line)
    for loop in enclosing_loops(scope, frame.number) if scope is not None else ():
        position = _path_in_target(loop.target, node.id)
        if position is not None:
            return _find_in_dataset(frame, loop, position, template)
    return None


def _assigned_expression(statement: ast.Assign | ast.AnnAssign, name: str) -> ast.expr | None:
    """Return the expression that a variable of an assignment gets."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if isinstance(target, ast.Name):
        return statement.value
    elements, values = getattr(target, "elts", []), getattr(statement.value, "elts", [])
    names = [getattr(element, "id", None) for element in elements]
    return values[names.index(name)] if name in names and len(names) == len(values) else None


def _path_in_target(target: ast.expr, name: str) -> tuple[int, ...] | None:
    """Return the path to a variable in the target of a loop."""
    if isinstance(target, ast.Name):
        return () if target.id == name else None
    for index, element in enumerate(getattr(target, "elts", [])):
        inner = _path_in_target(element, name)
        if inner is not None:
            return (index, *inner)
    return None


def _find_in_dataset(
    frame: CrashFrame, loop: ast.For, position: tuple[int, ...], template: str
) -> tuple[str, ast.expr, str] | None:
    """Return what the dataset behind the loader of a loop makes at a position."""
    iterated, path = loop.iter, position
    if isinstance(iterated, ast.Call) and call_name(iterated) == "enumerate" and iterated.args:
        iterated, path = iterated.args[0], position[1:]
    loader = Evaluator(frame).value(iterated)
    if not isinstance(loader, DataLoader):
        loaders = [value for value in frame.variables.values() if isinstance(value, DataLoader)]
        loader = loaders[0] if len(loaders) == 1 else None
    dataset: Any = getattr(loader, "dataset", loader)
    kind = type(dataset)
    if isinstance(iterated, ast.Call) and call_name(iterated) == "DataLoader" and iterated.args:
        made = iterated.args[0]  # a loader that no variable holds
        dataset = Evaluator(frame).value(made)
        kind = Evaluator(frame).value(made.func) if isinstance(made, ast.Call) else type(dataset)
    elif getattr(loader, "collate_fn", None) is None:
        return None
    if len(path) != 1 or not isinstance(kind, type):
        return None
    if isinstance(dataset, TensorDataset):
        return _find_in_tensor_dataset(frame, path[0], template)
    method = getattr(kind, "__getitem__", None)
    code = getattr(inspect.unwrap(method), "__code__", None) if method is not None else None
    function = find_function(code) if code is not None and is_user_code(code.co_filename) else None
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)] if function is not None else []
    elements = getattr(returns[0].value, "elts", []) if len(returns) == 1 else []
    if path[0] >= len(elements) or code is None:
        return None
    element = elements[path[0]]
    sample_template = _without_batch_axis(template)
    if not _is_tensor(dataset, code.co_filename, element) and template.startswith("{}."):
        sample_template = f"torch.as_tensor({{}}){sample_template[2:]}"
    return code.co_filename, element, sample_template


def _is_tensor(dataset: Any, file: str, element: ast.expr) -> bool:
    """Return whether an expression of a dataset reads a tensor of it, or calls torch."""
    names = {part.attr for part in ast.walk(element) if isinstance(part, ast.Attribute)}
    values = [getattr(dataset, "__dict__", {}).get(name) for name in names]
    if any(isinstance(value, Tensor) for value in values) or "torch." in ast.unparse(element):
        return True
    statements = [n for n in ast.walk(syntax_tree(file) or ast.Module([], [])) if isinstance(n, ast.Assign)]
    makers = [n for n in statements if names & {getattr(target, "attr", "") for target in assignment_targets(n)}]
    return bool(makers) and all(ast.unparse(node.value).startswith("torch.") for node in makers)


def _find_in_tensor_dataset(frame: CrashFrame, position: int, template: str) -> tuple[str, ast.expr, str] | None:
    tree = syntax_tree(frame.file)
    calls = [n for n in (ast.walk(tree) if tree else ()) if isinstance(n, ast.Call) and call_name(n) == "TensorDataset"]
    if len(calls) != 1 or position >= len(calls[0].args) or isinstance(calls[0].args[position], ast.Starred):
        return None
    return frame.file, calls[0].args[position], template


def _without_batch_axis(template: str) -> str:
    """Return a template with its axes counted without the batch axis."""

    def shift(match: re.Match[str]) -> str:
        axes = [int(axis) for axis in match[1].split(", ")]
        return f"({', '.join(str(axis - 1 if axis > 0 else axis) for axis in axes)})"

    return _AXES.sub(shift, template)
