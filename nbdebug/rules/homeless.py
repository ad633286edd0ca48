"""What is said of trained tensors that no module of the model keeps."""

from __future__ import annotations

from dataclasses import replace

from nbdebug.evidence.orphans import Orphans
from nbdebug.finding import Finding, Severity, Where
from nbdebug.graph.assignments import assignments

SAID = {
    "anew": "are made anew in each forward pass, and what the loss teaches them is thrown away",
    "derived": "are not among model.parameters(), for {attribute} keeps what was computed from them",
    "outside": "belong to no module of the model and to no optimizer, so they are never trained, moved or saved",
}
CAUSES = {
    "anew": "forward makes a layer or a parameter, with fresh random values each time.",
    "derived": "Arithmetic or a conversion after nn.Parameter(…) gives a plain tensor, which is not registered.",
    "outside": "forward calls a layer that is a variable of the program, not an attribute of the model.",
}
FIXES = {
    "anew": "# in __init__: self.layer = …  and in forward only: x = self.layer(x)",
    "derived": "self.{attribute} = nn.Parameter(self.{attribute}.detach())  # convert first, wrap last",
    "outside": "# in __init__: self.layer = layer  # then make the optimizer",
}


def homeless(one: Orphans) -> Finding:
    """One place at which the output takes in values that are never trained."""
    values = sum(t.numel() for t in one.tensors)
    severity: Severity = "warning" if one.kind == "outside" else "error"
    return Finding(
        message=f"{values:,} values that the output depends on {SAID[one.kind].format(attribute=one.attribute)}.",
        where=place(one),
        cause=CAUSES[one.kind],
        fix=FIXES[one.kind].format(attribute=one.attribute),
        evidence={"values": values, "shapes": [tuple(t.shape) for t in one.tensors[:8]], "kind": one.kind},
        explains=("M304", "R901", "R902", "O503", "T601", "T606", "T607", "T608", "T610"),
        severity=severity,
    )


def place(one: Orphans) -> Where:
    """The line that makes, sets or uses them."""
    lines = assignments(one.holder, one.attribute) if one.holder is not None else []
    return replace(lines[0].where(), module=one.where.module) if lines else one.where
