"""Find the call in the user's source that creates an object, such as an optimizer or a loader."""

from __future__ import annotations

import ast
import gc
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any

from nbdebug.source.assignments import own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.references import find_names, find_reachable_files
from nbdebug.source.scopes import UNKNOWN, Scope, file_scope
from nbdebug.source.search import (
    call_name,
    enclosing_scope,
    file_nodes,
    paired_targets,
    parameter_names,
    syntax_tree,
)

_UNKNOWN = object()
_PACKAGE_PREFIX = f"{__name__.partition('.')[0]}."
_CONSTANT_TYPES = (bool, int, float, str, tuple)
_CHANGING_OPTIONS = {"last_epoch", "verbose"}  # schedulers count the first, and do not store the second
_MAX_LOADED_FILES = 200  # files of the user's imported modules that are searched


@dataclass(frozen=True)
class Creation:
    """A call that creates an object, and the variables, attributes and keywords that receive its result."""

    file: str
    call: ast.Call
    names: frozenset[str] = frozenset()

    @property
    def line(self) -> SourceLine:
        """The first line of the call."""
        return SourceLine(self.file, self.call.lineno)

    @property
    def unpacks_arguments(self) -> bool:
        """Whether the call takes arguments from a sequence or a dictionary."""
        is_starred = any(isinstance(argument, ast.Starred) for argument in self.call.args)
        return is_starred or any(keyword.arg is None for keyword in self.call.keywords)

    def argument(self, created: object, name: str) -> ast.expr | None:
        """Return the argument for a parameter of the constructor, by name or by position."""
        keywords = {keyword.arg: keyword.value for keyword in self.call.keywords}
        if name in keywords:
            return keywords[name]
        names = parameter_names(type(created))  # type: ignore[arg-type]
        arguments = self.call.args
        has_positions = not any(isinstance(argument, ast.Starred) for argument in arguments)
        has_positions &= call_name(self.call) != "partial"
        index = names.index(name) if name in names and has_positions else len(arguments)
        return arguments[index] if index < len(arguments) else None


def find_creation(
    created: object,
    files: Iterable[str],
    frame: FrameType | None = None,
    *,
    is_excluded: Callable[[Creation], bool] = lambda _: False,
) -> Creation | None:
    """Return the only call that can have created an object; None if there is none, or more than one.

    Calls that pass other options or that ``is_excluded`` accepts are excluded, and of several calls those whose result
    is stored under a name that the object does not have now, in the functions on the stack that ends in ``frame`` or
    anywhere else. If no call in the files remains, the imported modules that the program can reach are searched; a
    class of torch must then have that name.
    """
    candidates, is_imported = candidate_creations(created, files, frame, is_excluded=is_excluded)
    return only_creation(created, candidates, is_imported, frame)


def only_creation(
    created: object, candidates: list[Creation], is_imported: bool, frame: FrameType | None
) -> Creation | None:
    """Return the only one of the ``candidate_creations`` of an object that its present names leave.

    No names are searched if none of the calls is stored under a name, as the search passes over all objects.
    """
    needs_name = is_imported and type(created).__module__.startswith("torch.")
    if needs_name:
        candidates = [candidate for candidate in candidates if candidate.names]
    if (len(candidates) > 1 or needs_name) and any(candidate.names for candidate in candidates):
        names = find_names(created, frame)
        candidates = [candidate for candidate in candidates if candidate.names & names or not candidate.names]
    return candidates[0] if len(candidates) == 1 else None


def find_received_call(
    created: object, files: Iterable[str], frame: FrameType | None, matches: Callable[[ast.Call], bool]
) -> Creation | None:
    """Return the only matching call in some files whose result an object may be, by the names that it has now."""
    trees = ((file, tree) for file in files if (tree := syntax_tree(file)) is not None)
    candidates = [
        Creation(file, node, _receivers(tree).get(node, frozenset()))
        for file, tree in trees
        for node in file_nodes(tree)
        if isinstance(node, ast.Call) and matches(node)
    ]
    return only_creation(created, candidates, False, frame)


