"""Parts of the model that were replaced after the optimizer was created, which still holds the old ones."""

from __future__ import annotations

import ast
import gc
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.creation import consistent_creations
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, enclosing_scope, search_files, walk


@dataclass(frozen=True)
class ReplacedPart:
    """The tensors of an optimizer that are in no module, and the lines that created it and then replaced the part.

    The lines are None if the source does not show one such pair.
    """

    tensors: tuple[Tensor, ...]
    creation: SourceLine | None = None
    replacement: SourceLine | None = None


def find_replaced_part(setup: Setup, module: str, entries: Sequence[ParameterEntry]) -> ReplacedPart | None:
    """Return what an optimizer holds of the earlier part at the path of a module; None if there was none.

    ``entries`` are the parameters of the part, which no optimizer holds. A tensor of the earlier part is in no module
    that still exists, and one of those with several axes shares the length of an axis with one of the part.
    """
    own = {id(parameter) for parameter in setup.eager_model.parameters()}
    foreign = [tensor for tensor in optimized_parameters(*setup.optimizers) if id(tensor) not in own]
    if not foreign:
        return None
    housed = {id(p) for kept in gc.get_objects() if issubclass(type(kept), nn.Module) for p in _own_parameters(kept)}
    orphans = [tensor for tensor in foreign if id(tensor) not in housed]
    if not any(_has_shared_axis(entry.parameter, tensor) for entry in entries for tensor in orphans):
        return None
    holder = next(o for o in setup.optimizers if any(p is orphans[0] for p in optimized_parameters(o)))
    pairs = _replacements(setup, holder, module.rpartition(".")[2])
    return ReplacedPart(tuple(orphans), *(pairs[0] if len(pairs) == 1 else ()))


def _own_parameters(module: nn.Module) -> Sequence[Tensor]:
    return [p for p in module.__dict__.get("_parameters", {}).values() if p is not None]


def _has_shared_axis(parameter: Tensor, tensor: Tensor) -> bool:
    pairs = zip(parameter.shape, tensor.shape, strict=False)
    return 1 < parameter.dim() == tensor.dim() and any(own == other > 1 for own, other in pairs)


def _replacements(
    setup: Setup, optimizer: torch.optim.Optimizer, attribute: str
) -> list[tuple[SourceLine, SourceLine]]:
    """Return the lines that can have created an optimizer, each with the next that sets an attribute of another object.

    Both are in one function, file or cell.
    """
    pairs: list[tuple[SourceLine, SourceLine]] = []
    for creation in consistent_creations(optimizer, search_files(user_written_objects(setup))):
        scope = enclosing_scope(creation.line)
        name = scope.name if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
        lines = [
            SourceLine(creation.file, node.lineno, name)
            for node in walk(scope)
            if isinstance(node, ast.Assign) and node.lineno > (creation.call.end_lineno or creation.call.lineno)
            if any(_is_part(target, attribute) for target in assignment_targets(node))
        ]
        own = [line for line in lines if enclosing_scope(line) is scope]
        if own:
            pairs.append(
                (SourceLine(creation.file, creation.call.lineno, name), min(own, key=lambda line: line.number))
            )
    return pairs


def _is_part(target: ast.expr, attribute: str) -> bool:
    """Check whether a target is an attribute of another object than ``self``, or the item with that number."""
    if isinstance(target, ast.Attribute):
        return target.attr == attribute and getattr(target.value, "id", "") != "self"
    return isinstance(target, ast.Subscript) and ast.unparse(target.slice).strip("'\"") == attribute
