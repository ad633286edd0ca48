"""From a Python traceback to the user's own line: its file or notebook cell, its number and its text."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from nbdebug.finding import Where

HERE = str(Path(__file__).resolve().parents[1])
EXAMPLES = str(Path(HERE) / "rules")
PASSED_THROUGH = str(Path(__file__).with_name("cuts.py"))
LIBRARIES = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})
ENTRY = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')


@dataclass(frozen=True)
class Line:
    """One line of code on a call stack."""

    file: str
    number: int
    function: str = ""

    @property
    def text(self) -> str:
        """The source text, or nothing where it cannot be read."""
        return linecache.getline(self.file, self.number).rstrip("\n")

    @property
    def around(self) -> tuple[tuple[int, str], ...]:
        """The line with two more on each side, numbered."""
        wanted = range(max(self.number - 2, 1), self.number + 3)
        found = [(n, linecache.getline(self.file, n)) for n in wanted]
        return tuple((n, text.rstrip("\n")) for n, text in found if text)

    def where(self, module: str | None = None, parameter: str | None = None) -> Where:
        """The place of this line, with the part of the model that it belongs to."""
        cell = cell_number(self.file)
        return Where(module, parameter, None, None, self.file, self.number, self.text, cell, self.around)


def where_of(line: Line | None, module: str | None = None, parameter: str | None = None) -> Where:
    """The place of a line, if one is known, with the part of the model that it belongs to."""
    return line.where(module, parameter) if line else Where(module, parameter)


@cache
def is_machinery(file: str) -> bool:
    """Whether the debugger called from a file; the examples beside the rules count as a user's code."""
    return file.startswith(HERE) and not file.startswith(EXAMPLES) and file != PASSED_THROUGH


@cache
def is_library(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return file.startswith((*LIBRARIES, "<frozen")) or "site-packages" in file or "dist-packages" in file


def users_line(stack: Iterable[Line]) -> Line | None:
    """The innermost line of the user's on a stack (innermost first), among those that the debugger itself called."""
    for line in stack:
        if is_machinery(line.file):
            return None
        if not is_library(line.file) and line.file != PASSED_THROUGH:
            return line
    return None


def from_traceback(entries: Sequence[str]) -> Line | None:
    """The user's line in a formatted stack (outermost first), as anomaly mode keeps it for each node."""
    matches = (ENTRY.search(entry) for entry in reversed(entries))
    return users_line(Line(m["file"], int(m["line"]), m["function"]) for m in matches if m)


def from_frame(frame: FrameType | None) -> Line | None:
    """The user's line on the stack that ends in ``frame``."""
    return users_line(outwards(frame))


def caller(frame: FrameType | None) -> Line | None:
    """The user's line that called into the debugger, from the stack that ends in ``frame``."""
    return next((line for line in outwards(frame) if not is_library(line.file) and not is_machinery(line.file)), None)


def outwards(frame: FrameType | None) -> Iterator[Line]:
    """The lines of a stack from the innermost on."""
    while frame is not None:
        yield Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back


def from_exception(error: BaseException) -> Line | None:
    """The user's innermost line that an exception passed through."""
    stack: list[Line] = []
    trace = error.__traceback__
    while trace is not None:
        stack.append(Line(trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame.f_code.co_name))
        trace = trace.tb_next
    return users_line(reversed(stack))


def cell_number(file: str) -> int | None:
    """The number of the notebook cell whose source a file name stands for."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return numbers.get(file)
