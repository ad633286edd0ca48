"""Tensors of the user whose graph an earlier backward pass has freed, and what trains them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.loss_graphs import walk_graph
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, covers_line, enclosing_scope, innermost_loop

_MAX_DEPTH = 3


@dataclass(frozen=True)
class SharedTensor:
    """A tensor with a freed graph: the variable or attribute that holds it, in a container or not, and its frame."""

    name: str
    tensor: Tensor
    frame: CrashFrame
    owner: Any = None
    in_container: bool = False
    is_innermost: bool = True

    def assignments(self) -> list[tuple[str, ast.Assign]]:
        """Return the assignments of the variable or attribute, the last before the running line first."""
        if self.owner is not None:
            lines = find_assignments(self.owner, self.name.rpartition(".")[2])
            statements = [(line.file, covering_statement(line)) for line in lines]
            return [(file, s) for file, s in statements if isinstance(s, ast.Assign)]
        scope = enclosing_scope(self.frame.line)
        nodes = [node for node in ast.walk(scope) if isinstance(node, ast.Assign)] if scope is not None else []
        own = [n for n in nodes if self.name in {ast.unparse(target) for target in assignment_targets(n)}]
        own = [node for node in own if enclosing_scope(SourceLine(self.frame.file, node.lineno)) is scope]
        return [(self.frame.file, node) for node in sorted(own, key=lambda node: -node.lineno)]

    @property
    def loop_around(self) -> ast.For | ast.While | None:
        """The innermost loop around the running line."""
        scope = enclosing_scope(self.frame.line)
        return innermost_loop(scope, self.frame.number) if scope is not None else None

    @property
    def is_passed_to_loop(self) -> bool:
        """True if the running line of the variable's function is in no loop, and calls another function of the user."""
        return self.loop_around is None and not self.is_innermost

    def loop_after(self, statement: ast.Assign) -> ast.For | ast.While | None:
        """Return the innermost loop around the running line, unless it contains an assignment."""
        loop = self.loop_around
        return loop if loop is not None and not covers_line(loop, statement.lineno) else None


def find_shared_tensors(crash: Crash, loss: Tensor) -> list[SharedTensor]:
    """Return the tensors behind a loss whose whole graph has been freed, the nearest to the loss first."""
    order = {id(node): position for position, node in enumerate(walk_graph(loss))}
    shared = [item for item in _held_tensors(crash) if id(item.tensor.grad_fn) in order and item.tensor is not loss]
    shared += [item for item in _held_tensors(crash) if item.tensor is loss]
    freed = [item for item in shared if _is_freed(item.tensor)]
    return sorted(freed, key=lambda item: order[id(item.tensor.grad_fn)])


def _is_freed(tensor: Tensor) -> bool:
    """Return whether the nodes behind a tensor that save something have been freed."""
    states = [state for node in walk_graph(tensor) if (state := _saved_state(node)) is not None]
    return bool(states) and not any(states)


def _saved_state(node: Any) -> bool | None:
    """Return whether a node still has its saved tensors; None if it saves none."""
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                value = getattr(node, name)
            except RuntimeError:
                return False
            if isinstance(value, Tensor):
                return True
    return None


def _held_tensors(crash: Crash) -> Iterator[SharedTensor]:
    """Yield the tensors with a graph that the user's frames hold, in variables and attributes of ``self``."""
    for frame in crash.user_frames():
        for name, value in frame.variables.items():
            for tensor, depth in _tensors(value, 0):
                yield SharedTensor(name, tensor, frame, None, depth > 0, frame is crash.own)
        owners = {"self": frame.variables.get("self")} | {
            name: value for name, value in frame.variables.items() if _is_object_of_user(value)
        }
        for name, owner in owners.items():
            stores = [getattr(owner, "__dict__", {}), getattr(owner, "_buffers", {})] if owner is not None else []
            for attribute, value in [item for store in stores for item in store.items()]:
                for tensor, depth in _tensors(value, 0):
                    yield SharedTensor(f"{name}.{attribute}", tensor, frame, owner, depth > 0)


def _is_object_of_user(value: Any) -> bool:
    is_module = isinstance(value, nn.Module)
    library = type(value).__module__.split(".")[0] in ("torch", "numpy", "builtins", "types", "collections")
    return hasattr(value, "__dict__") and not isinstance(value, type) and (is_module or not library)


def _tensors(value: Any, depth: int) -> Iterator[tuple[Tensor, int]]:
    """Yield the tensors with a graph in a value, with the number of containers around each."""
    if isinstance(value, Tensor):
        if value.grad_fn is not None:
            yield value, depth
    elif depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth + 1)


def leaves(tensor: Tensor, without: Any = None) -> set[int]:
    """Return the identifiers of the leaves behind a tensor; those only behind the node ``without`` are left out."""
    found: set[int] = set()
    pending, visited = [tensor.grad_fn], set[int]()
    nodes = []
    while pending:
        node = pending.pop()
        if node is None or node is without or id(node) in visited:
            continue
        visited.add(id(node))
        nodes.append(node)
        found |= {id(node.variable)} if hasattr(node, "variable") else set()
        pending += [parent for parent, _ in node.next_functions]
    return found
