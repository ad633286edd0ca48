"""Expressions that cut the graph between a model and its loss, found by following the loss backwards.

An expression carries a graph if it calls a module with trainable parameters, or reads a tensor that requires a
gradient. What makes a value without a graph of such an expression is a cut.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator
from nbdebug.crashes.frames import CrashFrame
from nbdebug.finding import Edit
from nbdebug.source.assignments import find_function, own_statements
from nbdebug.source.edits import append_argument, node_text, replace_around, replace_node
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import SourceScope, assigned_names, call_name, covers_line, enclosing_scope, read_names

_REASONS = {
    "detach": "detach() removes the graph",
    "item": "item() returns a Python number, without a graph",
    "argmax": "argmax has no gradient; it returns an index",
    "argmin": "argmin has no gradient; it returns an index",
    "topk": "topk returns indices, which have no gradient",
    "numpy": "numpy() returns an array, without a graph",
    "tolist": "tolist() returns Python numbers, without a graph",
    "round": "round has the gradient zero",
    "sign": "sign has the gradient zero",
    "floor": "floor has the gradient zero",
    "ceil": "ceil has the gradient zero",
    "tensor": "torch.tensor() copies values, without their graph",
    "Tensor": "torch.Tensor() copies values, without their graph",
    "FloatTensor": "torch.FloatTensor() copies values, without their graph",
    "as_tensor": "torch.as_tensor() of numbers has no graph",
    "from_numpy": "torch.from_numpy() returns a tensor without a graph",
    "long": "integers have no gradient",
    "int": "integers have no gradient",
    "bool": "booleans have no gradient",
    "float": "float() returns a Python number, without a graph",
    "data": ".data is the tensor without its graph",
    "sample": "sample() has no gradient",
    "multinomial": "multinomial returns indices, which have no gradient",
    "grad": "autograd.grad() returns gradients without a graph, unless create_graph=True",
    "no_grad": "no_grad() records no graph",
}
_NO_GRAD = ("no_grad", "inference_mode", "set_grad_enabled(False)", "set_grad_enabled(mode=False)")
_MAX_DEPTH = 60


@dataclass(frozen=True)
class GraphCut:
    """An expression that cuts the graph: its name, reason, place, and the edits that undo it."""

    name: str
    reason: str
    line: SourceLine
    text: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class _Place:
    """The place at which an expression is evaluated: a frame, or a function that has returned, with its arguments."""

    file: str
    number: int
    scope: SourceScope | None
    frame: CrashFrame | None
    arguments: Mapping[str, tuple[_Place, ast.expr]] = field(default_factory=dict)
    owner: Any = None

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression, as far as it can still be known."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return getattr(self.owner, node.attr, UNKNOWN) if self.owner is not None else UNKNOWN
        if isinstance(node, ast.Name) and node.id == "self" and self.owner is not None:
            return self.owner
        if isinstance(node, ast.Name) and node.id in self.arguments:
            place, argument = self.arguments[node.id]
            return place.value(argument)
        if self.frame is None:
            return UNKNOWN
        is_local = isinstance(node, ast.Name) and not self.is_frame_scope and node.id in self.assigned
        return UNKNOWN if is_local else Evaluator(self.frame).value(node)

    @property
    def is_frame_scope(self) -> bool:
        """True if the variables of the frame are those of this place."""
        return self.frame is not None and self.scope is enclosing_scope(self.frame.line)

    @property
    def assigned(self) -> set[str]:
        """The local variables."""
        return assigned_names(self.scope) if self.scope is not None else set()


def find_graph_cuts(crash: Crash, node: ast.expr) -> list[GraphCut]:
    """Return the expressions that cut the graph behind an expression of the user's innermost frame, last first."""
    frame = crash.own
    if frame is None:
        return []
    place = _Place(frame.file, frame.number, enclosing_scope(frame.line), frame, owner=frame.variables.get("self"))
    search = _CutSearch()
    cuts = list(search.cuts(place, node, 0))
    if not cuts:
        search = _CutSearch(enters_modules=True)
        cuts = list(search.cuts(place, node, 0))
    return list(dict.fromkeys(cuts))


