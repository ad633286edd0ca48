"""The program in the cells of a notebook or in a script: what makes a Debugger, and the loop that is watched."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.finding import Edit
from nbdebug.setup import Setup
from nbdebug.setup.notebook_names import user_variables
from nbdebug.source.edits import apply_edits
from nbdebug.source.location import SourceLine, get_cell_number
from nbdebug.source.notebook_cells import current_cells
from nbdebug.source.search import assigned_names, covers_line, read_names
from nbdebug.tools.try_fix.program import Program, Start

_DEFINITIONS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Assign,
    ast.AnnAssign,
)
_Statement = tuple[str, ast.stmt]  # with the file that it is in


@dataclass(frozen=True)
class CellProgram:
    """The statements of some cells, or of a script, that make a Debugger and train its model.

    They run with variables of their own, so that those of the user stay as they are. ``files`` are in the order in
    which they ran; ``name`` is the variable of the Debugger, ``loop`` the line that watches the loop, if one did.
    """

    files: tuple[str, ...]
    name: str
    loop: SourceLine | None
    variables: Mapping[str, Any]

    @contextmanager
    def start(self, edits: Sequence[Edit]) -> Iterator[Start]:
        """Provide the setup that the statements make; raises SetupError for edits of other files."""
        if not {edit.file for edit in edits} <= {*self.files}:
            raise SetupError(
                "the fix changes a file that your notebook imports; expected lines of the notebook. "
                "Pass build=, a function that creates the setup and returns debugger, train."
            )
        statements, loop = self._read(edits)
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for file, statement in statements:
            _run(file, [statement], namespace)
        setup = getattr(namespace.get(self.name), "setup", None)
        if not isinstance(setup, Setup):
            raise SetupError(
                f"{self.name} is made elsewhere than in a statement of the notebook or script; expected one. "
                "Pass build=, a function that creates the setup and returns debugger, train."
            )
        yield setup, (lambda: _run(loop[0], loop[1], namespace)) if loop else None

    def _read(self, edits: Sequence[Edit]) -> tuple[list[_Statement], tuple[str, list[ast.stmt]] | None]:
        """Return the statements that make the setup, and the watched loop with its file."""
        loop: tuple[str, list[ast.stmt]] | None = None
        statements: list[_Statement] = []
        for file in self.files:
            source = "".join(linecache.getlines(file))
            edited = apply_edits(source, [edit for edit in edits if edit.file == file])
            block = _watched_block(ast.parse(source), self.loop) if self.loop and self.loop.file == file else None
            for position, statement in enumerate(ast.parse(edited).body):
                if block == position and isinstance(statement, ast.With):
                    loop = (file, statement.body)
                    break
                statements.append((file, statement))
            if loop is not None:
                break
        wanted = {self.name} | ({name for part in loop[1] for name in read_names(part)} if loop else set())
        return _needed(statements, wanted, self.name, self.variables), loop


def find_own_program(debugger: object, loop: SourceLine | None) -> Program | None:
    """Return the program of the notebook or the script that made a Debugger; None if it has no variable there.

    ``loop`` is the line that watches the loop. A loop inside a function is not known, and neither is its program.
    """
    variables, files = user_variables(), _cell_files()
    main = sys.modules["__main__"]
    if not variables and (file := getattr(main, "__file__", None)):
        variables, files = vars(main), (file,)
    name = next((name for name, value in variables.items() if value is debugger), None)
    if name is None or (loop is not None and loop.file not in files):
        return None
    if loop is not None and _watched_block(ast.parse("".join(linecache.getlines(loop.file))), loop) is None:
        return None
    return CellProgram(files, name, loop, variables)


def _cell_files() -> tuple[str, ...]:
    """Return the file names of the cells, in the order in which they last ran."""
    files = [file for file in current_cells() if _parses(file)]
    return tuple(sorted(files, key=lambda file: get_cell_number(file) or 0))


def _parses(file: str) -> bool:
    try:
        return bool(ast.parse("".join(linecache.getlines(file))).body)
    except SyntaxError:
        return False


def _watched_block(tree: ast.Module, line: SourceLine) -> int | None:
    """Return the position of the block whose opening is on a line."""
    for position, statement in enumerate(tree.body):
        items = statement.items if isinstance(statement, ast.With) else ()
        if any(covers_line(item.context_expr, line.number) for item in items):
            return position
    return None


def _needed(
    statements: Sequence[_Statement], names: set[str], debugger: str, variables: Mapping[str, Any]
) -> list[_Statement]:
    """Return the statements that define some names, or change what they refer to, from the Debugger's own on backwards.

    Other uses of the debugger are left out, and so are loops that train.
    """
    needed: list[_Statement] = []
    wanted, is_made = set(names), False
    for file, statement in reversed(statements):
        binds, reads = _bound_names(statement), read_names(statement)
        makes = debugger in binds
        uses_tools = any(_is_of_debugger(variables.get(name)) for name in reads) and not makes
        modules = {name for name in reads if isinstance(variables.get(name), ModuleType)}
        changes = set() if isinstance(statement, _DEFINITIONS) else reads - modules
        if uses_tools or _trains(statement) or (makes and is_made):
            continue
        if binds & wanted or (changes | _changed_roots(statement)) & wanted:
            needed.append((file, statement))
            wanted |= reads
            is_made |= makes
    return needed[::-1]


def _bound_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    return assigned_names(statement)


def _changed_roots(statement: ast.stmt) -> set[str]:
    """Return the variables of which a statement sets an attribute or an entry."""
    stored = [
        node
        for node in ast.walk(statement)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store)
    ]
    return {name for node in stored for name in read_names(node.value)}


def _is_of_debugger(value: object) -> bool:
    """Return whether a variable holds a Debugger, a result or a watch; its classes and functions do not."""
    return type(value).__module__.partition(".")[0] == "nbdebug"


def _trains(statement: ast.stmt) -> bool:
    is_definition = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return not is_definition and any(isinstance(call, ast.Attribute) and call.attr == "backward" for call in calls)


def _run(file: str, statements: list[ast.stmt], namespace: dict[str, Any]) -> None:
    exec(compile(ast.Module(statements, []), file, "exec", dont_inherit=True), namespace)
