"""Findings about trainable tensors that are not registered in any module of the model."""

from __future__ import annotations

from dataclasses import replace

from nbdebug.finding import Finding, Location, Severity
from nbdebug.measurements.parameter_coverage import UnregisteredTensors
from nbdebug.source.assignments import find_assignments

_MESSAGES = {
    "recreated": "are created in each forward pass, so their updates are discarded",
    "derived": "are not among model.parameters(), because {attribute} stores a tensor computed from them",
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
    return Finding(
        message=f"{values:,} values that the output depends on "
        f"{_MESSAGES[group.kind].format(attribute=group.attribute)}.",
        where=_source_location(group),
        cause=_CAUSES[group.kind],
        fix=_FIXES[group.kind].format(attribute=group.attribute),
        evidence={"values": values, "shapes": [tuple(t.shape) for t in group.tensors[:8]], "kind": group.kind},
        explains=("M301", "M304", "R901", "R902", "O503", "O504", "T601", "T606", "T607", "T608", "T610"),
        severity=severity,
    )


def _source_location(group: UnregisteredTensors) -> Location:
    """Return the line that creates, assigns or uses the tensors."""
    lines = find_assignments(group.owner, group.attribute) if group.owner is not None else []
    return replace(lines[0].where(), module=group.where.module) if lines else group.where
