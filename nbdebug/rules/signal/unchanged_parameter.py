"""G414: a parameter in the optimizer does not change although it has a gradient."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.records import Record
from nbdebug.records.layer_signals import get_layer_signal
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import assigned_names, read_names, search_files, syntax_tree

_MOMENTUM_GAIN = 10.0  # a momentum of 0.9 sums ten gradients


@rule("G414", "error")
def unchanged_parameter(
    setup: Setup,
    parameters: list[ParameterEntry],
    loop: LoopSummary | NotChecked,
    record: Record | NotChecked,
    *,
    least: int = 5,
) -> Iterator[Finding]:
    """A parameter in the optimizer has a gradient at every step but does not change.

    ## What it does
    Tracks, in your own loop, which parameters have a nonzero gradient and which have changed.

    ## Why it matters
    Its updates are lost: written to a copy, rounded away, or reverted by other code. The rest of the model compensates,
    so the loss decreases and nothing looks wrong.

    ## How it is measured
    Exactly: by sum and sum of squares in double precision, at the start, after eight steps and at the end. At least
    ``least`` = 5 inspected steps are needed, each with a gradient. Groups with a learning rate of zero are not checked,
    and neither is a loop that never steps (O506), nor a parameter whose gradients, times rate and momentum, are below
    the spacing of its values: such a gradient is rounding, as that of a bias before a normalization. For a loop that
    was only recorded: steps of exactly zero in all snapshots, and the same norm, mean and standard deviation in each of
    them.

    ## How to fix
    Change the parameter itself, in place: ``p.add_(...)`` under ``no_grad``; not a reshaped or cast copy of it.

    ## When to ignore
    When the weight is reset on purpose after each step.

    ## References
    Documentation of torch.Tensor.reshape: it returns a view if possible, and otherwise a copy.
    """
    changes = _unchanged_in_loop(loop, least) if isinstance(loop, LoopSummary) else _unchanged_in_record(record, least)
    unchanged = [
        entry
        for entry in parameters
        if entry.name in changes.names
        and _highest_rate(setup, entry) > 0
        and not _is_rounded_away(setup, record, entry)
    ]
    if unchanged:
        is_strided = not any(entry.parameter.is_contiguous() for entry in unchanged)
        code = "\n".join(_contiguous_code(entry.name) for entry in unchanged)
        cause, fix = (_STRIDED, code) if is_strided else _OTHER_CAUSES
        yield Finding(
            message=f"{format_names(unchanged)} had a gradient in each of {changes.inspected_steps} inspected steps "
            f"but did not change in {changes.steps} steps; {changes.changed_count} other parameters did.",
            where=get_location(_rebinding_line(setup), unchanged[0].module or None, unchanged[0].name),
            cause=cause,
            fix=fix,
            setup_fix=code if is_strided else "",
            evidence={
                "parameters": [entry.name for entry in unchanged],
                "looks": changes.inspected_steps,
                "steps": changes.steps,
            },
            explains=("G409", "T601", "T606", "T608", "E709", "O502", "T610", "T614"),
        )


_IN_PLACE = "with torch.no_grad():\n    p.add_(update.view_as(p))   # in place, on p itself, not on p.reshape(-1)"
_OTHER_CAUSES = ("The optimizer writes its update to another tensor, or other code reverts it.", _IN_PLACE)
_STRIDED = (
    "The parameter is not contiguous, so that reshape() and contiguous() copy it, and the optimizer changes the copy."
)


def _contiguous_code(name: str) -> str:
    return f"p = model.get_parameter({name!r})\np.data = p.data.contiguous()"


def _rebinding_line(setup: Setup) -> SourceLine | None:
    """Return the only line of the user's code that assigns a step to a variable instead of changing its tensor."""
    lines = {
        SourceLine(file, node.lineno)
        for file in search_files(user_written_objects(setup))
        for node in _rebindings(syntax_tree(file) or ast.Module([], []))
    }
    return lines.pop() if len(lines) == 1 else None