def candidate_creations(
    created: object,
    files: Iterable[str],
    frame: FrameType | None = None,
    *,
    is_excluded: Callable[[Creation], bool] = lambda _: False,
) -> tuple[list[Creation], bool]:
    """Return the calls that can have created an object, whatever its names; and whether imported modules have them."""
    candidates = consistent_creations(created, files)
    if len(candidates) > 1:
        candidates = [candidate for candidate in candidates if not is_excluded(candidate)]
    if candidates:
        return candidates, False
    return consistent_creations(created, _imported_files(created, frame)), True


def creation_scope(creation: Creation, created: object, frame: FrameType | None = None) -> Scope:
    """Return the scope in which a call creates an object.

    If it is in a function of the same file, that is its scope in the only call of which the result can be the object.
    A method is that of the only object of its class.
    """
    scope, function = file_scope(creation.file), enclosing_scope(creation.line)
    tree = syntax_tree(creation.file)
    if tree is None or not isinstance(function, ast.FunctionDef):
        return scope
    calls = {node for node in file_nodes(tree) if call_name(node) == function.name and isinstance(node, ast.Call)}
    if len(calls) > 1:
        receivers, names = _receivers(tree), find_names(created, frame)
        calls = {call for call in calls if receivers.get(call, frozenset()) & names}
    owner = _only_owner(creation.file, function) if _has_owner(tree, function) else None
    if len(calls) == 1:
        return scope.entered_by_name(function, calls.pop(), owner)
    name = function.args.args[0].arg if owner is not None and function.args.args else ""
    is_known = bool(name) and owner is not UNKNOWN
    return Scope(scope.file, function.name, scope.variables, {name: owner}) if is_known else scope


def _has_owner(tree: ast.Module, function: ast.FunctionDef) -> bool:
    """Check whether the first parameter of a function is the object or the class of which it is a method."""
    is_static = any(_last_name(decorator) == "staticmethod" for decorator in function.decorator_list)
    return not is_static and any(isinstance(node, ast.ClassDef) and function in node.body for node in file_nodes(tree))


def empty_group(groups: ast.expr, optimizer: object) -> ast.expr | None:
    """Return the parameters of the first empty group in a list of dictionaries that an optimizer was created with."""
    parts = groups.elts if isinstance(groups, ast.List) else []
    for part, group in zip(parts, getattr(optimizer, "param_groups", []), strict=False):
        if not group["params"] and isinstance(part, ast.Dict):
            keys = [getattr(key, "value", None) for key in part.keys]
            return part.values[keys.index("params")] if "params" in keys else None
    return None


def consistent_creations(created: object, files: Iterable[str]) -> list[Creation]:
    """Return the calls that create an object of the same class with the same options."""
    return [creation for file in files for creation in _creations(created, file) if not _contradicts(creation, created)]


def _imported_files(created: object, frame: FrameType | None) -> list[str]:
    """Return the files of the imported modules that the program can reach; empty if there are too many to search."""
    files = find_reachable_files(created, frame if frame is not None else sys._getframe(1))
    return files if len(files) <= _MAX_LOADED_FILES else []


def _creations(created: object, file: str) -> Iterator[Creation]:
    """Yield the calls in a file that create an object of the same class."""
    class_name = type(created).__name__
    if not any(class_name in line for line in linecache.getlines(file)) or (tree := syntax_tree(file)) is None:
        return
    receivers = _receivers(tree)
    yield from (Creation(file, call, receivers.get(call, frozenset())) for call in _class_calls(tree, class_name))


@lru_cache(128)
def _class_calls(tree: ast.Module, class_name: str) -> list[ast.Call]:
    """Return the calls of a class in a file, also by another name, and those that pass it."""
    class_names = {class_name, *_aliases(tree, class_name)}
    calls = (node for node in file_nodes(tree) if isinstance(node, ast.Call))
    return [call for call in calls if call_name(call) in class_names or _passes_class(call, class_names)]


