"""Changes of the user's source: how they are written, applied and shown."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import PurePath

from nbdebug.finding import Edit, LineChange, describe_place
from nbdebug.source.location import get_cell_number

OPERATOR_SIGNS: dict[type, str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"},
    ast.FloorDiv: "//",
}


def node_text(file: str, node: ast.AST) -> str:
    """Return the source of a node as the user has written it."""
    return ast.get_source_segment("".join(linecache.getlines(file)), node) or ast.unparse(node)


def replace_node(file: str, node: ast.expr | ast.stmt | ast.keyword, text: str) -> Edit:
    """Return the replacement of a node by a text."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    column, end_column = _character(file, node.lineno, node.col_offset), _character(file, end_line, end_column)
    return Edit(file, node.lineno, column, end_line, end_column, text)


def replace_around(file: str, node: ast.expr, part: ast.expr, before: str, after: str) -> tuple[Edit, ...]:
    """Return the replacement of what a node has before and after a part of it, which other edits may change."""
    whole, kept = replace_node(file, node, ""), replace_node(file, part, "")
    first = Edit(file, whole.line, whole.column, kept.line, kept.column, before)
    last = Edit(file, kept.end_line, kept.end_column, whole.end_line, whole.end_column, after)
    return tuple(e for e in (first, last) if e.text or (e.line, e.column) != (e.end_line, e.end_column))


def wrap_node(file: str, node: ast.expr, template: str) -> Edit:
    """Return the replacement of a node by a template with ``{}`` for its source, in parentheses where needed."""
    text = node_text(file, node)
    is_atom = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Tuple))
    starts_with_owner = template.startswith("{}.") or template.startswith("{}[")
    return replace_node(file, node, template.format(text if is_atom or not starts_with_owner else f"({text})"))


def append_argument(file: str, call: ast.Call, text: str) -> Edit:
    """Return the edit that adds a keyword at the end of a call."""
    edit = replace_node(file, call, "")
    inside = node_text(file, call)[:-1].rstrip()
    separator = " " if inside.endswith(",") else ", " if call.args or call.keywords else ""
    return Edit(file, edit.end_line, edit.end_column - 1, edit.end_line, edit.end_column - 1, f"{separator}{text}")


def insert_before(file: str, number: int, text: str) -> Edit:
    """Return the insertion of a line before another one, with its indentation."""
    old = linecache.getline(file, number)
    indentation = old[: len(old) - len(old.lstrip())]
    lines = "".join(f"{indentation}{part}\n" for part in text.split("\n"))
    return Edit(file, number, 0, number, 0, lines)


def insert_after(file: str, number: int, text: str) -> Edit:
    """Return the insertion of a line after another one, with its indentation."""
    old = linecache.getline(file, number).rstrip("\n")
    indentation = old[: len(old) - len(old.lstrip())]
    return Edit(file, number, len(old), number, len(old), f"\n{indentation}{text}")


def insert_after_statement(file: str, statement: ast.stmt, text: str) -> Edit:
    """Return the insertion of lines after a statement of several lines, with the indentation of its first line."""
    first, number = linecache.getline(file, statement.lineno), statement.end_lineno or statement.lineno
    indentation, end = first[: len(first) - len(first.lstrip())], len(linecache.getline(file, number).rstrip("\n"))
    lines = "".join(f"\n{indentation}{part}" for part in text.split("\n"))
    return Edit(file, number, end, number, end, lines)


def apply_edits(source: str, edits: Iterable[Edit]) -> str:
    """Return a source with some edits of it applied."""
    lines = source.splitlines(keepends=True)
    for edit in sorted(set(edits), key=lambda edit: (edit.line, edit.column, edit.end_column), reverse=True):
        lines += [""] * (edit.end_line - len(lines))
        head, tail = lines[edit.line - 1][: edit.column], lines[edit.end_line - 1][edit.end_column :]
        lines[edit.line - 1 : edit.end_line] = (head + edit.text + tail).splitlines(keepends=True)
    return "".join(lines)


def line_changes(edits: Iterable[Edit]) -> tuple[LineChange, ...]:
    """Return the lines that some edits change, before and after."""
    by_file: dict[str, list[Edit]] = {}
    for edit in sorted(set(edits), key=lambda edit: (edit.file, edit.line)):
        by_file.setdefault(edit.file, []).append(edit)
    return tuple(change for file, own in by_file.items() for change in _line_changes(file, own))


def _line_changes(file: str, edits: list[Edit]) -> Iterator[LineChange]:
    """Yield the changes of one file; the indentation that all lines of a change share is left out."""
    before = linecache.getlines(file)
    after = apply_edits("".join(before), edits).splitlines(keepends=True)
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            old, new = before[start:end], after[new_start:new_end]
            lines = textwrap.dedent("".join(line if line.endswith("\n") else f"{line}\n" for line in [*old, *new]))
            own_lines = lines.splitlines()
            place = describe_place(PurePath(file).name, get_cell_number(file), start + 1)
            yield LineChange(place, tuple(own_lines[: len(old)]), tuple(own_lines[len(old) :]))


def describe_edits(edits: Iterable[Edit]) -> str:
    """Return the changed statements as they read afterwards."""
    groups: dict[tuple[str, int, int], list[Edit]] = {}
    for edit in sorted(set(edits), key=lambda edit: (edit.file, edit.line)):
        groups.setdefault((edit.file, edit.line, edit.end_line), []).append(edit)
    return "\n".join(filter(None, (_describe_group(*key, group) for key, group in groups.items())))


def _describe_group(file: str, first: int, last: int, edits: list[Edit]) -> str:
    is_insertion = all(edit.line == edit.end_line and edit.column == edit.end_column for edit in edits)
    if is_insertion and len(edits) == 1 and "\n" in edits[0].text:
        return "\n".join(part.strip() for part in edits[0].text.strip("\n").split("\n"))
    lines = linecache.getlines(file)[first - 1 : last]
    moved = [
        Edit(file, edit.line - first + 1, edit.column, edit.end_line - first + 1, edit.end_column, edit.text)
        for edit in edits
    ]
    changed = apply_edits("".join(lines), moved).rstrip("\n").split("\n")
    if not any(line.strip() for line in changed):
        return f"# delete: {linecache.getline(file, first).strip()}"
    indentation = min((len(line) - len(line.lstrip()) for line in changed if line.strip()), default=0)
    return "\n".join(line[indentation:] for line in changed)


def _character(file: str, number: int, offset: int) -> int:
    """Return the column in characters of an offset in bytes."""
    return len(linecache.getline(file, number).encode()[:offset].decode(errors="ignore"))
