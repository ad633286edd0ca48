"""The files of the user's modules that the running program can reach: another program in the process is not one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, FunctionType, MethodType, ModuleType

from nbdebug.source.location import is_debugger_code, is_library_code
from nbdebug.source.references import frame_variables, user_frames


def find_reachable_files(target: object, frame: FrameType | None) -> list[str]:
    """Return the files of modules that an object or the functions on the stack refer to, also through user modules.

    A function or a class refers to its module, and an object to the module of its class and of its attributes.
    """
    pending: list[object] = [target, *_attributes([target])]
    for user_frame in user_frames(frame):
        variables = frame_variables(user_frame)
        pending += [*user_frame.f_globals.values(), *variables.values(), *_attributes(variables.values())]
    files: dict[str, None] = {}
    visited: set[str] = set()
    while pending:
        module = _module_of(pending.pop(), visited)
        file = inspect.getattr_static(module, "__file__", None) if module is not None else None
        if module is not None and isinstance(file, str) and _is_user_file(file):
            files[file] = None
            pending += vars(module).values()
    return [*files]


def _attributes(values: Iterable[object]) -> Iterator[object]:
    """Yield the attributes of user objects."""
    for value in values:
        attributes = inspect.getattr_static(value, "__dict__", None)
        if not isinstance(value, (ModuleType, type)) and attributes is not None:
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
    return file.endswith(".py") and not is_library_code(file) and not is_debugger_code(file)