def _aliases(tree: ast.Module, class_name: str) -> Iterator[str]:
    """Yield the other names under which a file imports or stores a class."""
    for node in file_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.name == class_name and alias.asname)
        elif isinstance(node, ast.Assign) and _last_name(node.value) == class_name:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _passes_class(call: ast.Call, class_names: set[str]) -> bool:
    """Check whether a call passes the class itself, as a partial application does."""
    return call_name(call) == "partial" and bool(call.args) and _last_name(call.args[0]) in class_names


@lru_cache(32)
def _receivers(tree: ast.Module) -> dict[ast.expr, frozenset[str]]:
    """Return the names of the variables, attributes and keywords that receive each value of a file.

    What a function returns is received where the function is called, the parts of a tuple one by one.
    """
    receivers: dict[ast.expr, frozenset[str]] = {}
    unpacked: list[tuple[str, list[str]]] = []
    for node in file_nodes(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                unpacked.append((call_name(node.value), [*map(_last_name, getattr(target, "elts", []))]))
                for name_node, value in paired_targets(target, node.value):
                    receivers[value] = receivers.get(value, frozenset()) | {_last_name(name_node)}
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            receivers[node.value] = frozenset({_last_name(node.target)})
        elif isinstance(node, ast.keyword) and node.arg:
            receivers[node.value] = frozenset({node.arg})
        elif isinstance(node, ast.Dict):
            names = (key.value if isinstance(key, ast.Constant) else "" for key in node.keys)
            receivers.update(
                (value, frozenset({str(name)})) for name, value in zip(names, node.values, strict=True) if name
            )
    calls: dict[str, frozenset[str]] = {}
    for call, names_of_call in receivers.items():
        calls[call_name(call)] = calls.get(call_name(call), frozenset()) | names_of_call
    for function in (node for node in file_nodes(tree) if isinstance(node, ast.FunctionDef) and node.name in calls):
        values = [node.value for node in own_statements(function) if isinstance(node, ast.Return) and node.value]
        receivers.update((value, receivers.get(value, frozenset()) | calls[function.name]) for value in values)
        for unpacked_names in (targets for called, targets in unpacked if called == function.name):
            for parts in (value.elts for value in values if isinstance(value, ast.Tuple)):
                pairs = zip(parts, unpacked_names, strict=True) if len(parts) == len(unpacked_names) else ()
                receivers.update((part, receivers.get(part, frozenset()) | {target}) for part, target in pairs)
    return receivers


def _contradicts(creation: Creation, created: object) -> bool:
    """Check whether a call passes, or leaves out, an option so that an object of torch would have another value."""
    if not type(created).__module__.startswith("torch."):
        return False
    is_complete = call_name(creation.call) != "partial" and not creation.unpacks_arguments
    for name, default in _defaults(type(created)).items():  # type: ignore[arg-type]
        argument = creation.argument(created, name)
        value = _literal(argument) if argument is not None else default if is_complete else _UNKNOWN
        option = _option(created, name) if value is not _UNKNOWN else _UNKNOWN
        if option is not _UNKNOWN and not _is_equal(value, option):
            return True
        if argument is not None and _is_other_class(argument, inspect.getattr_static(created, name, None)):
            return True
    if _contradicts_weights(creation, created, is_complete):
        return True
    return _contradicts_groups(creation, created) or (is_complete and _contradicts_order(creation, created))


def _contradicts_weights(creation: Creation, created: object, is_complete: bool) -> bool:
    """Check whether a call passes a tensor, such as class weights, that a module does not have, or leaves it out."""
    buffers = getattr(created, "__dict__", {}).get("_buffers", {})
    for name in buffers.keys() & _defaults(type(created)):  # type: ignore[arg-type]
        buffer, argument = buffers[name], creation.argument(created, name)
        if is_complete and argument is None and buffer is not None:
            return True
        if buffer is None and isinstance(argument, (ast.Call, ast.BinOp)):
            return True
    return False


def _contradicts_groups(creation: Creation, created: object) -> bool:
    """Check whether a call creates an optimizer with another number of parameter groups than an optimizer has."""
    groups = inspect.getattr_static(created, "param_groups", None)
    argument = creation.argument(created, "params") if isinstance(groups, list) else None
    items = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else []
    if not isinstance(groups, list) or not items or not all(isinstance(item, ast.Dict) for item in items):
        return False
    return len(items) > len(groups)  # a program may add groups later


def _is_other_class(argument: ast.expr, part: object) -> bool:
    """Check whether an argument creates an object of another class, by its capitalized name, than a stored part."""
    name = call_name(argument)
    is_class = name[:1].isupper() and not name.isupper() and type(part).__module__ != "builtins"
    return is_class and name not in {cls.__name__ for cls in type(part).__mro__}


def _contradicts_order(creation: Creation, created: object) -> bool:
    """Check whether a call without a sampler creates a loader with another order: shuffled or not."""
    sampler = inspect.getattr_static(created, "sampler", None)
    if sampler is None or any(creation.argument(created, name) for name in ("sampler", "batch_sampler")):
        return False
    argument = creation.argument(created, "shuffle")
    shuffle = _literal(argument) if argument is not None else False
    return shuffle is not _UNKNOWN and bool(shuffle) != (type(sampler).__name__ == "RandomSampler")


def _is_equal(value: Any, option: Any) -> bool:
    """Check whether an option has a value; modules store one number for several axes as a tuple."""
    return bool(value == option) or (isinstance(option, tuple) and {value} == {*option})


@lru_cache(64)
def _defaults(cls: type) -> dict[str, Any]:
    """Return the default of each parameter of a constructor, if it is a constant."""
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: parameter.default if isinstance(parameter.default, _CONSTANT_TYPES) else _UNKNOWN
        for name, parameter in parameters.items()
        if name not in _CHANGING_OPTIONS
    }


