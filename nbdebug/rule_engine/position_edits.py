"""Changes of a sum with a table of positions that runs along the batch: its rows along the steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name

ADD_ALONG_STEPS = "Add the positions along the axis of the steps, which is axis 1 where the batch comes first."
_SUMS = {"add", "radd"}


@dataclass(frozen=True)
class _MisplacedTable:
    """An operand with as many positions as the batch has samples, in the user's words, and the sum that reads steps.

    ``table`` is the expression that is sliced and ``shape`` its shape, if they are known.
    """

    sum_along_steps: str
    edits: tuple[Edit, ...]
    table: str = ""
    shape: tuple[int, ...] = ()

    @property
    def cause(self) -> str:
        """What the table's shape says about its axes; "" if the shape is unknown."""
        if not self.shape:
            return ""
        return (
            f"{self.table} has shape {self.shape}: axis 0 counts positions. This line takes one position for each "
            "sample of the batch instead of one for each step."
        )


def find_misplaced_table(model: nn.Module, call: TorchCall) -> _MisplacedTable | None:
    """Return the table that a sum adds along the batch, where its shape and the line tell how to add it along steps.

    The operand must have one row for each sample, and one step that is broadcast over all: (batch, 1, width) beside
    samples of (batch, steps, width).
    """
    if call.name not in _SUMS or len(call.inputs) != 2 or call.line is None:
        return None
    rows, samples = sorted(call.inputs, key=lambda operand: operand.numel())
    is_along_batch = rows.dim() == samples.dim() > 2 and len(rows) == len(samples) and rows.shape[1] == 1
    operands = list(_operands_of_batch_length(call.line)) if is_along_batch and samples.shape[1] > 1 else []
    if len(operands) != 1:
        return None
    whole, operand = operands[0]
    line, changed = call.line, _along_steps(call.line, operand)
    text = node_text(line.file, whole).replace(node_text(line.file, operand), changed)
    table = next((node.value for node in ast.walk(operand) if isinstance(node, ast.Subscript) and _lengths(node)), None)
    value = _attribute_value(model, call.module, table)
    return _MisplacedTable(
        text,
        (replace_node(line.file, operand, changed),),
        node_text(line.file, table) if table is not None else "",
        tuple(value.shape) if value is not None and value.shape[0] >= samples.shape[1] else (),
    )


def _operands_of_batch_length(line: SourceLine) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each sum on a line with the operand that the length of axis 0 of something cuts or makes."""
    for node in expressions_at(line):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from ((node, side) for side in (node.left, node.right) if _lengths(side))


def _lengths(node: ast.expr) -> list[ast.expr]:
    """Return the expressions inside another one that are the length of axis 0: ``x.size(0)``, ``x.shape[0]``."""
    return [part for part in ast.walk(node) if isinstance(part, ast.expr) and _length_owner(part) is not None]


def _length_owner(node: ast.expr) -> ast.expr | None:
    """Return the tensor whose length along axis 0 an expression is."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return node.value.value if ast.unparse(node.slice) == "0" else None
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return node.func.value if ast.unparse(node.args[0]) == "0" else None
    return node.args[0] if ast.unparse(node.func) == "len" else None


def _along_steps(line: SourceLine, operand: ast.expr) -> str:
    """Return the text of an operand that has as many rows as there are steps, and its first two axes exchanged."""
    text = node_text(line.file, operand)
    for length in _lengths(operand):
        owner = _length_owner(length)
        if owner is not None:
            text = text.replace(node_text(line.file, length), f"{node_text(line.file, owner)}.size(1)")
    if isinstance(operand, ast.Call) and call_name(operand) == "unsqueeze" and text.endswith(".unsqueeze(1)"):
        return f"{text.removesuffix('.unsqueeze(1)')}.unsqueeze(0)"
    return f"{text}.transpose(0, 1)" if isinstance(operand, (ast.Call, ast.Subscript)) else f"({text}).transpose(0, 1)"


def _attribute_value(model: nn.Module, module: str | None, table: ast.expr | None) -> Tensor | None:
    """Return the tensor that ``self.name`` is in the module that runs a line."""
    is_attribute = isinstance(table, ast.Attribute) and isinstance(table.value, ast.Name) and table.value.id == "self"
    value = getattr(model.get_submodule(module or ""), table.attr, None) if is_attribute else None  # type: ignore[union-attr]
    return value if isinstance(value, Tensor) and value.dim() else None
