"""The statement after which the data of one split lack a transform that those of the other split have."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Any

from nbdebug.setup.part_sources import constructor_argument, find_part, operands
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_steps
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name
from nbdebug.source.variable_values import Part, possible_assignments

_MAX_DEPTH, _MAX_CHAINS = 40, 16
_NO_TRANSFORMS = {"train_test_split", "random_split", "TensorDataset", "DataLoader", "Subset", "split", "array_split"}
_NO_TRANSFORMS |= {"tensor", "as_tensor", "from_numpy", "asarray", "array", "FloatTensor", "Tensor", "astype", "to"}
_NO_TRANSFORMS |= {"float", "double", "half", "type", "numpy", "copy", "clone", "contiguous", "to_numpy", "drop"}
_NO_TRANSFORMS |= {"unsqueeze", "squeeze", "view", "reshape", "flatten", "ascontiguousarray", "DataFrame", "detach"}
_NO_TRANSFORMS |= {"reset_index", "head", "tail", "sample", "shuffle", "permutation", "stack", "read_csv", "load"}
_Chain = list[Expression]


def find_lacking_transform(setup: Setup, position: int = 0) -> SourceLine | None:
    """Return the last statement that makes the data of the split whose chain lacks a transform of the other one.

    The inputs (position 0) or targets (-1) of both splits are followed back to their common source. If validation has
    a transform that training lacks, it is the line of this transform. None if neither chain lacks any.
    """
    try:
        chains = [_chains(setup, loader, position) for loader in (setup.train_loader, setup.val_loader)]
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    for train in chains[0]:
        for val in chains[1]:
            own, other = _without_common_source(val, train), _without_common_source(train, val)
            transforms, expected = Counter(_transforms(own)), Counter(_transforms(other))
            if extra := transforms - expected:
                return next((e.line for e in own if _transform(e) in extra), None)
            if expected - transforms:
                return _last_statement(own)
    return None


def _chains(setup: Setup, loader: Any, position: int) -> list[_Chain]:
    """Return the expressions from the data of a loader back to their source, for each choice that may have been."""
    start = find_part(setup, loader, position)
    return [*_extended([], start, setup, loader)][:_MAX_CHAINS] if start else []


def _extended(chain: _Chain, part: Part, setup: Setup, loader: Any) -> Iterator[_Chain]:
    """Yield the chains that start with some expressions and go on with a part."""
    steps = [*part_steps(*part, passes_conversions=True)]
    chain, (end, position) = [*chain, *(step for step, _ in steps)], steps[-1]
    sources: list[Part] = []
    if isinstance(end.node, ast.Name):
        sources = possible_assignments(end, position)
        passed = constructor_argument(setup, loader, end.node.id) if end.scope.function == "__init__" else None
        sources += [(passed, None)] if passed else []
    else:
        sources = [source for source in operands(end, position) if not isinstance(source[0].node, ast.Constant)][:1]
    if not sources or len(chain) > _MAX_DEPTH:
        yield chain
    for source in sources if len(chain) <= _MAX_DEPTH else ():
        yield from _extended(chain, source, setup, loader)


def _without_common_source(chain: _Chain, other: _Chain) -> _Chain:
    """Return a chain without the expressions at its end that are those of another chain."""
    end = 0
    while end < min(len(chain), len(other)) and chain[-1 - end].node is other[-1 - end].node:
        end += 1
    return chain[: len(chain) - end]


def _transforms(chain: _Chain) -> list[str]:
    return list(filter(None, map(_transform, chain)))


def _transform(expression: Expression) -> str:
    """Return what an expression does to data: the function that it calls, or its operator with the constants in it."""
    node = expression.node
    if isinstance(node, ast.BinOp):
        constants = [ast.unparse(side) for side in (node.left, node.right) if isinstance(side, ast.Constant)]
        return " ".join([type(node.op).__name__, *constants])
    name = call_name(node).removeprefix("fit_")
    return "" if name in _NO_TRANSFORMS or name[:1].isupper() else name


def _last_statement(chain: _Chain) -> SourceLine | None:
    """Return the first statement of a chain that assigns a variable, else its first expression outside of a class."""
    outside = [expression for expression in chain if expression.scope.function not in ("__getitem__", "__init__")]
    for expression in outside:
        if not isinstance(expression.node, ast.Name) and isinstance(covering_statement(expression.line), ast.Assign):
            return expression.line
    return outside[0].line if outside else None
