"""What keeps graphs of past steps alive: a variable or an attribute, and the line that stores tensors in it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import Tensor

from nbdebug.source.assignments import function_by_name
from nbdebug.source.location import SourceLine
from nbdebug.source.references import Referrer, find_references, frame_variables, user_files, user_frames
from nbdebug.source.search import (
    assignment_targets,
    call_arguments,
    call_name,
    enclosing_scope,
    iterate_names,
    paired_targets,
    read_names,
    search_files,
    syntax_tree,
)
from nbdebug.tensors.pytree import tree_tensors

STORING_METHODS = {"append", "appendleft", "add", "extend", "update", "put", "insert", "setdefault"}
COPYING_CALLS = {"clone", "deepcopy", "copy", "tensor"}
_DETACHING_CALLS = {"item", "detach", "tolist", "numpy", "float", "int", "len"}
_COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
_EMPTY_CONTAINERS = {"list", "dict", "deque", "set", "defaultdict"}
_MAX_NODES = 2000  # nodes of one graph that are searched for a marked one


@dataclass(frozen=True)
class GraphHolder:
    """A variable or an attribute that holds tensors with their graphs, and the line that stores them, if known."""

    name: str
    line: SourceLine | None


@dataclass(frozen=True)
class _Store:
    """A line that stores a value in a variable or an attribute, or in the part of it under some text keys."""

    line: SourceLine
    value: ast.expr
    keys: tuple[str, ...]


def find_graph_holder(is_retained: Callable[[Any], bool], frame: FrameType | None) -> GraphHolder | None:
    """Return what holds the tensors whose graphs contain a retained node; None if nothing of the user's does.

    Asks the interpreter for all tensors and for the objects that refer to them, which takes about a tenth of a second.
    """
    tensors = [value for value in gc.get_objects() if type(value) is Tensor and value.grad_fn is not None]
    holding = [tensor for tensor in tensors if _contains_retained_node(tensor.grad_fn, is_retained)]
    if not holding:
        return None
    references = find_references(holding, frame)
    files = search_files(user_files(frame))
    holders = [GraphHolder(reference.name, storing_line(reference, files, frame)) for reference in references]
    located = next((holder for holder in holders if holder.line), None)
    return located or (holders[0] if holders else _unfinished_comprehension(frame))


def _unfinished_comprehension(frame: FrameType | None) -> GraphHolder | None:
    """Return the comprehension that is running, whose list has no name yet."""
    frames = [user_frame for user_frame in user_frames(frame) if user_frame.f_code.co_name in _COMPREHENSIONS]
    lines = [SourceLine(running.f_code.co_filename, running.f_lineno) for running in frames]
    return GraphHolder("the comprehension", lines[0]) if lines else None


def _contains_retained_node(root: Any, is_retained: Callable[[Any], bool]) -> bool:
    """Search the graph behind a node, breadth first."""
    pending, visited = [root], {root}
    for node in pending:
        if is_retained(node):
            return True
        if len(pending) < _MAX_NODES:
            new_nodes = {next_node for next_node, _ in node.next_functions if next_node is not None} - visited
            visited |= new_nodes
            pending += new_nodes
    return False


def storing_line(reference: Referrer, files: set[str], frame: FrameType | None = None) -> SourceLine | None:
    """Return the only line that stores new values under a name; None if it is ambiguous.

    Searches the file of the reference, and some files if it has none, or if its class does not add to a container, then
    functions to which the container is passed. Lines that store under keys without new values do not count. Of several
    lines, the first one counts that alone stores under its keys, else the first one that stores a variable with a graph
    in the functions on the stack.
    """
    own_files = {reference.file} if reference.file else files
    other_files = files - own_files if reference.owner else set()
    adds = reference.depth > 0
    found = _find_stores(reference, own_files, adds=adds)
    found = found or _find_stores(reference, other_files, adds=adds)
    found = found or (_find_passed_stores(reference, own_files) if adds else [])
    found = found or _find_stores(reference, own_files, adds=False)
    under_keys = [store for store in found if reference.keys.issuperset(store.keys)] or found
    if frame is not None and (certain_line := _first_line_of_own_keys(under_keys, reference)):
        return certain_line
    stores = [(store.line, store.value) for store in under_keys]
    lines = {line for line, _ in stores}
    if len(lines) > 1 and frame is not None:
        have_graphs = [(line, _has_graph(value, line, frame)) for line, value in stores]
        certain_lines = [line for line, has_graph in have_graphs if has_graph]
        possible_lines = {line for line, has_graph in have_graphs if has_graph is not False}
        possible_lines |= {line for line, value in stores if _may_get_graph(value, line)}
        lines = {min(certain_lines, key=lambda line: (line.file, line.number))} if certain_lines else possible_lines
    if len(lines) > 1:
        lines -= {line for line, value in stores if _is_number(value, line)}
    return lines.pop() if len(lines) == 1 else None


def binding_line(reference: Referrer, files: set[str]) -> SourceLine | None:
    """Return the only line that stores tensors under a name without a copy, and without reading that name.

    None if it is ambiguous.
    """
    kind = ast.Attribute if reference.owner else ast.Name
    lines = {
        SourceLine(file, node.lineno)
        for file in ({reference.file} if reference.file else files)
        for node in _nodes_in_scope(file, reference)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for _, value in _stored_values(node, reference.name, kind)
        if _is_computed(value) and not {reference.name, *COPYING_CALLS}.intersection(iterate_names(value))
    }
    return lines.pop() if len(lines) == 1 else None


def _has_graph(value: ast.expr, line: SourceLine, frame: FrameType) -> bool | None:
    """Return whether a stored variable has a graph now, or a tensor in it; None if its function is not running."""
    name = getattr(enclosing_scope(line), "name", "<module>")
    frames = [item for item in user_frames(frame) if item.f_code.co_filename == line.file]
    variables = [frame_variables(item) for item in frames if item.f_code.co_name in (name, "<module>")]
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name) and not _is_converted(node, value)]
    known = [scope[name] for name in names for scope in variables if name in scope]
    if not known:
        return None
    return any(tensor.grad_fn is not None for tensor in tree_tensors(known))


def _is_number(value: ast.expr, line: SourceLine) -> bool:
    """Return whether a stored value is computed from variables that only numbers are assigned and added to."""
    assigned = _assigned_values(value, line)
    return bool(assigned) and all(
        parts and all(isinstance(part, ast.Constant) or not _keeps_graph(part) for part in parts) for parts in assigned
    )


def _may_get_graph(value: ast.expr, line: SourceLine) -> bool:
    """Return whether the result of a call, which may have a graph, is assigned or added to a stored variable."""
    assigned = _assigned_values(value, line)
    return any(isinstance(part, ast.Call) and _keeps_graph(part) for parts in assigned for part in parts)


def _assigned_values(value: ast.expr, line: SourceLine) -> list[list[ast.expr]]:
    """Return the values that the function around a line assigns or adds to each variable in a stored value."""
    scope = enclosing_scope(line)
    statements = [node for node in ast.walk(scope) if isinstance(node, (ast.Assign, ast.AugAssign))] if scope else []
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name) and not _is_converted(node, value)]
    return [
        [node.value for node in statements if any(getattr(t, "id", "") == name for t in assignment_targets(node))]
        for name in names
    ]


def _is_converted(node: ast.Name, value: ast.expr) -> bool:
    """Check whether a value uses a variable only as an index, or in a call that returns a number or no graph."""
    inner = [part for part in ast.walk(value) if isinstance(part, ast.Call) and not _keeps_graph(part)]
    inner_nodes = [*inner, *(part.slice for part in ast.walk(value) if isinstance(part, ast.Subscript))]
    return any(node is child for part in inner_nodes for child in ast.walk(part))


def _first_line_of_own_keys(stores: list[_Store], reference: Referrer) -> SourceLine | None:
    """Return the first line that alone stores under keys which hold new values; None if there is none."""
    lines_by_keys: dict[tuple[str, ...], set[SourceLine]] = {}
    for store in stores:
        lines_by_keys.setdefault(store.keys, set()).add(store.line)
    if () in lines_by_keys:
        return None  # a variable key may be any of the others
    lone_lines = [
        line
        for keys, lines in lines_by_keys.items()
        for line in lines
        if len(lines) == 1 and reference.keys.issuperset(keys)
    ]
    return min(lone_lines, key=lambda line: (line.file, line.number), default=None)


def _find_stores(reference: Referrer, files: set[str], *, adds: bool) -> list[_Store]:
    """Return the statements of some files that most likely store new values under a name.

    They assign a value, or add it to a container if ``adds``.
    """
    kind = ast.Attribute if reference.owner else ast.Name
    stores = [
        _Store(SourceLine(file, getattr(node, "lineno", 0)), value, _text_keys(target))
        for file in files
        for node in _nodes_in_scope(file, reference)
        if not (adds and _assigns_whole(node, kind))
        for target, value in _stored_values(node, reference.name, kind)
    ]
    for keeps in (_is_computed, _keeps_graph, lambda value: reference.name in {*iterate_names(value)}):
        stores = [store for store in stores if keeps(store.value)] or stores
    return stores


def _find_passed_stores(reference: Referrer, files: set[str]) -> list[_Store]:
    """Return the statements that add values to a container in the functions of its file to which it is passed."""
    kind = ast.Attribute if reference.owner else ast.Name
    parameters = {
        Referrer(parameter, file, _first_line(function) or 0, reference.depth, keys=reference.keys)
        for file in files
        for node in _nodes_in_scope(file, reference)
        if isinstance(node, ast.Call) and (function := function_by_name(file, call_name(node)))
        for parameter, argument in _named_arguments(node, function)
        if _is_named(argument, reference.name, kind)
    }
    return [store for parameter in parameters for store in _find_stores(parameter, {parameter.file}, adds=True)]


def _named_arguments(call: ast.Call, function: ast.FunctionDef) -> list[tuple[str, ast.expr]]:
    """Return the arguments of a call with the names of the parameters; a method is called on its object."""
    names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    is_method = isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"])
    by_position = [*zip(names[is_method:], call.args, strict=False)]
    return by_position + [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]


def _nodes_in_scope(file: str, reference: Referrer) -> list[ast.AST]:
    """Return the nodes of the function or class of a reference; those of the whole file if it has neither."""
    tree = syntax_tree(file)
    nodes = [*ast.walk(tree)] if tree else []
    scopes = [node for node in nodes if reference.first_line and _first_line(node) == reference.first_line]
    scopes += [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == reference.owner]
    return [node for scope in scopes for node in ast.walk(scope)] if scopes else nodes


def _first_line(node: ast.AST) -> int | None:
    """Return the first line of a function, with its decorators; None for other nodes."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return None
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _stored_values(node: ast.AST, name: str, kind: type[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield where a statement or a call stores something, and what: a variable or an attribute, or a part of it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STORING_METHODS:
        if _is_named(node.func.value, name, kind):
            values = call_arguments(node)
            yield from ((node.func.value, value) for value in values)
    elif isinstance(node, ast.Assign):
        pairs = (pair for target in node.targets for pair in paired_targets(target, node.value))
        yield from ((target, value) for target, value in pairs if _is_named(target, name, kind))
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value and _is_named(node.target, name, kind):
        yield node.target, node.value


def _text_keys(target: ast.expr) -> tuple[str, ...]:
    """Return the constant text keys by which an expression selects a part of a container, the outermost last."""
    keys: list[str] = []
    selected: ast.AST = target
    while isinstance(selected, (ast.Subscript, ast.Call, ast.Starred)):
        index = selected.slice if isinstance(selected, ast.Subscript) else None
        index = selected.args[0] if isinstance(selected, ast.Call) and selected.args else index
        keys += [index.value] if isinstance(index, ast.Constant) and isinstance(index.value, str) else []
        selected = _selected_from(selected)
    return tuple(keys)


def _assigns_whole(node: ast.AST, kind: type[ast.AST]) -> bool:
    """Check whether a statement assigns a variable or an attribute itself, not a part of its value."""
    return isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
        isinstance(target, kind) for target in assignment_targets(node)
    )


def _is_named(node: ast.AST, name: str, kind: type[ast.AST]) -> bool:
    """Check whether an expression is a variable or an attribute with a name, or a part of its value."""
    while isinstance(node, (ast.Subscript, ast.Call, ast.Starred)):
        node = _selected_from(node)
    return isinstance(node, kind) and name in (getattr(node, "attr", ""), getattr(node, "id", ""))


def _selected_from(node: ast.Subscript | ast.Call | ast.Starred) -> ast.expr:
    """Return the container of which an expression selects a part, or the function that it calls."""
    selected = node.func if isinstance(node, ast.Call) else node.value
    is_selection = isinstance(selected, ast.Attribute) and selected.attr in ("setdefault", "get")
    return selected.value if isinstance(selected, ast.Attribute) and is_selection else selected


def _is_computed(value: ast.expr) -> bool:
    """Check whether a value is computed from variables, unlike an empty container or a number."""
    return bool(read_names(value) - _EMPTY_CONTAINERS)


def _keeps_graph(value: ast.expr) -> bool:
    """Check whether a value may have a graph: its last operation does not convert it to a number."""
    function = value.func if isinstance(value, ast.Call) else None
    return str(getattr(function, "attr", getattr(function, "id", ""))) not in _DETACHING_CALLS
