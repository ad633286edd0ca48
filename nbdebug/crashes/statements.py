"""Statements of the user that change a tensor in place, or that carry one from step to step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.finding import Edit
from nbdebug.source.edits import OPERATOR_SIGNS, insert_before, node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, call_name, read_names, syntax_tree
from nbdebug.tensors.pytree import tree_tensors

_NODES = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow"}
_NOT_CHANGES = {"requires_grad_", "retain_grad_", "step_", "share_memory_"}


@dataclass(frozen=True)
class InPlaceChange:
    """A statement that changes a tensor in place; ``operation`` is its name in autograd, ``subject`` what changes."""

    file: str
    statement: ast.stmt
    subject: str
    operation: str
    edits: tuple[Edit, ...]

    @property
    def line(self) -> SourceLine:
        """The line of the statement."""
        return SourceLine(self.file, self.statement.lineno)


def find_in_place_changes(crash: Crash) -> list[InPlaceChange]:
    """Return the in-place changes in the user's files."""
    changes: list[InPlaceChange] = []
    for file in sorted(crash_files(crash)):
        tree = syntax_tree(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.stmt):
                changes += _changes(file, node)
    return changes


def _changes(file: str, node: ast.stmt) -> Iterator[InPlaceChange]:
    if isinstance(node, ast.AugAssign) and type(node.op) in OPERATOR_SIGNS:
        target, value = node_text(file, node.target), node_text(file, node.value)
        if isinstance(node.target, ast.Subscript):
            owner = node_text(file, node.target.value)
            edit = insert_before(file, node.lineno, f"{owner} = {owner}.clone()")
            yield InPlaceChange(file, node, owner, "CopySlices", (edit,))
        else:
            is_simple = isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript))
            text = f"{target} = {target} {OPERATOR_SIGNS[type(node.op)]} {value if is_simple else f'({value})'}"
            yield InPlaceChange(file, node, target, _NODES[type(node.op)], (replace_node(file, node, text),))
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        owner = node_text(file, node.targets[0].value)
        reads = [n for n in ast.walk(node.value) if isinstance(n, ast.Subscript) and ast.unparse(n.value) == owner]
        # A part of the tensor that the new value is computed from is saved before the write.
        copies = [wrap_node(file, read, "{}.clone()") for read in reads]
        copies = copies or [insert_before(file, node.lineno, f"{owner} = {owner}.clone()")]
        yield InPlaceChange(file, node, owner, "CopySlices", tuple(copies))
    own_expressions = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    for call in (part for expression in own_expressions for part in ast.walk(expression)):
        name = call_name(call)
        if not isinstance(call, ast.Call):
            continue
        inplace = next((k for k in call.keywords if k.arg == "inplace" and getattr(k.value, "value", False)), None)
        if inplace is not None:
            edits = (replace_node(file, inplace.value, "False"),)
            yield InPlaceChange(file, node, node_text(file, call), name, edits)
        elif isinstance(call.func, ast.Attribute) and name.endswith("_") and not name.startswith("_"):
            if name in _NOT_CHANGES or node_text(file, call.func.value).endswith(("init", "grad")):
                continue
            subject = node_text(file, call.func.value)
            operation, is_statement = name.rstrip("_"), isinstance(node, ast.Expr) and node.value is call
            base = _base(call.func.value)
            is_view = base is not call.func.value
            if not hasattr(Tensor, operation) or (is_view and is_statement):  # such as fill_diagonal_
                owner = node_text(file, base)
                edit = replace_node(file, base, f"{owner}.clone()")
                if is_statement:
                    edit = insert_before(file, node.lineno, f"{owner} = {owner}.clone()")
                yield InPlaceChange(file, node, owner, operation.capitalize(), (edit,))
                continue
            text = f"{subject}.{name.rstrip('_')}{node_text(file, call)[len(node_text(file, call.func)) :]}"
            edit = replace_node(file, call, f"{subject} = {text}" if is_statement else text)
            yield InPlaceChange(file, node, subject, operation.capitalize(), (edit,))


