"""The finding on modules whose ``requires_grad`` is a plain attribute, which their parameters do not follow."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nbdebug.finding import Edit, Finding
from nbdebug.formatting import join_names
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.gradient_attributes import (
    GradientAttribute,
    attribute_lines,
    contradicted_attributes,
    is_switched_in_turns,
)
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine, get_location

_CAUSE = (
    "An nn.Module has no switch of this name: the assignment only adds an attribute to the module, and does not change "
    "its parameters."
)


def gradient_attribute_finding(
    setup: Setup, parameters: Sequence[ParameterEntry], changed: frozenset[str], consequences: tuple[str, ...]
) -> Finding | None:
    """Return a finding on attributes ``requires_grad`` of modules that thaw or freeze nothing; None without any.

    ``changed`` are the names of the parameters that a watched loop changed, so that they were not frozen all along.
    """
    lines_of = {a: attribute_lines(setup, a) for a in contradicted_attributes(setup.eager_model)}
    attributes = [
        a for a, lines in lines_of.items() if lines and (not a.value or not _has_changed(a, parameters, changed))
    ]
    attributes = [a for a in attributes if a.value == attributes[0].value]
    if not attributes:
        return None
    first, value = attributes[0], attributes[0].value
    own = {id(parameter) for attribute in attributes for parameter in attribute.parameters}
    entries = [entry for entry in parameters if id(entry.parameter) in own]
    optimized = [entry for entry in parameters if entry.groups]
    lines = {line for attribute in attributes for line in lines_of[attribute]}
    line = lines.pop() if len(lines) == 1 else None
    names = join_names([f"{member_code(a.path)}.requires_grad" for a in attributes], 3)
    state = "frozen" if value else "trainable"
    is_total = value and optimized and all(id(entry.parameter) in own for entry in optimized)
    is_idle = not value and any(is_switched_in_turns(setup, attribute) for attribute in attributes)
    return Finding(
        message=f"{names} {'are' if len(attributes) > 1 else 'is'} {value}, but the parameters of "
        f"{'these modules' if len(attributes) > 1 else 'this module'} are {state}: {format_names(entries)} "
        f"({sum(entry.parameter.numel() for entry in entries):,} values).",
        where=get_location(line, first.path or None),
        cause=_CAUSE,
        fix="\n".join(f"{member_code(attribute.path)}.requires_grad_({value})" for attribute in attributes)
        if value or first.path
        else "Call model.requires_grad_(False), and then create the layers that should learn.",
        edits=_method_edits(line, value),
        evidence={
            "attributes": [attribute.path for attribute in attributes],
            "value": value,
            "parameters": len(entries),
        },
        explains=(*consequences, "E703") if value else (),
        severity="error" if is_total else "note" if is_idle else "warning",
    )


def _has_changed(attribute: GradientAttribute, parameters: Sequence[ParameterEntry], changed: frozenset[str]) -> bool:
    own = set(map(id, attribute.parameters))
    return any(entry.name in changed for entry in parameters if id(entry.parameter) in own)


def _method_edits(line: SourceLine | None, value: bool) -> tuple[Edit, ...]:
    """Return the change of the assignment of an attribute to a call of the method that switches the parameters."""
    statement = covering_statement(line) if line else None
    if line is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ()
    target = statement.targets[0]
    if not isinstance(target, ast.Attribute) or not isinstance(statement.value, ast.Constant):
        return ()
    return (replace_node(line.file, statement, f"{node_text(line.file, target.value)}.requires_grad_({value})"),)
