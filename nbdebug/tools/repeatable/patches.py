"""Replace functions for the duration of a block, also where the user's modules have imported them by name."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import FrameType
from typing import Any

from nbdebug.source.location import SourceLine, get_line_from_frame, is_user_code

_current_process = os.getpid  # the real one, also while it is replaced
_Namespaces = Iterable[dict[str, Any]]


class LineLog:
    """The user's lines that have called the replaced functions, in order and each once.

    Workers of a loader, which are forked, add their lines through a file without a name.
    """

    def __init__(self) -> None:
        self.lines: dict[SourceLine, None] = {}
        self._process, self._file = _current_process(), tempfile.TemporaryFile()  # noqa: SIM115

    def add(self, frame: FrameType | None) -> None:
        """Add the user's line on the stack that ends in ``frame``."""
        line = get_line_from_frame(frame)
        if line is None or line in self.lines:
            return
        self.lines[line] = None
        if _current_process() != self._process and not self._file.closed:
            os.write(self._file.fileno(), f"{json.dumps([line.file, line.number, line.function])}\n".encode())

    def close(self) -> None:
        """Close the file; the lines of workers are known no more."""
        self._file.close()

    @property
    def is_in_workers(self) -> bool:
        """True if only workers have added lines."""
        return not self.lines and self.first is not None

    @property
    def first(self) -> SourceLine | None:
        """The first line of this process, else of a worker."""
        return next(iter([*self.lines, *self._lines_of_workers()]), None)

    def _lines_of_workers(self) -> list[SourceLine]:
        if self._file.closed:
            return []
        size = os.fstat(self._file.fileno()).st_size
        text = os.pread(self._file.fileno(), size, 0).decode()
        return [SourceLine(*json.loads(entry)) for entry in text.splitlines()]


@contextmanager
def replaced(owner: Any, functions: Mapping[str, Any], namespaces: _Namespaces) -> Iterator[None]:
    """Replace attributes of a module, and the same objects in the user's namespaces, in the block."""
    originals = {name: getattr(owner, name) for name in functions if hasattr(owner, name)}
    by_id = {id(original): functions[name] for name, original in originals.items()}
    with ExitStack() as stack:
        for namespace in namespaces:
            for name, value in list(namespace.items()):
                if id(value) in by_id and namespace is not vars(owner):
                    stack.callback(namespace.__setitem__, name, value)
                    namespace[name] = by_id[id(value)]
        for name, original in originals.items():
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, functions[name])
        yield


@contextmanager
def shadowed(functions: Mapping[str, Any], namespaces: _Namespaces) -> Iterator[None]:
    """Shadow builtins in the user's namespaces in the block; a name that a namespace defines stays."""
    with ExitStack() as stack:
        for namespace in namespaces:
            for name in functions.keys() - namespace.keys():
                stack.callback(namespace.pop, name, None)
                namespace[name] = functions[name]
        yield


def for_user(original: Callable[..., Any], substitute: Callable[..., Any], log: LineLog) -> Callable[..., Any]:
    """Return a function that calls ``substitute`` for callers in the user's code, and ``original`` for others."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if not is_user_code(frame.f_code.co_filename):
            return original(*args, **kwargs)
        log.add(frame)
        return substitute(*args, **kwargs)

    return call


def logged(original: Callable[..., Any], log: LineLog) -> Callable[..., Any]:
    """Return a function that logs the user's line, whoever calls it, and does what the original does."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        log.add(sys._getframe(1))
        return original(*args, **kwargs)

    return call


def sequence(start: int, step: int = 1) -> Callable[[], int]:
    """Return a function that counts from ``start``."""
    return partial(next, iter(range(start, sys.maxsize, step)))
