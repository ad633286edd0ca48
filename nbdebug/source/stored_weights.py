"""The line that stores tensors of a model which a later line loads, and the values in it that are no copies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.assignments import covering_statement, own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    assignment_targets,
    call_name,
    choice_branches,
    enclosing_loops,
    enclosing_scope,
    file_nodes,
    syntax_tree,
    walk,
)

_WEIGHTS = ("state_dict", "named_parameters", "named_buffers", "parameters")
_COPIES = ("clone", "deepcopy")  # not ``copy``, which copies the dictionary and not its tensors
_MAPPINGS = ("dict", "OrderedDict")


def find_stored_weights(load_line: SourceLine | None) -> SourceLine | None:
    """Return the only line that stores live tensors in the variable or attribute that a line loads; else None.

    Empty initial values and copies do not count. Any other value of unknown origin makes the place ambiguous.
    """
    loaded = _loaded_state(load_line) if load_line else None
    path = _access_path(loaded) if loaded is not None else ()
    if load_line is None or not path:
        return None
    stores = [
        statement for statement in _candidate_statements(load_line, path) if _is_store(load_line.file, statement, path)
    ]
    stores = [statement for statement in stores if not _is_empty(statement.value) and _live_values(statement.value)]
    if len(stores) != 1 or not _reads_weights(load_line.file, stores[0]):
        return None
    return SourceLine(load_line.file, stores[0].lineno)


def _live_values(value: ast.expr | None) -> list[ast.expr]:
    """Return the parts of a stored value that are no copies: of a choice or a comprehension, those of its values."""
    branches = choice_branches(value)
    if len(branches) > 1:
        return [part for branch in branches for part in _live_values(branch)]
    if isinstance(value, ast.DictComp):
        return [] if _copies(value.generators[0].iter) else _live_values(value.value)
    return [] if value is None or _copies(value) else [value]


def live_tensors(line: SourceLine | None) -> list[ast.expr]:
    """Return the tensors that a line stores or returns one by one and does not copy; empty for whole states."""
    statement = covering_statement(line) if line else None
    if line is None or not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return)):
        return []
    if _weights_loop(line.file, statement) is not None:
        return _live_values(statement.value)
    elements = [_element(branch) for branch in choice_branches(statement.value) if _live_values(branch)]
    return [part for element in elements for part in _live_values(element)]


def _element(value: ast.expr) -> ast.expr | None:
    """Return the value of each entry of a comprehension, or of the pairs from which ``dict()`` makes a dictionary."""
    if isinstance(value, ast.DictComp):
        return value.value
    pairs = value.args[0] if isinstance(value, ast.Call) and call_name(value) in _MAPPINGS and value.args else None
    pair = pairs.elt if isinstance(pairs, (ast.GeneratorExp, ast.ListComp)) else None
    return pair.elts[1] if isinstance(pair, ast.Tuple) and len(pair.elts) == 2 else None


def _copies(value: ast.expr) -> bool:
    return any(call_name(node) in _COPIES for node in ast.walk(value))


def _loaded_state(line: SourceLine) -> ast.expr | None:
    """Return what the only call of ``load_state_dict`` in the statement on a line loads."""
    calls = [node for node in walk(covering_statement(line)) if isinstance(node, ast.Call)]
    loads = [call for call in calls if call_name(call) == "load_state_dict"]
    if len(loads) != 1:
        return None
    named = [keyword.value for keyword in loads[0].keywords if keyword.arg == "state_dict"]
    return next(iter([*loads[0].args[:1], *named]), None)


def _access_path(node: ast.AST) -> tuple[str, ...]:
    """Return the name of a variable or an attribute, whatever object has it, and its indices; empty for other nodes."""
    if isinstance(node, ast.Subscript):
        owner = _access_path(node.value)
        return (*owner, ast.unparse(node.slice)) if owner else ()
    if isinstance(node, ast.Attribute):
        return (f".{node.attr}",)
    return (node.id,) if isinstance(node, ast.Name) else ()


def _candidate_statements(line: SourceLine, path: tuple[str, ...]) -> Iterator[ast.Assign | ast.AnnAssign]:
    """Yield the assignments that may store what a line loads: for a variable, those of its function or of the file."""
    tree, scope = syntax_tree(line.file), enclosing_scope(line)
    if tree is None or scope is None:
        return
    nodes = [*file_nodes(tree)] if path[0].startswith(".") else [*own_statements(scope)]
    if not path[0].startswith(".") and scope is not tree:
        parameters = [node.arg for node in walk(getattr(scope, "args", None)) if isinstance(node, ast.arg)]
        is_local = any(path[0] in _assigned_variables(node) for node in nodes)
        nodes = [] if path[0] in parameters else nodes if is_local else [*own_statements(tree)]
    yield from (node for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign)))


def _assigned_variables(statement: ast.AST) -> set[str]:
    return {target.id for target in assignment_targets(statement) if isinstance(target, ast.Name)}


def _is_store(file: str, statement: ast.Assign | ast.AnnAssign, path: tuple[str, ...]) -> bool:
    """Check whether a statement stores a whole state at a path, or one entry of it in each round of a loop."""
    paths = [_access_path(target) for target in assignment_targets(statement)]
    return path in paths or (path in [part[:-1] for part in paths] and _weights_loop(file, statement) is not None)


def _reads_weights(file: str, statement: ast.Assign | ast.AnnAssign) -> bool:
    return any(call_name(node) in _WEIGHTS for node in walk(statement.value)) or bool(_weights_loop(file, statement))


def _weights_loop(file: str, statement: ast.stmt) -> ast.For | None:
    """Return the innermost loop over tensors of a model around a statement that stores an entry."""
    line = SourceLine(file, statement.lineno)
    scope = enclosing_scope(line)
    is_entry = any(isinstance(target, ast.Subscript) for target in assignment_targets(statement))
    loops = enclosing_loops(scope, line.number) if scope is not None and is_entry else []
    return next((loop for loop in loops if any(call_name(node) in _WEIGHTS for node in ast.walk(loop.iter))), None)


def _is_empty(value: ast.expr | None) -> bool:
    """Check whether a value is a constant or an empty dictionary, as before the first state is stored."""
    if isinstance(value, ast.Call):
        return call_name(value) in _MAPPINGS and not value.args and not value.keywords
    return value is None or isinstance(value, ast.Constant) or (isinstance(value, ast.Dict) and not value.keys)
