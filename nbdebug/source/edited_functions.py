"""Functions of the user as they read after some edits: another function, or the same one within a block."""

from __future__ import annotations

import ast
import gc
import linecache
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType

from nbdebug.finding import Edit
from nbdebug.source.edits import apply_edits


def covers(function: FunctionType, edit: Edit) -> bool:
    """Return whether an edit is among the lines of a function."""
    code = function.__code__
    if code.co_filename != edit.file or code.co_firstlineno > edit.line:
        return False
    return edit.line <= _last_line(code)


def _last_line(code: CodeType) -> int:
    inner = [_last_line(part) for part in code.co_consts if isinstance(part, CodeType)]
    return max([*inner, *(line for _, _, line in code.co_lines() if line)], default=0)


def edited_function(function: FunctionType, edits: Sequence[Edit]) -> FunctionType | None:
    """Return a function compiled from the edited source of its file; None if it cannot be."""
    changed_code = _edited_code(function, edits)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if changed_code is None or not set(changed_code.co_freevars) <= cells.keys():
        return None
    closure = tuple(cells[variable] for variable in changed_code.co_freevars)
    changed = FunctionType(changed_code, function.__globals__, function.__name__, function.__defaults__, closure)
    changed.__kwdefaults__ = function.__kwdefaults__
    return changed


def find_edited_code(edits: Sequence[Edit]) -> dict[FunctionType, CodeType] | None:
    """Return the functions of this process that some edits change, with their new code.

    None if an edit is outside of all functions, or if the code cannot be exchanged.
    """
    codes: dict[FunctionType, CodeType] = {}
    reached: set[Edit] = set()
    files = {edit.file for edit in edits}
    for function in [item for item in gc.get_objects() if type(item) is FunctionType]:
        if function.__code__.co_filename not in files or function.__name__.startswith("<"):  # part of another one
            continue
        if own := [edit for edit in edits if covers(function, edit)]:
            code = _edited_code(function, [edit for edit in edits if edit.file == own[0].file])
            if code is None:
                return None
            if code.co_freevars != function.__code__.co_freevars:
                if "<locals>" in function.__qualname__:  # the function around it makes another one
                    continue
                return None
            codes[function] = code
            reached.update(own)
    return codes if reached == set(edits) else None


@contextmanager
def exchanged_code(codes: dict[FunctionType, CodeType]) -> Iterator[None]:
    """Give functions other code within the block, wherever they are referred to."""
    own_codes = {function: function.__code__ for function in codes}
    try:
        for function, code in codes.items():
            function.__code__ = code
        yield
    finally:
        for function, code in own_codes.items():
            function.__code__ = code


def _edited_code(function: FunctionType, edits: Sequence[Edit]) -> CodeType | None:
    source = apply_edits("".join(linecache.getlines(edits[0].file)), edits)
    try:
        code = compile(ast.parse(source), edits[0].file, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    return _find_code(code, [part for part in function.__qualname__.split(".") if part != "<locals>"])


def _find_code(code: CodeType, names: Sequence[str]) -> CodeType | None:
    """Return the code of a function in the code of a file, by the names of the scopes around it."""
    for name in names:
        matches = [part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name]
        if len(matches) != 1:
            return None
        code = matches[0]
    return code
