"""Findings about trainable tensors that are not registered in any module of the model."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit, Finding, Severity
from nbdebug.measurements.parameter_coverage import UnregisteredTensors
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.attribute_makers import computes_from, made_expression
from nbdebug.source.edits import describe_edits, replace_node
from nbdebug.source.location import SourceLine, get_related_lines
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)  # expressions that need no parentheses
_CONSEQUENCES = (
    "M306:equal rows",
    *("M301", "M304", "R901", "R902", "O502", "O503", "O504", "T601", "T606", "T607", "T608", "T610", "T614"),
)
_MESSAGES = {
    "recreated": "are created in each forward pass, so their updates are discarded",
    "derived": "are not among model.parameters(): {attribute} stores a tensor computed from a parameter",
    "outside": "belong to no module of the model and to no optimizer, so they are never trained, moved or saved",
}
_CAUSES = {
    "recreated": "forward creates a layer or a parameter, with new random values each time.",
    "derived": "Arithmetic or a conversion after nn.Parameter(…) returns a plain tensor, which is not registered.",
    "outside": "forward calls a layer that is a variable of the program, not an attribute of the model.",
}
_FIXES = {
    "recreated": "Create the layer once in __init__, as an attribute of self, and only call it in forward.",
    "derived": "self.{attribute} = nn.Parameter(self.{attribute}.detach())  # convert first, wrap last",
    "outside": "Assign the layer to an attribute of self in __init__, and create the optimizer after that.",
}


def unregistered_tensors_finding(group: UnregisteredTensors) -> Finding:
    """Return the finding for one group of unregistered tensors that the output depends on."""
    values = sum(t.numel() for t in group.tensors)
    severity: Severity = "warning" if group.kind == "outside" else "error"
    assigning_line = _source_line(group)
    made = _computation(group, assigning_line)
    line = made.line if made else assigning_line
    edits = _wrap_last(line, made.node if made else _assigned_value(line)) if group.kind == "derived" and line else ()
    stored = f"self.{group.attribute} stores the tensor"
    return Finding(
        message=f"{values:,} values that the output depends on "
        f"{_MESSAGES[group.kind].format(attribute=group.attribute)}.",
        where=line.where(group.where.module) if line else group.where,
        related=get_related_lines((assigning_line if made else None, stored)),
        cause=_CAUSES[group.kind],
        fix=describe_edits(edits) or _FIXES[group.kind].format(attribute=group.attribute),
        edits=edits,
        evidence={"values": values, "shapes": [tuple(t.shape) for t in group.tensors[:8]], "kind": group.kind},
        explains=_CONSEQUENCES,
        severity=severity,
    )


def _source_line(group: UnregisteredTensors) -> SourceLine | None:
    """Return the line that assigns the tensors; for computed ones, preferably none that assigns a parameter."""
    lines = find_assignments(group.owner, group.attribute) if group.owner is not None else []
    values = [(line, _assigned_value(line)) for line in lines]
    computing = [line for line, value in values if value is None or call_name(value) != "Parameter"]
    return next(iter((computing if group.kind == "derived" else []) or lines), None)


def _computation(group: UnregisteredTensors, line: SourceLine | None) -> Expression | None:
    """Return the expression on another line that computes the stored tensor from a new parameter; None without one."""
    is_stored = group.kind == "derived" and line is not None
    made = made_expression(line, group.owner, group.attribute) if is_stored and line else None
    is_elsewhere = made is not None and made.line != line and call_name(made.node) != "Parameter"
    return made if made and is_elsewhere and computes_from(made, {"Parameter"}) else None


def _assigned_value(line: SourceLine) -> ast.expr | None:
    return getattr(covering_statement(line), "value", None)


def _wrap_last(line: SourceLine, value: ast.expr | None) -> tuple[Edit, ...]:
    """Return the change of a value that is computed from a new parameter, so that a parameter is made of the result."""
    calls = [node for node in (ast.walk(value) if value else ()) if call_name(node) == "Parameter"]
    if value is None or len(calls) != 1:
        return ()
    (call,) = calls
    if not isinstance(call, ast.Call) or call is value or len(call.args) != 1 or call.keywords:
        return ()
    content = ast.unparse(call.args[0])
    content = content if isinstance(call.args[0], _ATOMS) else f"({content})"
    computed = ast.unparse(value).replace(ast.unparse(call), content)
    return (replace_node(line.file, value, f"{ast.unparse(call.func)}({computed})"),)
