"""The frames of a traceback: their variables, and the expression that each was evaluating."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cached_property
from types import CodeType, TracebackType
from typing import Any

import torch

from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.references import frame_variables
from nbdebug.source.search import syntax_tree

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_TRACING_FILE = os.path.join("nbdebug", "autograd", "tracing.py")  # runs the operations of a traced pass
Span = tuple[Any, ...]
_MAX_FRAMES = 200  # of a recursion, the innermost


class CrashFrame:
    """One frame of a traceback, with the line that it was running."""

    def __init__(self, trace: TracebackType) -> None:
        self.frame, self.number, self.instruction = trace.tb_frame, trace.tb_lineno, trace.tb_lasti

    @property
    def code(self) -> CodeType:
        """The code that the frame runs."""
        return self.frame.f_code

    @property
    def file(self) -> str:
        """The file or the notebook cell."""
        return self.code.co_filename

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.code.co_name

    @property
    def line(self) -> SourceLine:
        """The line that raised."""
        return SourceLine(self.file, self.number, self.function)

    @property
    def is_user(self) -> bool:
        """True for code of the user."""
        return is_user_code(self.file) and not self.file.endswith(_TRACING_FILE)

    @property
    def is_torch(self) -> bool:
        """True for code of torch."""
        return self.file.startswith(TORCH_FOLDER)

    def is_in(self, part: str) -> bool:
        """Return whether the code belongs to a part of torch, such as ``optim/``."""
        return self.is_torch and self.file[len(TORCH_FOLDER) :].replace(os.sep, "/").startswith(part)

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The local variables."""
        # A frame under a debugger has ended, so that its dictionary may be read without being cleared.
        return frame_variables(self.frame) or dict(self.frame.f_locals)

    def lookup(self, name: str) -> Any:
        """Return the value of a local, enclosing, global or built-in name; raise KeyError if it has none."""
        if name in self.variables:
            return self.variables[name]
        if name in self.frame.f_globals:
            return self.frame.f_globals[name]
        return self.frame.f_builtins[name]

    @cached_property
    def statement(self) -> ast.stmt | None:
        """The statement that raised; None if the source is unavailable or has been edited since."""
        statement = covering_statement(self.line)
        return statement if statement is not None and self._compiles_to_this_code(statement) else None

    @cached_property
    def node(self) -> ast.AST | None:
        """The expression or statement that raised; on Python 3.10, which stores no columns, that of the statement."""
        tree, span = syntax_tree(self.file), self._span()
        if tree is None or self.statement is None:
            return None
        nodes = [node for node in ast.walk(tree) if span is not None and span_of(node) == span]
        expressions = [node for node in nodes if isinstance(node, ast.expr)] or nodes
        if expressions:
            return expressions[-1]
        value = getattr(self.statement, "value", None)
        return (
            value if isinstance(value, ast.expr) and not isinstance(self.statement, ast.AugAssign) else self.statement
        )

    def _span(self) -> tuple[int, ...] | None:
        """Return lines and columns of the instruction that raised."""
        positions = getattr(self.code, "co_positions", None)
        if positions is None or self.instruction < 0:
            return None
        line, end_line, column, end_column = [*positions()][self.instruction // 2]
        return None if None in (line, end_line, column, end_column) else (line, column, end_line, end_column)

    def _compiles_to_this_code(self, statement: ast.stmt) -> bool:
        """Check that the names in a statement occur in the code, which they do not if the source has been edited."""
        code = self.code
        known = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
        if isinstance(statement, (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try)):
            return True
        nested = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
        parts = [*ast.walk(statement)]
        if isinstance(statement, ast.AnnAssign):  # the annotation of a local variable is not evaluated
            parts = [*ast.walk(statement.target), *(ast.walk(statement.value) if statement.value else ())]
        if any(isinstance(node, nested) for node in parts):
            return True
        names = {node.id for node in parts if isinstance(node, ast.Name)}
        names |= {node.attr for node in parts if isinstance(node, ast.Attribute)}
        return {name for name in names if not name.startswith("__")} <= known


def span_of(node: ast.AST | None) -> Span:
    """Return the place of a node in its file: first line and column, last line and column."""
    return tuple(getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))


def crash_frames(error: BaseException) -> list[CrashFrame]:
    """Return the frames of an exception from the program or cell that ran last, outermost first.

    Frames outside of it belong to what runs the program: a test runner, a launcher, the kernel. Of a deep recursion,
    the innermost frames are returned.
    """
    frames = [CrashFrame(trace) for trace in _traces(error)]
    start = max((i for i, frame in enumerate(frames) if frame.function == "<module>" and frame.is_user), default=0)
    return frames[start:][-_MAX_FRAMES:]


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next
