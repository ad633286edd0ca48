"""Insertions into the user's loop, with the names that the objects of a setup have there."""

from __future__ import annotations

import ast
import re
from collections import Counter

from nbdebug.finding import Edit
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import object_path, setup_objects
from nbdebug.setup.fix_text import free_names
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.creation import find_creation
from nbdebug.source.edits import insert_after, insert_after_statement, insert_before
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_scope, innermost_loop, search_files

_MAX_DEPTH = 2  # self.optimizer


def insert_at_line(setup: Setup, line: SourceLine, code: str, side: str) -> tuple[Edit, ...]:
    """Return the insertion of a statement "before" or "after" the statement on a line; () without names for it."""
    present = covering_statement(line)
    own_code = _with_names_at(setup, line, code) if present is not None else None
    if present is None or own_code is None:
        return ()
    if side == "before":
        return (insert_before(line.file, present.lineno, own_code),)
    has_block = hasattr(present, "body")
    return () if has_block else (insert_after(line.file, present.end_lineno or present.lineno, own_code),)


def insert_before_loop(setup: Setup, line: SourceLine | None, code: str) -> tuple[Edit, ...]:
    """Return the insertion of a statement before the innermost loop around a line, or before its comprehension."""
    scope = enclosing_scope(line) if line else None
    if line is None or scope is None:
        return ()
    own_code, statement = _with_names_at(setup, line, code), covering_statement(line)
    loop = innermost_loop(scope, line.number)
    comprehensions = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
    if statement is not None and any(isinstance(node, comprehensions) for node in ast.walk(statement)):
        place = statement.lineno
    elif loop is not None:
        place = loop.lineno
    else:
        return ()
    return (insert_before(line.file, place, own_code),) if own_code else ()


def move_after(line: SourceLine | None, target: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that move a one-line statement behind another statement of the same function.

    Return () for other functions, where its names may mean something else, and for the only statement of a block.
    """
    if line is None or target is None or (line.file, line.function) != (target.file, target.function):
        return ()
    moved, anchor, scope = covering_statement(line), covering_statement(target), enclosing_scope(line)
    if moved is None or anchor is None or scope is None or moved.lineno != moved.end_lineno:
        return ()
    blocks = [
        block for node in ast.walk(scope) for block in (getattr(node, "body", None), getattr(node, "orelse", None))
    ]
    is_alone = any(block == [moved] for block in blocks if isinstance(block, list))
    if is_alone or moved is anchor:
        return ()
    removal = Edit(line.file, moved.lineno, 0, moved.lineno + 1, 0, "")
    return (insert_after_statement(line.file, anchor, ast.unparse(moved)), removal)


def _with_names_at(setup: Setup, line: SourceLine, code: str) -> str | None:
    """Return code with the names that the objects of the setup have in the function around a line; None without one."""
    scope, objects = enclosing_scope(line), setup_objects(setup)
    if scope is None:
        return None
    paths = [ast.unparse(node) for node in ast.walk(scope) if isinstance(node, (ast.Name, ast.Attribute))]
    for role in free_names(ast.parse(code)):
        path = _name_in(setup, paths, role, objects.get(role)) or object_path(objects.get(role))
        if not path:
            return None
        code = re.sub(rf"(?<![\w.]){role}\b", path, code)
    return code


def name_at(setup: Setup, line: SourceLine, item: object) -> str | None:
    """Return the name that an object has in the function around a line; None if it is not used there."""
    scope = enclosing_scope(line)
    names = [ast.unparse(node) for node in ast.walk(scope)] if scope else []
    return _name_in(setup, names, "", item)


def _name_in(setup: Setup, paths: list[str], role: str, item: object) -> str | None:
    """Return the name among some names and attribute paths that is most often used for an object."""
    creation = find_creation(item, search_files(user_written_objects(setup))) if item is not None else None
    names = {role, *(creation.names if creation else ())} - {""}
    counts = Counter(path for path in paths if path.rpartition(".")[2] in names and path.count(".") < _MAX_DEPTH)
    return counts.most_common(1)[0][0] if counts else None
