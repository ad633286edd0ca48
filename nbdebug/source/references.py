"""Who refers to an object, and which of the user's modules the running program refers to."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from nbdebug.source.location import PACKAGE_FOLDER, is_library_code, is_user_code

_FRAME_DICT_NAMES = {"locals", "vars", "f_locals"}
_MAX_DEPTH, _MAX_HOLDERS = 4, 64


@dataclass(frozen=True)
class Referrer:
    """A variable or an attribute that holds an object, in containers if ``depth`` > 0.

    ``file`` is that of its function, class or module, empty for the variables of a notebook; ``first_line`` is the
    first line of the function, 0 for others.
    ``owner`` is the class of the object that has the attribute, empty for variables. ``keys`` are the text keys under
    which dictionaries among the containers hold the object.
    """

    name: str
    file: str
    first_line: int = 0
    depth: int = 0
    owner: str = ""
    keys: frozenset[str] = frozenset()


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the user's code on the stack that ends in ``frame``, innermost first."""
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user_code(file):
            yield frame
        frame = frame.f_back


def user_files(frame: FrameType | None) -> set[str]:
    """Return the files of the user's code on the stack that ends in ``frame``."""
    return {user_frame.f_code.co_filename for user_frame in user_frames(frame)}


def frame_variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a frame.

    Before Python 3.13 a function stores them in a dictionary of its own, where they would stay alive, so the dictionary
    is cleared. Functions that request that dictionary themselves, and frames under a debugger, are skipped.
    """
    is_function_frame = bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)
    is_debugged = sys.gettrace() is not None or frame.f_trace is not None
    if is_function_frame and (is_debugged or _FRAME_DICT_NAMES & {*frame.f_code.co_names}):
        return {}
    frame_locals = frame.f_locals
    variables = dict(frame_locals)
    if is_function_frame and type(frame_locals) is dict:
        frame_locals.clear()
    return variables


def find_references(targets: Iterable[object], frame: FrameType | None) -> list[Referrer]:
    """Return the variables and attributes of user code that hold any of some objects, directly or in containers.

    Variables are those of the functions on the stack that ends in ``frame``, of modules and of closures; fewest
    containers first, then innermost functions. Each level of containers takes one pass over all objects that the
    garbage collector tracks.
    """
    search = _ReferenceSearch(frame)
    current: list[object] = list(targets)
    for depth in range(_MAX_DEPTH):
        current = search.advance(current, depth)
    return list(search.references)


def find_names(target: object, frame: FrameType | None) -> set[str]:
    """Return the names of an object: of variables and attributes of user code, and its keys in dictionaries."""
    search = _ReferenceSearch(frame)
    containers = search.advance([target], 0)
    dictionaries = [container for container in containers if isinstance(container, dict)]
    keys = {key for items in dictionaries for key, value in items.items() if value is target and isinstance(key, str)}
    return keys | {reference.name for reference in search.references}


class _ReferenceSearch:
    """A search from objects to their holders, level by level."""

    def __init__(self, frame: FrameType | None) -> None:
        self.references: dict[Referrer, None] = {}  # in order: a set has another one in each process
        self.variables: dict[int, list[tuple[str, str, int]]] = {}
        self.visited: set[int] = set()
        self.keys: frozenset[str] = frozenset()
        for user_frame in user_frames(frame):
            code = user_frame.f_code
            first_line = code.co_firstlineno if code.co_flags & inspect.CO_OPTIMIZED else 0
            for name, value in frame_variables(user_frame).items():
                self.variables.setdefault(id(value), []).append((name, code.co_filename, first_line))

    def add(self, references: Iterable[Referrer]) -> None:
        """Add references that are not known yet, in their order."""
        self.references.update(dict.fromkeys(references))

    def advance(self, current: list[object], depth: int) -> list[object]:
        """Record the variables and attributes that hold some objects; return the containers that hold them."""
        ids = {id(item) for item in current}
        self.visited |= ids
        for item_id, variables in self.variables.items():
            self.add([Referrer(*item, depth, keys=self.keys) for item in variables] if item_id in ids else [])
        referrers = gc.get_referrers(*current) if current else []
        holders = [
            holder
            for holder in referrers
            if holder is not current and id(holder) not in self.visited and type(holder) is not FrameType
        ]
        known = _referrers_of_names(holders)
        containers: list[object] = []
        for holder in holders:
            if not self.record(holder, ids, depth, known) and _is_container(holder):
                containers.append(holder)
        containers = containers[:_MAX_HOLDERS]
        self.keys |= {key for container in containers for key in _keys_of(container, ids)}
        return containers

    def record(self, holder: object, ids: set[int], depth: int, referrers: dict[int, list[object]]) -> bool:
        """Record the names under which a module, an instance or a closure holds some objects."""
        if type(holder) is CellType:
            self.add(Referrer(*variable, depth, keys=self.keys) for variable in _closure_variables(holder, referrers))
            return True
        owner = _owner_of_attributes(holder, referrers)
        if owner is None:
            return False
        file = _file_of(owner)
        if file is not None and is_user_code(file):
            attributes = holder if isinstance(holder, dict) else vars(holder)
            names = [name for name, value in attributes.items() if id(value) in ids and isinstance(name, str)]
            self.add(Referrer(name, file, 0, depth, _class_name(owner), self.keys) for name in names)
        return True


def _is_container(holder: object) -> bool:
    kind = type(holder)  # isinstance() would run the code of a proxy
    return issubclass(kind, (list, tuple, set, frozenset, dict)) or kind.__module__ == "collections"


def _keys_of(container: object, ids: set[int]) -> Iterator[str]:
    """Yield the text keys under which a dictionary holds some objects."""
    items = dict.items(container) if isinstance(container, dict) else ()  # a class of the user's may change items()
    yield from (key for key, value in items if id(value) in ids and isinstance(key, str))


def _referrers_of_names(holders: list[object]) -> dict[int, list[object]]:
    """Return the objects that refer to each cell, each closure with such a cell and each dictionary, by its id."""
    cells = [holder for holder in holders if type(holder) is CellType]
    dictionaries = [holder for holder in holders if isinstance(holder, dict) and "__builtins__" not in holder]
    referrers = _referrers([*cells, *dictionaries])
    return referrers | _referrers([item for cell in cells for item in referrers[id(cell)] if isinstance(item, tuple)])


def _referrers(targets: list[object]) -> dict[int, list[object]]:
    """Return the objects that refer to each target, by its id, in one pass over all objects."""
    referrers: dict[int, list[object]] = {id(target): [] for target in targets}
    for holder in gc.get_referrers(*targets) if targets else ():
        for target_id in referrers.keys() & map(id, gc.get_referents(holder)):
            referrers[target_id].append(holder)
    return referrers


def _owner_of_attributes(holder: object, referrers: dict[int, list[object]]) -> object:
    """Return the module or instance whose attributes an object holds; None for a plain container."""
    if not isinstance(holder, dict):
        return holder if type(holder).__dictoffset__ and not _is_container(holder) else None
    module = sys.modules.get(str(holder.get("__name__"))) if "__name__" in holder else None
    if module is not None and vars(module) is holder:
        return module
    if "__builtins__" in holder:
        return holder  # the global variables of code that is no module
    return next((owner for owner in referrers[id(holder)] if _has_attributes(owner, holder)), None)


def _has_attributes(owner: object, attributes: dict[Any, Any]) -> bool:
    """Check whether a dictionary holds the attributes of an instance, a function or a class."""
    if isinstance(owner, type):
        return vars(owner).keys() == attributes.keys()
    return bool(type(owner).__dictoffset__) and getattr(owner, "__dict__", None) is attributes


def _file_of(owner: object) -> str | None:
    """Return the file of a module, a function or a class, or of the class of an instance; None if it has none.

    It is empty for variables of a notebook, which belong to no single cell.
    """
    if isinstance(owner, (dict, ModuleType)):
        return _module_file(owner if isinstance(owner, dict) else vars(owner))
    if isinstance(owner, FunctionType):
        return owner.__code__.co_filename
    cls = owner if isinstance(owner, type) else type(owner)
    methods = (member for member in vars(cls).values() if isinstance(member, FunctionType))
    method_file = next((method.__code__.co_filename for method in methods), None)
    module = sys.modules.get(cls.__module__)
    return method_file or (_module_file(vars(module)) if module else None)


def _module_file(variables: dict[str, Any]) -> str | None:
    file = variables.get("__file__")
    return file if isinstance(file, str) else None if variables.get("__name__") in sys.builtin_module_names else ""


def _class_name(owner: object) -> str:
    """Return the name of the class that has the attributes; empty for the variables of a module."""
    if isinstance(owner, (dict, ModuleType)):
        return ""
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__


def _closure_variables(cell: CellType, referrers: dict[int, list[object]]) -> Iterator[tuple[str, str, int]]:
    """Yield the name, file and first line of each function that closes over a cell."""
    for closure in referrers[id(cell)]:
        if not isinstance(closure, tuple):
            continue
        for function in referrers[id(closure)]:
            if isinstance(function, FunctionType) and function.__closure__ is closure:
                index = next(index for index, item in enumerate(closure) if item is cell)
                yield function.__code__.co_freevars[index], function.__code__.co_filename, 0


def find_reachable_files(target: object, frame: FrameType | None) -> list[str]:
    """Return the files of modules that an object or the functions on the stack refer to, also through user modules.

    A function or a class refers to its module, and an object to the modules of its class and of its attributes. Another
    program in the same process is not reached.
    """
    pending: list[object] = [target, *_attributes([target])]
    for user_frame in user_frames(frame):
        variables = frame_variables(user_frame)
        pending += [*user_frame.f_globals.values(), *variables.values(), *_attributes(variables.values())]
    files: dict[str, None] = {}
    visited: set[str] = set()
    while pending:
        module = _module_of(pending.pop(), visited)
        file = getattr(module, "__dict__", {}).get("__file__")
        if module is not None and isinstance(file, str) and _is_user_file(file):
            files[file] = None
            pending += vars(module).values()
    return [*files]


def _attributes(values: Iterable[object]) -> Iterator[object]:
    """Yield the attributes of user objects."""
    for value in values:
        if type(value).__dictoffset__ and not isinstance(value, (ModuleType, type)):
            yield from vars(value).values()


def _module_of(value: object, visited: set[str]) -> ModuleType | None:
    """Return a module, or the one of a function, a class or an object; None if it was visited."""
    name = value.__name__ if isinstance(value, ModuleType) else _module_name(value)
    if not isinstance(name, str) or name in visited:
        return None
    visited.add(name)
    return sys.modules.get(name)


def _module_name(value: object) -> object:
    owner = value if isinstance(value, (FunctionType, MethodType, type)) else type(value)
    return getattr(owner, "__module__", None)


def _is_user_file(file: str) -> bool:
    return file.endswith(".py") and not is_library_code(file) and not file.startswith(PACKAGE_FOLDER)