def _base(node: ast.expr) -> ast.expr:
    """Return the variable or attribute whose part or view an expression is."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return node


@dataclass(frozen=True)
class _StepState:
    """A tensor that a statement computes from its own value of the step before."""

    name: str
    line: SourceLine
    edits: tuple[Edit, ...]


def find_carried_state(crash: Crash) -> _StepState | None:
    """Return the tensor with a graph that one step passes to the next: a variable of a loop, or an attribute."""
    for file in sorted(crash_files(crash)):
        tree = syntax_tree(file)
        loops = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, (ast.For, ast.While))]
        methods = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.FunctionDef)]
        for scope in (*loops, *methods):
            for node in ast.walk(scope):
                if isinstance(node, ast.Assign) and (state := _state(crash, file, node, scope in loops)):
                    return state
    return None


def _state(crash: Crash, file: str, node: ast.Assign, in_loop: bool) -> _StepState | None:
    """Return the state that an assignment reads and sets again, if its value has a graph."""
    targets = {ast.unparse(part): part for part in assignment_targets(node)}
    targets |= {ast.unparse(p): p for t in assignment_targets(node) for p in getattr(t, "elts", ())}
    for name in targets:
        reads = [p for p in ast.walk(node.value) if isinstance(p, (ast.Name, ast.Attribute)) and ast.unparse(p) == name]
        if not reads or not any(isinstance(part, ast.Call) for part in ast.walk(node.value)):
            continue
        is_attribute = name.startswith("self.")
        if not is_attribute and not in_loop:
            continue
        values = _values(crash, name)
        tensors = [tensor for value in values for tensor in tree_tensors(value)]
        if not any(tensor.grad_fn is not None for tensor in tensors):
            continue
        if not is_attribute and _is_reset_in_loop(crash, file, node, name):
            continue
        is_tensor = all(isinstance(value, Tensor) for value in values)
        template = "{}.detach()" if is_tensor else "tuple(part.detach() for part in {})"
        edits = tuple(wrap_node(file, read, template) for read in reads)
        if any(value is None for value in values) or _starts_as_none(file, name):
            template = f"({template} if {{}} is not None else None)"
            edits = tuple(replace_node(file, read, template.replace("{}", name)) for read in reads)
        return _StepState(name, SourceLine(file, node.lineno), edits)
    return None


def _values(crash: Crash, name: str) -> list[Any]:
    if name.startswith("self."):
        attribute = name.removeprefix("self.")
        modules = [module for model in crash.models for module in model.modules()]
        owners = [*modules, *(frame.variables.get("self") for frame in crash.user_frames())]
        return [_read(owner, attribute) for owner in owners if _has(owner, attribute)]
    return [frame.variables[name] for frame in crash.user_frames() if name in frame.variables]


def _read(owner: Any, attribute: str) -> Any:
    return vars(owner)[attribute] if attribute in vars(owner) else owner._buffers.get(attribute)


def _has(owner: Any, attribute: str) -> bool:
    if owner is None or not hasattr(owner, "__dict__"):
        return False
    return attribute in vars(owner) or (isinstance(owner, nn.Module) and attribute in owner._buffers)


def _starts_as_none(file: str, name: str) -> bool:
    tree = syntax_tree(file)
    return any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and ast.unparse(node.value) == "None"
        for node in (ast.walk(tree) if tree else ())
    )


def _is_reset_in_loop(crash: Crash, file: str, node: ast.Assign, name: str) -> bool:
    """Check whether the innermost loop around an assignment that also runs backward() sets the variable before."""
    tree = syntax_tree(file)
    loops = [n for n in (ast.walk(tree) if tree else ()) if isinstance(n, (ast.For, ast.While)) and node in ast.walk(n)]
    with_backward = [loop for loop in loops if any(call_name(part) == "backward" for part in ast.walk(loop))]
    if not with_backward:
        return True
    loop = max(with_backward, key=lambda n: n.lineno)
    return any(
        isinstance(other, ast.Assign)
        and other.lineno < node.lineno
        and name in {ast.unparse(target) for target in assignment_targets(other)}
        and name not in read_names(other.value)
        for other in ast.walk(loop)
    )
