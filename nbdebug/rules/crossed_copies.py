"""The finding of M304 on copies of each sample, as for the heads of an attention, that meet other samples."""

from __future__ import annotations

import ast

from nbdebug.autograd.tracing import describe_call
from nbdebug.finding import Edit, Finding
from nbdebug.formatting import join_names
from nbdebug.measurements.batch_independence import SampleMixing
from nbdebug.measurements.crossed_copies import CrossedCopies
from nbdebug.rule_engine.expression_edits import is_namespace, only_call
from nbdebug.source.edits import describe_edits, node_text, replace_node
from nbdebug.source.location import SourceLine, get_location

_CONSEQUENCES = ("M306", "M310", "T606", "T607", "T608", "T609", "T610", "E703", "E709")
_MAX_LISTED = 4


def crossed_copies_finding(mixing: SampleMixing, crossed: CrossedCopies) -> Finding:
    """Report repeated rows, such as masks for the heads of an attention, whose order is not that of the other rows."""
    name = "mask" if crossed.is_attention_mask or not crossed.call.inputs[0].is_floating_point() else "repeated tensor"
    edits = _edits(crossed)
    return Finding(
        message=f"Changing sample {mixing.changed_sample} changes the outputs of {len(mixing.affected_samples)} of the "
        f"{mixing.batch_size - 1} other samples in its batch: {_list(mixing.affected_samples)}. The samples mix "
        f"through a {name} of {describe_call(crossed.call.name)}. In it, sample {mixing.changed_sample} has the rows "
        f"{_list(crossed.rows)}.",
        where=get_location(crossed.line, crossed.call.module),
        cause=_cause(crossed),
        fix=describe_edits(edits) or _fix(crossed, name),
        edits=edits,
        evidence={
            "touched": len(mixing.affected_samples),
            "size": mixing.batch_size,
            "copies": crossed.copies,
            "call": crossed.call.name,
        },
        explains=_CONSEQUENCES,
        severity="error",
    )


def _list(numbers: tuple[int, ...]) -> str:
    return join_names([str(number) for number in numbers], _MAX_LISTED)


def _cause(crossed: CrossedCopies) -> str:
    samples, copies = crossed.samples, crossed.copies
    own, other = f"sample k % {samples}", f"sample k // {copies}"
    if crossed.is_attention_mask:
        return (
            "A mask with 3 axes has one row for each sample and head, in the order sample * heads + head: row k "
            f"belongs to {other}. Here row k has the mask of {own}."
        )
    if crossed.layout == "together":
        own, other = other, own
    return f"Row k of the repeated tensor belongs to {own}. Row k of the tensor that it meets belongs to {other}."


def _fix(crossed: CrossedCopies, name: str) -> str:
    variable = "mask" if name == "mask" else "x"
    if crossed.layout == "in turn":
        return f"{variable} = {variable}.repeat_interleave({crossed.copies}, dim=0)   # the copies of a sample together"
    return f"{variable} = torch.cat([{variable}] * {crossed.copies})   # all samples, {crossed.copies} times in turn"


def _edits(crossed: CrossedCopies) -> tuple[Edit, ...]:
    """Return the change of a call of repeat() along the first axis into one of repeat_interleave()."""
    line, call = crossed.line, only_call(crossed.line, ("repeat", "tile"))
    if crossed.layout == "together" or line is None or call is None or not isinstance(call.func, ast.Attribute):
        return ()
    sizes = _sizes(line, call)
    if not sizes or is_namespace(call.func.value) or not all(map(_is_one, sizes[1:])):
        return ()
    owner, count = node_text(line.file, call.func.value), node_text(line.file, sizes[0])
    return (replace_node(line.file, call, f"{owner}.repeat_interleave({count}, dim=0)"),)


def _sizes(line: SourceLine, call: ast.Call) -> list[ast.expr]:
    only = call.args[0] if len(call.args) == 1 else None
    return list(only.elts) if isinstance(only, (ast.Tuple, ast.List)) else list(call.args)


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1
