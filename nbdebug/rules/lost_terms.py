"""What M301 says of terms that a loss computes and loses: in a loop, or since their variable is assigned again."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from nbdebug.finding import Edit, RelatedLine
from nbdebug.measurements.lost_terms import LostTerms
from nbdebug.rule_engine.statement_edits import collect_in_loop
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine, get_related_lines


@dataclass(frozen=True)
class LostTermDescription:
    """The reason why terms have no effect, the line that loses them, its cause and how to keep them."""

    reason: str
    line: SourceLine
    cause: str
    fix: str
    edits: tuple[Edit, ...] = ()
    related: tuple[RelatedLine, ...] = ()


def describe_lost_terms(lost: LostTerms) -> LostTermDescription:
    """Return what happens to the terms of a loss that its result does not depend on."""
    number = lost.line.present.number
    if lost.overwriting is not None:
        return _describe_overwritten(lost, lost.overwriting)
    if not lost.variable:
        return LostTermDescription(
            f"line {number} computes a term from their output that no further operation receives",
            lost.line,
            "The term is lost: nothing adds it to the loss, or another value takes its place.",
            "loss = loss + term   # add up all terms",
        )
    edits = collect_in_loop(lost.line, start="0.0")
    return LostTermDescription(
        f"line {number} assigns `{lost.variable}` again in each of {lost.rounds} rounds, so only the last term stays",
        lost.line,
        "Each round replaces the term of the round before.",
        describe_edits(edits) or f"{lost.variable} = {lost.variable} + term   # add up all terms",
        edits,
    )


def _describe_overwritten(lost: LostTerms, line: SourceLine) -> LostTermDescription:
    name, statement = lost.overwritten, covering_statement(line)
    has_sign = isinstance(statement, ast.Assign) and _is_positive(statement.value)
    edits = _adding_edits(line, name)
    return LostTermDescription(
        f"line {line.present.number} assigns `{name}` again, so the terms of earlier lines are lost",
        line,
        f"`{name} = +value` replaces `{name}`; `{name} += value` adds to it."
        if has_sign
        else f"The assignment replaces the terms that `{name}` had before.",
        describe_edits(edits) or f"{name} = {name} + term   # add up all terms",
        edits,
        get_related_lines((lost.line, f"the value that `{name}` gets here is lost")),
    )


def _is_positive(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd)


def _adding_edits(line: SourceLine, name: str) -> tuple[Edit, ...]:
    """Return the change of an assignment to a variable into one that adds to it."""
    statement = covering_statement(line)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ()
    value = statement.value
    if isinstance(value, ast.UnaryOp) and _is_positive(value):
        return (replace_node(line.file, statement, f"{name} += {node_text(line.file, value.operand)}"),)
    needs_parentheses = not isinstance(value, (ast.BinOp, ast.Call, ast.Name, ast.Attribute, ast.Subscript))
    return (wrap_node(line.file, value, f"{name} + ({{}})" if needs_parentheses else f"{name} + {{}}"),)
