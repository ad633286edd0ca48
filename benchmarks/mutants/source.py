"""The text of a program and edits of it that leave all other lines as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try)
_Node = TypeVar("_Node", bound=ast.AST)
Located = ast.expr | ast.stmt


class Edit(NamedTuple):
    """A replacement of the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str
    is_definition: bool = False


@dataclass(frozen=True)
class Mutation:
    """Edits of one file, and what a debugger may name as their place.

    ``blamed`` are nodes beside the edited lines, ``modules`` dotted parts of the names of submodules.
    """

    edits: Sequence[Edit]
    blamed: Sequence[Located] = ()
    modules: Sequence[str] = ()


@dataclass
class SourceText:
    """A file as text and syntax tree."""

    text: str
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        """Index the nodes and the lines."""
        self.tree = ast.parse(self.text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.lines = self.text.splitlines(keepends=True)
        self._line_starts = [0]
        for line in self.lines:
            self._line_starts.append(self._line_starts[-1] + len(line))

    def span(self, node: Located) -> tuple[int, int]:
        """Return the characters of a node."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._offset(node.lineno, node.col_offset), self._offset(end_line, end_column)

    def _offset(self, line: int, column: int) -> int:
        return self._line_starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def of(self, node: Located) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    # Edits

    def replace(self, node: Located, text: str) -> Edit:
        """Put other text in the place of a node."""
        return Edit(*self.span(node), text)

    def wrap(self, node: Located, template: str) -> Edit:
        """Put a template around a node, whose place in it is ``{}``."""
        return self.replace(node, template.replace("{}", self.of(node)))

    def remove(self, statement: ast.stmt) -> Edit:
        """Put ``pass`` in the place of a statement."""
        return self.replace(statement, "pass")

    def before(self, statement: ast.stmt, text: str) -> Edit:
        """Insert statements before one."""
        start = self._line_starts[statement.lineno - 1]
        return Edit(start, start, self._indented(statement, text))

    def after(self, statement: ast.stmt, text: str) -> Edit:
        """Insert statements after one."""
        end = self._line_starts[statement.end_lineno or statement.lineno]
        return Edit(end, end, self._indented(statement, text))

    def define(self, text: str) -> Edit:
        """Insert a function or class below the imports."""
        imports = [node for node in self.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        end = self._line_starts[imports[-1].end_lineno or 0]
        return Edit(end, end, f"\n\n{text.strip()}\n\n", is_definition=True)

    def keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """Pass ``name=value`` to a call, in the place of the value that it passes."""
        if (present := self.argument(call, name)) is not None:
            return self.replace(present, value)
        end = self.span(call)[1] - 1
        is_open = self.text[:end].rstrip().endswith((",", "("))
        return Edit(end, end, f"{'' if is_open else ', '}{name}={value}")

    def block_text(self, statements: Sequence[ast.stmt], statement: ast.stmt) -> str:
        """Return the lines of statements, indented relative to another statement."""
        lines = self.lines[statements[0].lineno - 1 : statements[-1].end_lineno]
        margin = statements[0].col_offset
        return "".join(line[margin:] if line.strip() else line for line in lines)

    def _indented(self, statement: ast.stmt, text: str) -> str:
        margin = " " * statement.col_offset
        return "".join(f"{margin}{line}\n" for line in text.splitlines())

    # Nodes

    def nodes(self, kind: type[_Node], within: ast.AST | None = None) -> Iterator[_Node]:
        """Yield the nodes of a kind in the order of the text."""
        nodes = [node for node in ast.walk(within or self.tree) if isinstance(node, kind)]
        yield from sorted(nodes, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
        """Return an argument of a call by its name or its position."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        is_positional = position is not None and position < len(call.args)
        return call.args[position] if is_positional and position is not None else None

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement around a node."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def above(self, node: ast.AST, *kinds: type[_Node]) -> _Node | None:
        """Return the innermost node of some kinds around a node."""
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, kinds):
            parent = self.parents.get(parent)
        return parent if isinstance(parent, kinds) else None

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the list of statements that a statement stands in."""
        parent = self.parents[statement]
        blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody", "handlers"))
        return next(block for block in blocks if isinstance(block, list) and statement in block)


def apply_mutation(source: SourceText, mutation: Mutation) -> tuple[str, list[int]]:
    """Return the mutated text, and the numbers of the lines in it that a debugger may name."""
    edits = sorted(mutation.edits)
    text = source.text
    for edit in reversed(edits):
        text = text[: edit.start] + edit.text + text[edit.end :]

    def new_line(offset: int) -> int:
        earlier = [edit for edit in edits if edit.end <= offset and edit.start < offset]
        return text.count("\n", 0, offset + sum(len(edit.text) - (edit.end - edit.start) for edit in earlier)) + 1

    lines: set[int] = set()
    for edit in edits:
        if not edit.is_definition:
            first = new_line(edit.start)
            lines.update(range(first, first + edit.text.rstrip("\n").count("\n") + 1))
    for node in mutation.blamed:
        first = new_line(source.span(node)[0])
        is_compound = isinstance(node, _COMPOUND)
        lines.update(range(first, first + (0 if is_compound else (node.end_lineno or node.lineno) - node.lineno) + 1))
    return text, sorted(lines)
