"""The calls in the user's source that created a layer, a parameter or another object of the crash."""

from __future__ import annotations

import ast
from typing import Any

from torch import nn

from nbdebug.crashes.crash import Crash
from nbdebug.finding import Edit
from nbdebug.setup.module_lines import creation_line
from nbdebug.source.creation import Creation, consistent_creations
from nbdebug.source.edits import append_argument, replace_node
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import call_name, enclosing_scope, search_files, syntax_tree


def crash_files(crash: Crash) -> set[str]:
    """Return the user's files: those of the frames, of the classes of the model, and the cells of a notebook."""
    files = {frame.file for frame in crash.frames if frame.is_user}
    modules = list(crash.root.modules()) if crash.root is not None else []
    files |= search_files([*modules, *crash.modules])
    return {file for file in files if is_user_code(file)}


def find_layer_creation(crash: Crash, layer: nn.Module | None) -> Creation | None:
    """Return the call that created a layer of the model; None if several can have created it."""
    if layer is None:
        return None
    files = crash_files(crash)
    creations = consistent_creations(layer, files)
    if len(creations) > 1 and (path := crash.path(layer)) and crash.root is not None:
        line = creation_line(crash.root, path.split("."), files)
        on_line = [c for c in creations if line and (c.file, c.call.lineno) == (line.file, line.number)]
        on_line = on_line or [c for c in creations if line and c.file == line.file and _covers(c.call, line.number)]
        named = [c for c in creations if path.rpartition(".")[2] in c.names]
        creations = on_line or named or _most_confirmed(creations, layer)
    return creations[0] if len(creations) == 1 else None


def _most_confirmed(creations: list[Creation], layer: nn.Module) -> list[Creation]:
    """Return the calls with the most numbers that the layer has as options."""

    def count(creation: Creation) -> int:
        names = [name for name, value in vars(layer).items() if isinstance(value, (int, tuple))]
        return sum(isinstance(creation.argument(layer, name), ast.Constant) for name in names)

    most = max(map(count, creations))
    return [creation for creation in creations if count(creation) == most]


def _covers(call: ast.Call, number: int) -> bool:
    return call.lineno <= number <= (call.end_lineno or call.lineno)


def set_argument(creation: Creation, created: object, name: str, value: Any) -> Edit:
    """Return the edit that gives a parameter of a constructor a value."""
    argument = creation.argument(created, name)
    if argument is not None:
        return replace_node(creation.file, argument, f"{value}")
    return append_argument(creation.file, creation.call, f"{name}={value}")


def set_layer_argument(crash: Crash, layer: nn.Module, name: str, value: Any) -> Edit | None:
    """Return the edit that gives an argument of a layer a value, in the call of a function that makes such layers."""
    creation = find_layer_creation(crash, layer)
    if creation is None:
        return None
    argument = creation.argument(layer, name)
    scope = enclosing_scope(SourceLine(creation.file, creation.call.lineno))
    path = crash.path(layer) or ""
    if isinstance(argument, ast.Name) and isinstance(scope, ast.FunctionDef) and scope.name != "__init__":
        names = [parameter.arg for parameter in scope.args.args]
        if argument.id in names:
            return _argument_of_factory(crash, scope.name, names.index(argument.id), argument.id, path, value)
    return set_argument(creation, layer, name, value)


def _argument_of_factory(crash: Crash, function: str, position: int, name: str, path: str, value: Any) -> Edit | None:
    """Return the edit of an argument in the assignment of what a function makes, to a part of the path."""
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if not isinstance(node, ast.Assign) or call_name(node.value) != function:
                continue
            targets = {getattr(target, "attr", getattr(target, "id", "")) for target in node.targets}
            if targets & {*path.split(".")} and isinstance(node.value, ast.Call):
                named = next((k.value for k in node.value.keywords if k.arg == name), None)
                arguments = node.value.args
                chosen = named if named is not None else arguments[position] if position < len(arguments) else None
                return replace_node(file, chosen, str(value)) if chosen is not None else None
    return None
