"""Edits of a module's own ``train`` method, which keep the rest of what it does."""

from __future__ import annotations

import ast

from torch import nn

from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import append_argument, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, call_subject, function_node

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
