"""Find the user's line behind a stack or traceback: its file or notebook cell, its number and its text."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from nbdebug.finding import Location, RelatedLine
from nbdebug.source.moved_lines import find_shift

PACKAGE_FOLDER = str(Path(__file__).resolve().parents[1])
_RULES_FOLDER = str(Path(PACKAGE_FOLDER) / "rules")
_TRANSPARENT_FILE = str(Path(PACKAGE_FOLDER) / "autograd" / "tracing.py")
_LIBRARY_FOLDERS = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})
_PASSING_FUNCTIONS = {"__torch_function__", "__torch_dispatch__"}  # they run the calls of the code around them
_WATCH_BLOCK = re.compile(r"""with __import__\("nbdebug\.magics"\)\.magics\.watching\((['"])(.*)\1\) as run: \.\.\.""")
_STACK_ENTRY = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')


@dataclass(frozen=True)
class SourceLine:
    """One line of code on a call stack."""

    file: str
    number: int
    function: str = ""

    @property
    def text(self) -> str:
        """The source text; empty if it is unavailable."""
        return linecache.getline(self.file, self.number).rstrip("\n")

    @property
    def context(self) -> tuple[tuple[int, str], ...]:
        """The line with two more on each side, numbered."""
        numbers = range(max(self.number - 2, 1), self.number + 3)
        numbered_lines = [(n, linecache.getline(self.file, n)) for n in numbers]
        return tuple((n, _as_written(text.rstrip("\n"))) for n, text in numbered_lines if text)

    def where(self, module: str | None = None, parameter: str | None = None) -> Location:
        """Return the location of this line, with the part of the model that it belongs to."""
        cell = get_cell_number(self.file)
        line = self if cell is not None else self.present
        return Location(module, parameter, None, None, self.file, line.number, line.text, cell, line.context)

    @property
    def present(self) -> SourceLine:
        """This line where it is now, if an edit has moved its function in the file since it was loaded."""
        shift = find_shift(self.file, self.number, self.function)
        return replace(self, number=self.number + shift) if shift else self


def _as_written(text: str) -> str:
    """Return a line of a cell as the user wrote it: ``%%watch`` opens a block in the code that runs."""
    return f"%%watch {match[2]}".rstrip() if (match := _WATCH_BLOCK.fullmatch(text)) else text


def get_location(line: SourceLine | None, module: str | None = None, parameter: str | None = None) -> Location:
    """Return the location of a line, if it is known, with the part of the model that it belongs to."""
    return line.where(module, parameter) if line else Location(module, parameter)


def add_line(where: Location, line: SourceLine) -> Location:
    """Return a location with the line of the source added."""
    located = line.where(where.module, where.parameter)
    return replace(located, sample=where.sample, step=where.step)


def get_related_lines(*lines: tuple[SourceLine | None, str]) -> tuple[RelatedLine, ...]:
    """Return those lines that are known and the user's own, each with its role."""
    return tuple(RelatedLine(line.where(), role) for line, role in lines if line and is_user_code(line.file))


@cache
def is_debugger_code(file: str) -> bool:
    """Return whether a file belongs to the debugger; the examples in the rules count as user code."""
    return file.startswith(PACKAGE_FOLDER) and not file.startswith(_RULES_FOLDER) and file != _TRANSPARENT_FILE


@cache
def is_library_code(file: str) -> bool:
    """Return whether a file belongs to Python or to an installed package, or is code that a library has generated."""
    is_generated = file.startswith("<") and not linecache.getlines(file)  # as the __init__ of a dataclass
    return file.startswith(_LIBRARY_FOLDERS) or is_generated or "site-packages" in file or "dist-packages" in file


def is_user_code(file: str) -> bool:
    """Return whether a file is the user's: no library's and not the debugger's."""
    return not is_library_code(file) and not is_debugger_code(file)


def find_user_line(stack: Iterable[SourceLine]) -> SourceLine | None:
    """Return the innermost user line on a stack (innermost first); None if the debugger comes first."""
    for line in stack:
        if _ends_search(line.file, line.function):
            return line if is_user_code(line.file) else None
    return None


def _ends_search(file: str, function: str) -> bool:
    """Return whether a function is the user's, or one of the debugger that passes no call of the user's code on."""
    if is_debugger_code(file):
        return function not in _PASSING_FUNCTIONS
    return not is_library_code(file) and file != _TRANSPARENT_FILE


def get_line_from_traceback(entries: Sequence[str]) -> SourceLine | None:
    """Return the user's line in a formatted stack (outermost first), as anomaly mode stores it for each node."""
    matches = (_STACK_ENTRY.search(entry) for entry in reversed(entries))
    return find_user_line(SourceLine(m["file"], int(m["line"]), m["function"]) for m in matches if m)


def format_traceback_entry(line: SourceLine) -> str:
    """Return a line as the entry of a formatted stack that ``get_line_from_traceback`` reads."""
    return f'File "{line.file}", line {line.number}, in {line.function}'


def get_running_line(frame: FrameType) -> SourceLine:
    """Return the line that a frame runs."""
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def get_line_from_frame(frame: FrameType | None) -> SourceLine | None:
    """Return the user's line on the stack that ends in ``frame``."""
    while frame is not None and not _ends_search(frame.f_code.co_filename, frame.f_code.co_name):
        frame = frame.f_back
    return get_running_line(frame) if frame is not None and is_user_code(frame.f_code.co_filename) else None


def get_calling_line(frame: FrameType | None) -> SourceLine | None:
    """Return the user's line that called into the debugger, from the stack that ends in ``frame``."""
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return get_running_line(frame) if frame is not None else None


def get_line_from_exception(error: BaseException) -> SourceLine | None:
    """Return the user's innermost line in the traceback of an exception."""
    stack: list[SourceLine] = []
    trace = error.__traceback__
    while trace is not None:
        stack.append(SourceLine(trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame.f_code.co_name))
        trace = trace.tb_next
    return find_user_line(reversed(stack))


def get_definition_line(function: object) -> SourceLine | None:
    """Return the first line of the user's function, or of the ``__call__`` of the user's object; None for others."""
    code = get_code(function)
    is_foreign = code is None or is_library_code(code.co_filename) or is_debugger_code(code.co_filename)
    return None if code is None or is_foreign else SourceLine(code.co_filename, code.co_firstlineno, code.co_name)


def get_code(function: object) -> CodeType | None:
    """Return the code of a function or method, or of the ``__call__`` of an object; None for built-in ones."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def get_cell_number(file: str) -> int | None:
    """Return the number of the notebook cell with a file name."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return numbers.get(file)
