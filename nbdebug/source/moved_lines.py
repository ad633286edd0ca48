"""Lines of functions that were moved in their file after they were loaded.

``%autoreload`` keeps a function that an edit has only moved, with the line numbers that it was loaded with.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType

_CACHED_FILES = 64
_RELOADER = "IPython.extensions.autoreload"  # without it, an edited file does not change what runs


def find_shift(file: str, number: int, function: str) -> int:
    """Return by how many lines the loaded function that holds a line was moved in its file since; 0 if unknown.

    Also reads the file again for ``linecache``, if it has changed.
    """
    if _RELOADER not in sys.modules:
        return 0
    loaded = next((code for code in _loaded_codes(file, function) if _holds_line(code, number)), None)
    if loaded is None:
        return 0
    linecache.checkcache(file)
    present = [code for code in _codes_of_file(file, _change_time(file)) if _is_same(code, loaded)]
    return present[0].co_firstlineno - loaded.co_firstlineno if len(present) == 1 else 0


def _loaded_codes(file: str, function: str) -> Iterator[CodeType]:
    """Yield the code of each function of a name in the imported modules of a file, also of methods and inner ones."""
    for module in [*sys.modules.values()]:
        variables = getattr(module, "__dict__", {})
        if variables.get("__file__") == file:
            for code in _nested_codes(_function_codes([*variables.values()])):
                if code.co_name == function and code.co_filename == file:
                    yield code


def _function_codes(values: Iterable[object]) -> Iterator[CodeType]:
    """Yield the code of functions and methods."""
    for value in values:
        if isinstance(value, FunctionType):
            yield value.__code__
        elif isinstance(value, type):
            yield from (item.__code__ for item in vars(value).values() if isinstance(item, FunctionType))


def _nested_codes(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    """Yield code objects and those of the functions inside them."""
    for code in codes:
        yield code
        yield from _nested_codes(item for item in code.co_consts if isinstance(item, CodeType))


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Return whether two functions have one name and do the same."""
    if _qualified_name(code) != _qualified_name(other):
        return False
    return code.co_code == other.co_code and code.co_names == other.co_names


def _qualified_name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on


def _holds_line(code: CodeType, number: int) -> bool:
    return any(line == number for _, _, line in code.co_lines())


def _change_time(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(_CACHED_FILES)
def _codes_of_file(file: str, change_time: int) -> tuple[CodeType, ...]:
    """Return the code of all functions in a file as it is on disk; none if it cannot be read or has an error."""
    try:
        return tuple(_nested_codes([compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)]))
    except (OSError, SyntaxError, ValueError):
        return ()
