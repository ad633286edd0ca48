"""Outputs of repeated layers of which only the last one reaches the loss, as in a loop that assigns them again."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.graph import build_graph
from nbdebug.exceptions import NotChecked
from nbdebug.hooks.module_hooks import hooked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine, get_line_from_frame
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MIN_CALLED = 3  # modules of the user's: the model and two layers
_LIBRARY = ("torch.", "torch_geometric.", "torchvision.")


@dataclass(frozen=True)
class OverwrittenOutputs:
    """The outputs at one ``position`` of ``calls`` calls of a layer, of which only the last reaches the loss.

    ``kind`` is the class of the layers. ``slope`` is the derivative of the loss by each value of the last one, which
    the loss adds up. ``variable`` is the name that receives the output at ``line``; "" if the source does not show it.
    """

    kind: str
    calls: int
    position: int
    slope: float
    line: SourceLine | None
    variable: str


@dataclass(frozen=True)
class _CallOfLayer:
    """One call of a layer: its class, the user's line, and its output tensors, each the result of its own operation."""

    kind: type[nn.Module]
    line: SourceLine | None
    outputs: list[Tensor]


@measurement
def overwritten_outputs(setup: Setup, first_pass: ForwardPass) -> OverwrittenOutputs | None:
    """An output that several layers have and that the loss adds up, but only for the last of these layers.

    The other outputs of all of these layers reach the loss. The first batch is passed again.
    """
    modules = {name: m for name, m in setup.eager_model.named_modules() if not _is_of_library(m)}
    counts = [count for name, count in first_pass.trace.call_counts.items() if name in modules]
    if first_pass.loss is None or (len(counts) < _MIN_CALLED and max(counts, default=0) < 2):
        return None
    calls: list[_CallOfLayer] = []

    def hook(module: nn.Module, _: Any, output: Any) -> Any:
        if len(tree_tensors(output)) < 2:
            return output
        marked = tree_map(output, _mark)
        calls.append(_CallOfLayer(type(module), get_line_from_frame(sys._getframe(1)), tree_tensors(marked)))
        return marked

    try:
        with Preserve(*setup.mutable_objects), torch.enable_grad(), hooked(dict.fromkeys(modules.values(), hook)):
            seed_all(0)
            loss = setup.output_and_loss(first_pass.batch)[1]
    except Exception as failure:  # such as that of a layer whose outputs are changed in place
        raise NotChecked(f"the model does not run with its outputs marked: {failure}") from None
    return _find_overwritten(calls, loss)


def _is_of_library(module: nn.Module) -> bool:
    return type(module).__module__.startswith(_LIBRARY) or isinstance(module, torch.jit.ScriptModule)


def _mark(value: Any) -> Any:
    """Return the same values as the result of an operation of their own, which shows whether they are used."""
    return value.view_as(value) if isinstance(value, Tensor) and value.requires_grad else value


def _find_overwritten(calls: Sequence[_CallOfLayer], loss: Tensor) -> OverwrittenOutputs | None:
    """Return an output that is overwritten, by the calls at one line, or else by those of one class.

    A layer may pass on the outputs of another one: they are lost by the outer call, which ends last.
    """
    reached = {node.function for node in build_graph(loss.grad_fn, []).nodes}
    lines = [[call for call in calls if call.line == line] for line in dict.fromkeys(c.line for c in calls) if line]
    kinds = [[call for call in calls if call.kind is kind] for kind in dict.fromkeys(c.kind for c in calls)]
    groups = [group for group in (*kinds, *lines) if len(group) > 1 and len({len(c.outputs) for c in group}) == 1]
    found = (_judge(group, reached, loss) for group in reversed(groups))
    return next(filter(None, found), None)


def _judge(group: Sequence[_CallOfLayer], reached: set[Any], loss: Tensor) -> OverwrittenOutputs | None:
    """Return the output that only the last of some calls passes on to the loss."""
    uses = [[output.grad_fn in reached for output in call.outputs] for call in group]
    if not any(map(all, zip(*uses, strict=True))):
        return None
    for position, is_used in enumerate(uses[-1]):
        earlier = [call.outputs[position] for call in group[:-1]]
        is_lost = all(output.requires_grad for output in earlier) and not any(use[position] for use in uses[:-1])
        if is_used and is_lost and (slope := _get_slope(loss, group[-1].outputs[position])):
            line = group[-1].line
            variable = _get_variable(line, position)
            return OverwrittenOutputs(group[-1].kind.__name__, len(group), position, slope, line, variable)
    return None


def _get_slope(loss: Tensor, output: Tensor) -> float:
    """Return the derivative of a loss by each value of an output, if it is the same constant for all; 0 otherwise.

    A loss reads a score or a hidden state in another way than a sum over layers, as of log-determinants or penalties.
    """
    (gradient,) = torch.autograd.grad(loss, output, create_graph=True, allow_unused=True)
    if gradient is None or gradient.requires_grad or not bool(gradient.isfinite().all()):
        return 0.0
    first = float(gradient.flatten()[0])
    return first if bool(torch.isclose(gradient, gradient.flatten()[0]).all()) else 0.0


def _get_variable(line: SourceLine | None, position: int) -> str:
    """Return the name that receives one of several outputs at a line."""
    statement = covering_statement(line) if line else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    names = target.elts if isinstance(target, ast.Tuple) else []
    name = names[position] if position < len(names) else None
    return name.id if isinstance(name, ast.Name) else ""