def _rebindings(tree: ast.Module) -> Iterator[ast.Assign]:
    """Yield assignments such as ``p = p - rate * p.grad``, and those of the variable of a loop, ``p = p - step``."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    for scope in (tree, *loops):
        variables = assigned_names(scope.target) if isinstance(scope, ast.For) else set()
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and len(node.targets) == 1:
                name, parts = getattr(node.targets[0], "id", ""), ast.walk(node.value)
                reads_gradient = any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in parts)
                if name in read_names(node.value) and (reads_gradient or name in variables):
                    yield node


@dataclass(frozen=True)
class UnchangedParameters:
    """The parameters that had a gradient in every inspected step but did not change, and how many others did."""

    names: frozenset[str]
    changed_count: int
    inspected_steps: int
    steps: int


def _unchanged_in_loop(loop: LoopSummary, min_steps: int) -> UnchangedParameters:
    """Read a watched loop. Raises NotChecked for too few steps."""
    if loop.gradient_checks < min_steps or not loop.steps:
        raise NotChecked(
            f"only {loop.gradient_checks} steps of your loop were inspected; at least {min_steps} are needed"
        )
    if loop.cleared_after_backward:
        raise NotChecked("gradients were cleared before the steps; O506 covers this")
    return UnchangedParameters(
        loop.always_with_gradient - loop.changed, len(loop.changed), loop.gradient_checks, loop.steps
    )


def _unchanged_in_record(record: Record | NotChecked, min_steps: int) -> UnchangedParameters:
    """Read the snapshots of a record. Raises NotChecked if there are too few."""
    if isinstance(record, NotChecked):
        raise record
    gradients = get_layer_signal(record, "gradient.norm", min_snapshots=min_steps)
    names = np.array(gradients.names)
    with np.errstate(invalid="ignore"):
        has_gradient = (np.nan_to_num(gradients.values) > 0).all(0) & np.isfinite(gradients.values).all(0)
        is_unchanged = ~(get_layer_signal(record, "update.norm", names, min_steps).values > 0).any(0)
    for statistic in ("norm", "mean", "std"):
        is_unchanged &= np.ptp(get_layer_signal(record, f"weight.{statistic}", names, min_steps).values, axis=0) == 0
    return UnchangedParameters(
        frozenset(names[has_gradient & is_unchanged].tolist()),
        int((~is_unchanged).sum()),
        len(gradients.steps),
        record.steps,
    )


def _is_rounded_away(setup: Setup, record: Record | NotChecked, entry: ParameterEntry) -> bool:
    """Return whether the steps that the gradients allow are smaller than the parameter's dtype can take.

    So it is for a bias before a normalization, whose gradient is the rounding error of a sum. Adam's steps do not
    depend on the size of the gradient.
    """
    if isinstance(record, NotChecked) or not entry.parameter.is_floating_point():
        return False
    norms = record.series("gradient.norm", entry.name)[1]
    norms = norms[np.isfinite(norms)]
    if not len(norms):
        return False
    spacing = torch.finfo(entry.parameter.dtype).eps * float(entry.parameter.detach().abs().float().median())
    gradient = float(np.median(norms)) / math.sqrt(max(entry.parameter.numel(), 1))  # of one value
    return _MOMENTUM_GAIN * _highest_rate(setup, entry) * gradient < spacing


def _highest_rate(setup: Setup, entry: ParameterEntry) -> float:
    """The highest learning rate of a parameter in any group that holds it; 1 if no rate is known."""
    groups = [setup.optimizers[i].param_groups[j] for i, j in entry.groups]
    return max((float(group.get("lr", 1.0)) for group in groups), default=0.0)


class FlattenedSGD(torch.optim.Optimizer):
    """Plain SGD on flattened parameters; ``reshape`` copies weights that are not contiguous."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update every parameter by -lr times its gradient; ``closure`` is ignored."""
        for group in self.param_groups:
            for p in group["params"]:
                p.reshape(-1).sub_(group["lr"] * p.grad.reshape(-1))


def _transposed_setup(is_contiguous: bool) -> Setup:
    """A network whose first weight is a transposed tensor."""
    model = network(3)
    layer: Any = model[0]
    weight = layer.weight.detach().t().contiguous().t()
    layer.weight = nn.Parameter(weight.contiguous() if is_contiguous else weight)
    return minimal_setup(
        model, *points(), nn.CrossEntropyLoss(), optimizers=(FlattenedSGD(model.parameters(), lr=0.1),)
    )


def _train_loop(setup: Setup) -> None:
    train(setup, 2)


def bad() -> Setup:
    """A weight that is not contiguous, so that the step changes a copy."""
    return _transposed_setup(is_contiguous=False)


def good() -> Setup:
    """A contiguous weight."""
    return _transposed_setup(is_contiguous=True)


bad_loop = good_loop = _train_loop
