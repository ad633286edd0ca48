"""Changes of the lines that compute a metric: what is counted, when counting starts, and which loader is read."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rule_engine.loop_edits import name_at
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.creation import find_creation
from nbdebug.source.edits import insert_before, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, enclosing_scope, innermost_loop, search_files, syntax_tree


def count_rows(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of a divisor ``len(loader)`` on a line into the number of rows of its dataset."""
    lengths = [
        node
        for node in expressions_at(line)
        if isinstance(node, ast.Call)
        and call_name(node) == "len"
        and isinstance(node.args[0], (ast.Name, ast.Attribute))
    ]
    lengths = [node for node in lengths if not ast.unparse(node.args[0]).endswith(".dataset")]
    if line is None or len(lengths) != 1:
        return ()
    return (wrap_node(line.file, lengths[0].args[0], "{}.dataset"),)


def reset_counters(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the insertion that sets what the innermost loop around a line adds up to zero, before that loop."""
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or loop is None:
        return ()
    sums = [node for node in ast.walk(loop) if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
    names = dict.fromkeys(
        ast.unparse(node.target) for node in sums if isinstance(node.target, (ast.Name, ast.Attribute))
    )
    return (insert_before(line.file, loop.lineno, f"{' = '.join(names)} = 0"),) if names else ()


def exchange_loaders(setup: Setup, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the exchange of the training loader for the validation loader where a loop evaluates.

    If the loop reads a parameter of its function, that is what the only call of the function passes for it.
    """
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or not isinstance(loop, ast.For):
        return ()
    edits = _exchange_at(setup, SourceLine(line.file, loop.lineno), loop.iter)
    tree = syntax_tree(line.file)
    if edits or tree is None or not isinstance(scope, ast.FunctionDef):
        return edits
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and call_name(node) == scope.name]
    changes = [_exchange_at(setup, SourceLine(line.file, call.lineno), call) for call in calls]
    return changes[0] if len(changes) == 1 else ()


def _exchange_at(setup: Setup, line: SourceLine, expression: ast.expr) -> tuple[Edit, ...]:
    train = name_at(setup, line, setup.train_loader)
    val = name_at(setup, line, setup.val_loader) or _sibling(setup, train or "")
    parts = [node for node in ast.walk(expression) if isinstance(node, (ast.Name, ast.Attribute))]
    own = [node for node in parts if train and ast.unparse(node) == train]
    return (replace_node(line.file, own[0], val),) if val and len(own) == 1 else ()


def _sibling(setup: Setup, path: str) -> str:
    """Return the attribute of the validation loader beside that of the training loader, ``p.val_loader``."""
    creation = find_creation(setup.val_loader, search_files(user_written_objects(setup)))
    owner, names = path.rpartition(".")[0], creation.names if creation else frozenset()
    return f"{owner}.{next(iter(names))}" if owner and len(names) == 1 else ""
