"""The operation that made a loss NaN or Inf, read from what its graph keeps: for a loss that only the loop knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.graph.node import Node
from nbdebug.graph.origins import Origin, extent, is_finite
from nbdebug.graph.reader import read
from nbdebug.graph.search import calls_to, parsed
from nbdebug.graph.source import Line

SIGNS: dict[str, type[ast.operator]] = {
    "div": ast.Div,
    "reciprocal": ast.Div,
    "pow": ast.Pow,
    "mul": ast.Mult,
    "sub": ast.Sub,
    "add": ast.Add,
}
WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
GIVEN, RESULTS = ("self", "other", "exponent", "target"), ("result", "output")


def blame(roots: Iterable[Tensor], end: Line | None) -> Origin | None:
    """The first operation behind some losses that is at fault; ``end`` is the line of the backward pass.

    The graph must not have been freed. None where it keeps too little to tell.
    """
    nodes = [node for root in roots for node in read(root.grad_fn, []).nodes]
    for node in sorted(nodes, key=number):
        given = inputs(node)
        if not all(map(is_finite, given)):
            return None  # an operation that keeps nothing made it, or it came from outside
        made = result(node)
        if made is None or is_finite(made):
            continue
        if not given and bool(made.isnan().any()) and not all(map(was_finite, node.inputs)):
            return None  # NaN in what it was given makes NaN too
        rows = (~made.isfinite()).flatten(1).any(1) if made.dim() > 1 else ~made.isfinite().reshape(-1)
        kind, name = "NaN" if bool(made.isnan().any()) else "Inf", snake(node.name)
        places = tuple(rows.nonzero().flatten().tolist())
        return Origin(name, kind, *extent(given), tuple(made.shape), places, None, last_line(name, end))
    return None


def was_finite(node: Node) -> bool:
    """Whether what an operation made is known to be finite."""
    made = node.variable if node.variable is not None else result(node)
    return made is not None and is_finite(made)


def inputs(node: Node) -> list[Tensor]:
    """The inputs that an operation keeps."""
    names = (name.removeprefix("_saved_") for name in dir(node.function) if name.startswith("_saved_"))
    kept = (node.saved(name) for name in names if not name.startswith(RESULTS))
    return [one.detach() for one in kept if isinstance(one, Tensor) and one.is_floating_point()]


def number(node: Node) -> int:
    """The place of an operation in the order of the forward pass."""
    count = getattr(node.function, "_sequence_nr", None)
    return int(count()) if count is not None else 0


def result(node: Node) -> Tensor | None:
    """What an operation made: as it keeps it, or by doing it again on what it keeps."""
    kept = node.saved("result")
    if isinstance(kept, Tensor):
        return kept.detach()
    function = getattr(torch, snake(node.name), None) or getattr(F, snake(node.name), None)
    given = [node.saved(name) for name in GIVEN if node.saved(name) is not None]
    if node.name == "Div" and len(given) == 1:
        given = [1.0, *given]
    if not callable(function) or not any(isinstance(one, Tensor) for one in given):
        return None
    try:
        with torch.no_grad():
            made: Any = function(*given)
    except Exception:
        return None
    return made if isinstance(made, Tensor) and made.is_floating_point() else None


def snake(name: str) -> str:
    """The name of an operation as a function has it: ``LogSoftmax`` as ``log_softmax``."""
    return WORDS.sub("_", name).lower()


def last_line(name: str, end: Line | None) -> Line | None:
    """The last line before the backward pass, in the same file or cell, that an operation stands in."""
    wanted = written(name)
    found = [node.lineno for node in parsed(end.file) if node.lineno <= end.number and wanted(node)] if end else []
    return Line(end.file, max(found)) if end and found else None


def written(name: str) -> Callable[[ast.AST], bool]:
    """What tells an expression that is this operation, as a call or as a sign."""
    called, sign = calls_to(name), SIGNS.get(name)

    def wanted(node: ast.AST) -> bool:
        return called(node) or (sign is not None and isinstance(node, ast.BinOp) and isinstance(node.op, sign))

    return wanted