class _CutSearch:
    """A walk along assignments, arguments and functions from a loss to the model."""

    def __init__(self, enters_modules: bool = False) -> None:
        self.enters_modules = enters_modules
        self.visited: set[int] = set()

    def cuts(self, place: _Place, node: ast.expr, depth: int) -> Iterator[GraphCut]:
        """Yield the cuts behind an expression."""
        if id(node) in self.visited or depth > _MAX_DEPTH:
            return
        self.visited.add(id(node))
        if (subject := _cut_subject(place, node)) is not None:
            is_carried = self.carries(place, subject, 0)
            behind = [] if is_carried else list(self.cuts(place, subject, depth + 1))
            if behind or is_carried:
                yield from behind
                yield from _cuts_of_elements(place, subject) if is_carried else ()
                yield _make_cut(place, node, subject)
                return
        if isinstance(node, ast.Name):
            for value, line in _assigned_values(place, node):
                inner = replace(place, number=line)
                context = _no_grad_context(place, line)
                if context is not None and self.carries(inner, value, 0):
                    yield _no_grad_cut(place, context)
                yield from self.cuts(inner, value, depth + 1)
            if node.id in place.arguments:
                outer, argument = place.arguments[node.id]
                yield from self.cuts(outer, argument, depth + 1)
            return
        inside = _find_called_function(place, node, self.enters_modules) if isinstance(node, ast.Call) else None
        if inside is not None:
            function, values = inside
            for decorator in getattr(function.scope, "decorator_list", ()):
                if _is_no_grad(decorator):
                    yield _no_grad_cut(function, decorator)
            for value in values:
                context = _no_grad_context(function, value.lineno)
                if context is not None:
                    yield _no_grad_cut(function, context)
                yield from self.cuts(replace(function, number=value.lineno), value, depth + 1)
        for child in ast.iter_child_nodes(node):
            for part in [child.value] if isinstance(child, ast.keyword) else [child]:
                if isinstance(part, ast.expr):
                    yield from self.cuts(place, part, depth + 1)
                elif isinstance(part, ast.comprehension):
                    yield from self.cuts(place, part.iter, depth + 1)

    def carries(self, place: _Place, node: ast.AST, depth: int) -> bool:
        """Return whether a value depends on trainable parameters, up to the first cut."""
        if depth > _MAX_DEPTH or not isinstance(node, (ast.expr, ast.comprehension, ast.keyword)):
            return False
        if isinstance(node, (ast.Name, ast.Attribute)):
            value = place.value(node)
            if isinstance(value, Tensor) and not value.is_meta:
                return value.requires_grad
        if isinstance(node, ast.Name):
            sources = [(replace(place, number=number), value) for value, number in _assigned_values(place, node)]
            sources += [place.arguments[node.id]] if node.id in place.arguments else []
            return any(self.carries(source, value, depth + 1) for source, value in sources)
        if isinstance(node, ast.expr) and _cut_subject(place, node) is not None:
            return False
        if isinstance(node, ast.Call):
            called = place.value(node.func)
            if isinstance(called, nn.Module) and any(p.requires_grad for p in called.parameters()):
                return True
            inside = _find_called_function(place, node, False)
            if inside is not None and any(self.carries(inside[0], value, depth + 1) for value in inside[1]):
                return True
        return any(self.carries(place, child, depth + 1) for child in ast.iter_child_nodes(node))


def _cuts_of_elements(place: _Place, node: ast.expr) -> Iterator[GraphCut]:
    """Yield the cuts of the elements of a comprehension, whose variable no frame holds."""
    if not isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return
    names = {name for generator in node.generators for name in assigned_names(generator.target)}
    for part in ast.walk(node.elt):
        subject = _cut_subject(place, part) if isinstance(part, ast.expr) else None
        if subject is not None and isinstance(part, ast.expr) and names & read_names(subject):
            yield _make_cut(place, part, subject)


def _cut_subject(place: _Place, node: ast.expr) -> ast.expr | None:
    """Return what an expression makes a value without a graph of; None if it keeps the graph."""
    if isinstance(node, ast.Compare):
        return node.left
    if isinstance(node, ast.Attribute) and node.attr in ("data", "indices"):
        return node.value
    if isinstance(node, ast.Call) and call_name(node) == "grad" and node.args:
        is_kept = any(keyword.arg == "create_graph" for keyword in node.keywords)
        return None if is_kept or "autograd" not in ast.unparse(node.func) else node.args[0]
    if not isinstance(node, ast.Call) or call_name(node) not in _REASONS:
        return None
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_namespace = owner is not None and ast.unparse(owner) in ("torch", "np", "numpy", "F", "math")
    subject = (node.args[0] if node.args else None) if owner is None or is_namespace else owner
    if call_name(node) == "float" and owner is not None and not is_namespace:  # a conversion, which has a gradient
        return None
    return subject


def _make_cut(place: _Place, node: ast.expr, subject: ast.expr) -> GraphCut:
    name = call_name(node) or getattr(node, "attr", "comparison")
    reason = _REASONS.get(name, "a comparison (>, <, ==, a threshold) has no gradient")
    before, after = "", ""
    if name == "grad" and isinstance(node, ast.Call):
        text, line = node_text(place.file, node), SourceLine(place.file, node.lineno)
        return GraphCut(name, _REASONS[name], line, text, (append_argument(place.file, node, "create_graph=True"),))
    if name == "sample":
        after = f".rsample{node_text(place.file, node)[len(node_text(place.file, node.func)) :]}"  # type: ignore[attr-defined]
    elif isinstance(subject, (ast.List, ast.Tuple, ast.ListComp)) or _holds_tensors(place.value(subject)):
        before, after = "torch.stack(", ")"
    elif isinstance(subject, ast.BinOp):
        before, after = "(", ")"
    line, text = SourceLine(place.file, node.lineno), node_text(place.file, node)
    edits = replace_around(place.file, node, subject, before, after)
    return GraphCut(name, reason, line, text, (*edits, *(_replace_numpy(place) if name == "numpy" else ())))


