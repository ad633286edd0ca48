"""What follows a changed statement: the rest of its block and of the callers, computed on the meta device.

A change that lets one operation run may only move the exception to the next line. Shapes tell, without running the
user's code again.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator
from nbdebug.crashes.frames import CrashFrame, span_of
from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import OPERATOR_SIGNS, apply_edits
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assigned_names, call_name, enclosing_scope, read_names

_NO_VALUE: Any = object()


def continues(crash: Crash, edits: Sequence[Edit]) -> bool | None:
    """Return whether the program goes on after the statement that some edits change; None if that is unknown.

    The edits may also change an earlier statement of the function, if what it reads has not been assigned since.
    """
    frames = list(crash.user_frames())
    for position, frame in enumerate(frames):
        if all(_is_in_statement(frame, edit) for edit in edits):
            return _Continuation(edits).run(frames[position:])
    for position, frame in enumerate(frames):
        statement = _earlier_statement(frame, edits)
        if statement is not None:
            return _Continuation(edits, statement).run(frames[position:])
    return None


def continues_with_modules(crash: Crash, modules: Mapping[nn.Module, nn.Module]) -> bool | None:
    """Return whether the program goes on if some modules are replaced, in the calls of the model that led there.

    The statements of the frame that raised are computed again from the first call of such a model on; None if it is
    not called there.
    """
    frame = crash.own
    scope = enclosing_scope(frame.line) if frame is not None else None
    if frame is None or frame.statement is None or scope is None:
        return None
    evaluator = Evaluator(frame)
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call) and node.lineno <= frame.number]
    for call in sorted(calls, key=lambda call: -call.lineno):
        called = evaluator.value(call.func)
        if isinstance(called, nn.Module) and not set(called.modules()).isdisjoint(modules):
            statement = covering_statement(SourceLine(frame.file, call.lineno))
            frames = list(crash.user_frames())
            return _Continuation((), statement, modules).run(frames)
    return None


def _earlier_statement(frame: CrashFrame, edits: Sequence[Edit]) -> ast.stmt | None:
    """Return the statement before the one that raised that all edits change, if it can be computed again."""
    places = {(edit.file, edit.line) for edit in edits}
    scope = enclosing_scope(frame.line)
    if len(places) != 1 or scope is None or frame.statement is None:
        return None
    ((file, number),) = places
    statement = covering_statement(SourceLine(file, number))
    if file != frame.file or statement is None or number >= frame.statement.lineno:
        return None
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or enclosing_scope(SourceLine(file, number)) is not scope:
        return None
    between = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
    between = [node for node in between if statement.lineno <= node.lineno < frame.statement.lineno]
    simple = [node for node in between if not hasattr(node, "body")]
    is_changed = any(assigned_names(node) & read_names(statement) for node in simple)
    return None if is_changed else statement


def continues_after_call(crash: Crash, frame: CrashFrame, output: Any) -> bool | None:
    """Return whether the program goes on after a call that raised, had it returned a value; None if that is unknown."""
    frames = list(crash.user_frames())
    callers = frames[frames.index(frame) :] if frame in frames else []
    return _Continuation(()).run(callers, output) if callers else None


def _is_in_statement(frame: CrashFrame, edit: Edit) -> bool:
    statement = frame.statement
    if statement is None or frame.file != edit.file or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    return statement.lineno <= edit.line and edit.end_line <= (statement.end_lineno or statement.lineno)


class _Continuation:
    """The statements after the one that raised, in each frame from the innermost outwards."""

    def __init__(
        self, edits: Sequence[Edit], start: ast.stmt | None = None, modules: Mapping[nn.Module, nn.Module] = {}
    ) -> None:
        self.edits, self.start, self.modules = edits, start, modules
        self.returned: Any = _NO_VALUE

    def run(self, frames: Sequence[CrashFrame], output: Any = _NO_VALUE) -> bool | None:
        """Compute the rest of each frame; True if the first statement has a value and no operation raises."""
        self.returned = output
        is_known = output is not _NO_VALUE
        for position, frame in enumerate(frames):
            edits = self.edits if position == 0 else ()
            if position and (self.returned is _NO_VALUE or not _is_called_by(frame, frames[position - 1])):
                break
            block = _rest_of_block(frame, edits, self.start if position == 0 else None)
            nodes = {span_of(frame.node): self.returned} if self.returned is not _NO_VALUE else {}
            self.returned = _NO_VALUE
            evaluator = Evaluator(frame, {}, nodes, self.modules)
            raising = next(iter(block), None) if self.start is None else _raising_statement(frame, block)
            for index, statement in enumerate(block):
                value = self._execute(evaluator, statement)
                if position == index == 0 and edits and isinstance(statement, ast.Expr) and value is UNKNOWN:
                    return None  # an inserted call, whose effect is unknown
                if evaluator.failure is not None:
                    return False
                is_known = is_known or (position == 0 and statement is raising and value is not UNKNOWN)
                if isinstance(statement, ast.Return):
                    break
        return True if is_known else None

    def _execute(self, evaluator: Evaluator, statement: ast.stmt) -> Any:
        """Compute a statement; a variable that it assigns is unknown where its value is."""
        value = self._value(evaluator, statement)
        names = dict(evaluator.names)
        names.update(dict.fromkeys(assigned_names(statement), UNKNOWN))
        for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
            _bind(names, target, value)
        evaluator.names = names
        if isinstance(statement, ast.Return):
            self.returned = value
        return value

    def _value(self, evaluator: Evaluator, statement: ast.stmt) -> Any:
        if isinstance(statement, ast.With):
            values = [self._execute(evaluator, part) for part in statement.body]
            return values[0]
        if isinstance(statement, ast.AugAssign) and type(statement.op) in OPERATOR_SIGNS:
            operation = ast.BinOp(_as_read(statement.target), statement.op, statement.value)
            return evaluator.value(ast.copy_location(operation, statement))
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
            return evaluator.value(statement.value)
        return UNKNOWN


def _is_called_by(frame: CrashFrame, inner: CrashFrame) -> bool:
    """Return whether the call of a frame returns what an inner frame does, without a container such as Sequential."""
    called = Evaluator(frame).value(frame.node.func) if isinstance(frame.node, ast.Call) else UNKNOWN
    return not isinstance(called, nn.Module) or called is inner.variables.get("self")


def _bind(names: dict[str, Any], target: ast.expr | None, value: Any) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
        parts = zip(target.elts, value, strict=True) if len(target.elts) == len(value) else ()
        for part, part_value in parts:
            _bind(names, part, part_value)


def _as_read(target: ast.expr) -> ast.expr:
    read: ast.expr = ast.parse(ast.unparse(target), mode="eval").body
    return read


def _rest_of_block(frame: CrashFrame, edits: Sequence[Edit], start: ast.stmt | None = None) -> list[ast.stmt]:
    """Return the statement that raised, as it reads after some edits, and those that follow in its blocks.

    With ``start``, they begin with this earlier statement.
    """
    if frame.statement is None:
        return []
    source = apply_edits("".join(linecache.getlines(frame.file)), edits)
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    path = _path_to(tree, frame.statement.lineno)
    rest: list[ast.stmt] = []
    for block, index in reversed(path):
        rest += block[index + 1 :] if rest else block[index:]
        parent = next((outer[i] for outer, i in path if _owns(outer[i], block)), None)
        if isinstance(parent, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    return [*_statements_between(path, start.lineno), *rest] if start is not None else rest


def _raising_statement(frame: CrashFrame, block: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the statement of a block that raised; of a backward pass, which has no shapes, the one before it."""
    number = frame.statement.lineno if frame.statement is not None else 0
    positions = [i for i, s in enumerate(block) if s.lineno <= number <= (s.end_lineno or s.lineno)]
    if not positions:
        return None
    statement = block[positions[0]]
    is_backward = isinstance(statement, ast.Expr) and call_name(statement.value) == "backward"
    before = [s for s in block[: positions[0]] if isinstance(s, (ast.Assign, ast.AnnAssign))]
    return before[-1] if is_backward and before else statement


def _statements_between(path: list[tuple[list[ast.stmt], int]], first: int) -> list[ast.stmt]:
    """Return the statements from a line to the end of a path, without those that contain the end."""
    statements = [inner for block, index in path for statement in block[:index] for inner in _without_with(statement)]
    return [statement for statement in statements if statement.lineno >= first and not hasattr(statement, "body")]


def _without_with(statement: ast.stmt) -> list[ast.stmt]:
    """Return a statement, or those inside it if it is a ``with``, which always run."""
    inner = statement.body if isinstance(statement, (ast.With, ast.AsyncWith)) else []
    return [part for node in inner for part in _without_with(node)] or [statement]


def _path_to(tree: ast.AST, number: int) -> list[tuple[list[ast.stmt], int]]:
    """Return the blocks around a line with the position in each, outermost first."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(tree, name, [])
        for index, statement in enumerate(block if isinstance(block, list) else ()):
            if statement.lineno <= number <= (statement.end_lineno or statement.lineno):
                return [(block, index), *_path_to(statement, number)]
    return []


def _owns(statement: ast.stmt, block: list[ast.stmt]) -> bool:
    return any(getattr(statement, name, None) is block for name in ("body", "orelse", "finalbody"))