def _literal(node: ast.expr | None) -> Any:
    """Return the constant that an expression writes; unknown for any other."""
    try:
        value = ast.literal_eval(node) if node is not None else _UNKNOWN
    except (ValueError, TypeError):
        return _UNKNOWN
    return value if isinstance(value, _CONSTANT_TYPES) else _UNKNOWN


def _option(created: object, name: str) -> Any:
    """Return the option that an object was created with, if it can be read. Its class is of torch, not the user's."""
    attributes = vars(created) if hasattr(created, "__dict__") else {}
    defaults = attributes.get("defaults")
    if isinstance(defaults, dict):
        value = defaults.get(name, _UNKNOWN)
    else:
        value = attributes[name] if name in attributes else inspect.getattr_static(created, name, None)
    return value if isinstance(value, _CONSTANT_TYPES) else _UNKNOWN


def _only_owner(file: str, method: ast.FunctionDef) -> Any:
    """Return the only object that has a method of the source; ``UNKNOWN`` if there is none, or more than one.

    Takes one pass over all objects that the garbage collector tracks.
    """
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if _defines(kind, file, method)}
    owners = [item for item in objects if type(item) in kinds] if kinds else []
    return owners[0] if len(owners) == 1 else UNKNOWN


def _defines(kind: type, file: str, method: ast.FunctionDef) -> bool:
    """Check whether the objects of a class have a method that is defined on certain lines of a file."""
    member = inspect.getattr_static(kind, method.name, None)
    code = inspect.unwrap(member).__code__ if isinstance(member, FunctionType) else None
    lines = (method.lineno, *(node.lineno for node in method.decorator_list))
    return code is not None and code.co_filename == file and code.co_firstlineno in lines