def _holds_tensors(value: Any) -> bool:
    """Return whether a value is a list or a tuple of tensors."""
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(item, Tensor) for item in value)


def _replace_numpy(place: _Place) -> Iterator[Edit]:
    """Yield the edits that compute with torch what a function computes with NumPy."""
    for node in ast.walk(place.scope) if place.scope is not None else ():
        function = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(function, ast.Attribute):
            continue
        if ast.unparse(function.value) in ("np", "numpy") and hasattr(torch, function.attr):
            yield replace_node(place.file, function.value, "torch")
        elif function.attr == "numpy":
            yield from replace_around(place.file, node, function.value, "", "")


def _no_grad_cut(place: _Place, expression: ast.expr) -> GraphCut:
    text, line = node_text(place.file, expression), SourceLine(place.file, expression.lineno)
    is_call = isinstance(expression, ast.Call)
    edit = replace_node(place.file, expression, "torch.enable_grad()" if is_call else "torch.enable_grad")
    return GraphCut("no_grad", "no graph is recorded inside it", line, text, (edit,))


def _assigned_values(place: _Place, node: ast.Name) -> list[tuple[ast.expr, int]]:
    """Return the expressions that assign a variable before a line, in a loop also those after it, with their lines."""
    values: list[tuple[ast.expr, int]] = []
    for statement in own_statements(place.scope) if place.scope is not None else ():
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        value = getattr(statement, "iter", getattr(statement, "value", None))
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)) and isinstance(value, ast.expr):
            names = {part.id for target in targets if target is not None for part in ast.walk(target) if _is_name(part)}  # type: ignore[attr-defined]
            if node.id in names and statement.lineno <= place.number:
                values.append((value, statement.lineno))
        appended = _appended_value(statement, node.id)
        if appended is not None and statement.lineno <= place.number:
            values.append((appended, statement.lineno))
    return sorted(values, key=lambda item: -item[1])


def _appended_value(statement: ast.stmt, name: str) -> ast.expr | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or call_name(call) != "append" or len(call.args) != 1:
        return None
    return call.args[0] if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == name else None


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _no_grad_context(place: _Place, number: int) -> ast.expr | None:
    """Return the context around a line of a function that records no graph."""
    blocks = [node for node in ast.walk(place.scope) if isinstance(node, ast.With)] if place.scope else []
    contexts = [item.context_expr for block in blocks if covers_line(block, number) for item in block.items]
    return next((context for context in contexts if _is_no_grad(context)), None)


def _is_no_grad(expression: ast.expr) -> bool:
    return any(word in ast.unparse(expression) for word in _NO_GRAD)


def _find_called_function(place: _Place, call: ast.Call, enters_modules: bool) -> tuple[_Place, list[ast.expr]] | None:
    """Return the function of the user that a call runs, with what it returns."""
    called = place.value(call.func)
    owner: Any = getattr(called, "__self__", None)
    if called is UNKNOWN and isinstance(call.func, ast.Attribute):
        owner = place.value(call.func.value)
        called = getattr(type(owner), call.func.attr, None) if owner is not UNKNOWN else None
    if isinstance(called, nn.Module):
        is_entered = enters_modules or not any(p.requires_grad for p in called.parameters())
        owner, called = called, type(called).forward if is_entered else None
    function: Any = inspect.unwrap(getattr(called, "__func__", called)) if callable(called) else None
    code = getattr(function, "__code__", None)
    node = find_function(code) if code is not None and is_user_code(code.co_filename) else None
    if code is None or not isinstance(node, ast.FunctionDef):
        return None
    names = [argument.arg for argument in node.args.args]
    names = names[1:] if owner is not None and names[:1] == ["self"] else names
    arguments = {name: (place, argument) for name, argument in zip(names, call.args, strict=False)}
    arguments |= {str(keyword.arg): (place, keyword.value) for keyword in call.keywords}
    statements = sorted(own_statements(node), key=lambda statement: statement.lineno)
    values = [s.value for s in statements if isinstance(s, ast.Return) and s.value is not None]
    return _Place(code.co_filename, node.lineno, node, place.frame, arguments, owner), values


def is_grad_mode_left_off() -> bool:
    """Return whether the program has switched gradients off and not on again."""
    return not torch.is_grad_enabled()
