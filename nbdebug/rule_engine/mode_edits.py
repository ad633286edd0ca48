"""Edits of what sets the mode of a model: its own ``train`` method, and evaluations that leave it in eval mode."""

from __future__ import annotations

import ast

from torch import nn

from nbdebug.finding import Edit
from nbdebug.rule_engine.loop_edits import owner_of_call
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import append_argument, insert_after_statement, insert_before, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import SourceScope, call_name, call_subject, enclosing_scope, function_node, innermost_loop

_CALL_OF_BASE = "super().train({mode})   # passes the mode on; keep the rest of {kind}.train()"
_CALL_OF_PART = "{part}.train({mode})   # sets the mode of all layers inside; keep the rest of {kind}.train()"


def pass_mode_on(line: SourceLine | None, kind: type[nn.Module]) -> tuple[str, tuple[Edit, ...]]:
    """Return the fix, and its edit, that passes the mode on at the line of a ``train`` method that sets modes.

    The line calls ``train`` of the base class or of a part, or sets the attribute ``training`` of a part.
    """
    mode = _mode_parameter(kind)
    statement = covering_statement(line) if line else None
    if line is None or statement is None:
        return _CALL_OF_BASE.format(mode=mode, kind=kind.__name__), ()
    part = _part_with_attribute(statement)
    if part is not None:
        fix = _CALL_OF_PART.format(part=part, mode=mode, kind=kind.__name__)
        return fix, (replace_node(line.file, statement, f"{part}.train({mode})"),)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and call_name(node) == "train"]
    bases = [call for call in calls if (owner := call_subject(call)) is not None and call_name(owner) == "super"]
    edits: tuple[Edit, ...] = ()
    if len(bases) == 1 and not bases[0].keywords and len(bases[0].args) < 2:
        arguments = bases[0].args
        edit = replace_node(line.file, arguments[0], mode) if arguments else append_argument(line.file, bases[0], mode)
        edits = (edit,)
    return _CALL_OF_BASE.format(mode=mode, kind=kind.__name__), edits


def is_in_batch_loop(evaluation: SourceLine | None, step: SourceLine | None) -> bool:
    """Return whether a line runs inside the innermost loop around a step, there or in a function called there."""
    scope = enclosing_scope(step) if step else None
    loop = innermost_loop(scope, step.number) if scope and step else None
    if evaluation is None or step is None or loop is None:
        return False
    statement = covering_statement(evaluation)
    is_called = any(call_name(node) == evaluation.function for node in ast.walk(loop))
    return any(node is statement for node in ast.walk(loop)) or (is_called and evaluation.function != step.function)


def restore_train_mode(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the insertion of ``train()`` at the end of the block in which a line calls ``eval()``, with its owner.

    Return () if the function may end before, and where a call in its last statement may need the eval mode.
    """
    owner, scope = (owner_of_call(line, "eval"), enclosing_scope(line)) if line else (None, None)
    statement = covering_statement(line) if line else None
    block = _block_after(scope, statement) if scope is not None and statement is not None else []
    if line is None or owner is None or not block:
        return ()
    last, code = block[-1], f"{owner}.train()"
    exits = [node for part in block for node in ast.walk(part) if isinstance(node, (ast.Return, ast.Raise))]
    if isinstance(last, (ast.Return, ast.Continue, ast.Break)):
        is_only_exit = exits in ([], [last]) and not any(isinstance(node, ast.Call) for node in ast.walk(last))
        return (insert_before(line.file, last.lineno, code),) if is_only_exit else ()
    return (insert_after_statement(line.file, last, code),) if not exits else ()


def _block_after(scope: SourceScope, statement: ast.stmt) -> list[ast.stmt]:
    """Return the innermost block with a statement, or one that contains it, that goes on after it; [] without one."""
    blocks = [getattr(node, name, []) for node in ast.walk(scope) for name in ("body", "orelse", "finalbody")]
    blocks = [block for block in blocks if isinstance(block, list)]  # that of a lambda is an expression
    around = [block for block in blocks if any(statement in ast.walk(part) for part in block[:-1])]
    return max(around, key=lambda block: block[0].lineno, default=[])


def _mode_parameter(kind: type[nn.Module]) -> str:
    """Return the name under which a ``train`` method takes the mode."""
    node = function_node(kind.train)
    names = [argument.arg for argument in node.args.args[1:]] if node else []
    return names[0] if names else "mode"


def _part_with_attribute(statement: ast.stmt) -> str | None:
    """Return the part of the model whose attribute ``training`` a statement sets; None for another statement."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    is_mode = isinstance(target, ast.Attribute) and target.attr == "training"
    return ast.unparse(target.value) if is_mode and isinstance(target, ast.Attribute) else None
