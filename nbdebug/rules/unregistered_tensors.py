"""Findings about trainable tensors that are not registered in any module of the model."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit, Finding, Severity
from nbdebug.measurements.parameter_coverage import UnregisteredTensors
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.edits import describe_edits, replace_node
from nbdebug.source.location import SourceLine
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
    line = _source_line(group)
    edits = _wrap_last(line) if group.kind == "derived" else ()
    return Finding(
        message=f"{values:,} values that the output depends on "
        f"{_MESSAGES[group.kind].format(attribute=group.attribute)}.",
        where=line.where(group.where.module) if line else group.where,
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


def _assigned_value(line: SourceLine) -> ast.expr | None:
    return getattr(covering_statement(line), "value", None)


def _wrap_last(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of a line that computes with a new parameter, so that it makes one of the result."""
    value = _assigned_value(line) if line else None
    calls = [node for node in (ast.walk(value) if value else ()) if call_name(node) == "Parameter"]
    if line is None or value is None or len(calls) != 1:
        return ()
    (call,) = calls
    if not isinstance(call, ast.Call) or call is value or len(call.args) != 1 or call.keywords:
        return ()
    content = ast.unparse(call.args[0])
    content = content if isinstance(call.args[0], _ATOMS) else f"({content})"
    computed = ast.unparse(value).replace(ast.unparse(call), content)
    return (replace_node(line.file, value, f"{ast.unparse(call.func)}({computed})"),)
