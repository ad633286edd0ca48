"""Metrics that cannot measure what they claim, read from the source around the forward passes of a loop."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from torch import Tensor

from nbdebug.loop_monitor.modes import ForwardPasses
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    SourceScope,
    assigned_names,
    call_name,
    call_subject,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    may_be_skipped,
    read_names,
    scope_nodes,
)

# These calls keep the shape and the position of the largest value.
_ORDER_PRESERVING_CALLS = {"softmax", "log_softmax", "sigmoid", "detach", "cpu", "float", "contiguous", "exp"}
_LIBRARY_NAMES = {"torch", "F", "np", "nn", "math"}
_REDUCTIONS = {"sum", "mean"}
_SHAPE_TEST = re.compile(r"shape|size|dim|class|binary|task|column", re.IGNORECASE)
_SCORE_SUFFIXES = ("score", "accuracy", "error", "accuracy_fn")


@dataclass(frozen=True)
class _ModelOutputExpressions:
    """The model output in a function that calls the model at some lines."""

    scope: SourceScope
    lines: frozenset[int]

    def is_held_by(self, value: ast.AST) -> bool:
        """Check whether an expression is the output, possibly through calls that keep its shape and order."""
        while True:
            if isinstance(value, ast.Name):
                return value.id in self.names
            if isinstance(value, ast.Attribute) and value.attr in ("data", "logits"):
                value = value.value
            elif (
                isinstance(value, ast.Call)
                and call_name(value) in _ORDER_PRESERVING_CALLS
                and (inner := call_subject(value)) is not None
            ):
                value = inner
            else:
                return self.is_model_call(value)

    @property
    def names(self) -> set[str]:
        """Names that hold the output and are never assigned anything else."""
        assignments = [
            node for node in scope_nodes(self.scope) if isinstance(node, ast.Assign) and self.is_model_call(node.value)
        ]
        assigned_lines = [
            (target.id, node.lineno) for node in assignments for target in node.targets if isinstance(target, ast.Name)
        ]
        stores = [n for n in scope_nodes(self.scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return {
            name
            for name, _ in assigned_lines
            if all((name, n.lineno) in assigned_lines for n in stores if n.id == name)
        }

    def is_model_call(self, value: ast.AST) -> bool:
        """Check whether an expression is the call of the model: the innermost user call at those lines."""
        inner_nodes = (node for node in ast.walk(value) if node is not value)
        return self.is_user_call(value) and not any(map(self.is_user_call, inner_nodes))

    def is_user_call(self, value: ast.AST) -> bool:
        """Check whether an expression is a call at those lines of neither torch nor a Python builtin."""
        name = call_name(value)
        if (
            not isinstance(value, ast.Call)
            or name in _ORDER_PRESERVING_CALLS
            or hasattr(Tensor, name)
            or hasattr(builtins, name)
        ):
            return False
        owner = value.func.value if isinstance(value.func, ast.Attribute) else None
        of_torch = isinstance(owner, ast.Name) and owner.id in _LIBRARY_NAMES
        return not of_torch and any(covers_line(value, number) for number in self.lines)


@dataclass(frozen=True)
class DegenerateMetric:
    """A degenerate metric: the problem in words, the code to write, and whether it measures the model at all."""

    line: SourceLine
    problem: str
    fix: str
    measures_model: bool = True
    decision: str = ""  # the call that computes the prediction of a class along an axis of one value


def find_degenerate_metrics(forward_passes: ForwardPasses) -> Iterator[DegenerateMetric]:
    """Yield the degenerate metrics in the functions that call the model."""
    for line in forward_passes.calls:
        scope = enclosing_scope(line)
        if scope is not None:
            if forward_passes.shape is not None:
                output = _ModelOutputExpressions(
                    scope,
                    frozenset(call_line.number for call_line in forward_passes.calls if call_line.file == line.file),
                )
                yield from _argmax_over_single_column(scope, line, output, forward_passes.shape)
                yield from _equality_of_raw_output(scope, line, output)
            yield from _score_against_itself(scope, line)
            yield from _stale_training_value(scope, line)
            yield from _aliased_weight(scope, line)


def _argmax_over_single_column(
    scope: SourceScope, line: SourceLine, output: _ModelOutputExpressions, shape: tuple[int, ...]
) -> Iterator[DegenerateMetric]:
    """Yield each ``argmax`` over an axis of size 1, which is always 0."""
    for node in scope_nodes(scope):
        if not isinstance(node, ast.Call) or call_name(node) != "argmax":
            continue
        axis, scores = _argmax_axis(node), call_subject(node)
        if axis is None or not -len(shape) <= axis < len(shape) or shape[axis] != 1 or scores is None:
            continue
        is_conditional = _is_chosen_by_shape(scope, node) or may_be_skipped(
            scope, node, ast.unparse(scores), line.number
        )
        if output.is_held_by(scores) and not is_conditional:
            yield DegenerateMetric(
                SourceLine(line.file, node.lineno),
                f"argmax runs over an axis of one value (the output has shape {shape}), so each prediction is class 0",
                "predicted = (output.squeeze(1) > 0).long()   # of a logit; > 0.5 of a probability",
                decision="argmax",
            )


def _is_chosen_by_shape(scope: SourceScope, node: ast.Call) -> bool:
    """Check whether a call is in a branch on the shape or kind of the output, as in ``if output.shape[1] > 1``."""
    choices = [branch for branch in scope_nodes(scope) if isinstance(branch, (ast.If, ast.IfExp)) and branch.orelse]
    enclosing = [branch for branch in choices if any(node_in_branch is node for node_in_branch in ast.walk(branch))]
    return any(_SHAPE_TEST.search(ast.unparse(branch.test)) for branch in enclosing)


def _argmax_axis(call: ast.Call) -> int | None:
    """Return the axis argument of an ``argmax`` call if it is a literal."""
    arguments = [keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis")]
    position = 0 if call_subject(call) is not (call.args[0] if call.args else None) else 1
    arguments += call.args[position : position + 1]
    try:
        value = ast.literal_eval(arguments[0]) if arguments else None
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _equality_of_raw_output(
    scope: SourceScope, line: SourceLine, output: _ModelOutputExpressions
) -> Iterator[DegenerateMetric]:
    """Yield each comparison of the raw real-valued output by ``==``."""
    for node in _averaged_comparisons(scope):
        sides = (node.left, node.comparators[0])
        if any(output.is_held_by(side) for side in sides):
            yield DegenerateMetric(
                SourceLine(line.file, node.lineno),
                "the raw real-valued output is compared with the target by ==, which is never true",
                "predicted = output.argmax(1)   # of several logits; (output > 0) of one",
            )


def _score_against_itself(scope: SourceScope, line: SourceLine) -> Iterator[DegenerateMetric]:
    """Yield each score of a tensor against itself."""
    pairs = [(node, node.left, node.comparators[0]) for node in _averaged_comparisons(scope)]
    for node in scope_nodes(scope):
        if isinstance(node, ast.Call) and call_name(node).endswith(_SCORE_SUFFIXES) and len(node.args) > 1:
            pairs.append((node, node.args[0], node.args[1]))  # type: ignore[arg-type]
    for node, first, second in pairs:
        if isinstance(first, (ast.Name, ast.Attribute)) and ast.dump(first) == ast.dump(second):
            yield DegenerateMetric(
                SourceLine(line.file, node.lineno),
                f"{ast.unparse(first)} is compared with itself, which is always equal",
                "(predicted == target).float().mean()",
            )


def _averaged_comparisons(scope: SourceScope) -> Iterator[ast.Compare]:
    """Return every ``==`` whose result is summed or averaged, as in an accuracy."""
    reductions = [node for node in scope_nodes(scope) if isinstance(node, ast.Call) and call_name(node) in _REDUCTIONS]
    comparison_by_id = {
        id(comparison): comparison for call in reductions for comparison in _comparison_in_chain(call_subject(call))
    }
    return (
        comparison
        for comparison in comparison_by_id.values()
        if len(comparison.ops) == 1 and isinstance(comparison.ops[0], ast.Eq)
    )


def _comparison_in_chain(node: ast.AST | None) -> Iterator[ast.Compare]:
    """Yield the comparison that a chain of methods is called on, if there is one."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = call_subject(node) if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Compare):
        yield node


def _stale_training_value(scope: SourceScope, line: SourceLine) -> Iterator[DegenerateMetric]:
    """Yield each value of the training loop that a loop without a backward pass adds repeatedly."""
    loops = [*takewhile(lambda loop: not _has_backward(loop), enclosing_loops(scope, line.number))]
    if not loops:
        return
    assigned_here = {name for loop in loops for name in assigned_names(loop)}
    training_names = {name for node in scope_nodes(scope) if call_name(node) == "backward" for name in read_names(node)}
    assigned_elsewhere = {
        name for node in scope_nodes(scope) if isinstance(node, ast.For) for name in assigned_names(node)
    } - assigned_here
    for node in ast.walk(loops[0]):
        if isinstance(node, ast.AugAssign) and (
            stale_names := read_names(node.value) & training_names & assigned_elsewhere
        ):
            name = stale_names.pop()
            yield DegenerateMetric(
                SourceLine(line.file, node.lineno),
                f"{name} is not computed in this loop: the last value from training is added repeatedly",
                f"{name} = loss_fn(model(x), y)   # in this loop, before it is added",
            )


def _has_backward(node: ast.AST) -> bool:
    return any(call_name(part) == "backward" for part in ast.walk(node))


def _aliased_weight(scope: SourceScope, line: SourceLine) -> Iterator[DegenerateMetric]:
    """Yield each weight that is stored without a copy and later compared with itself."""
    stored_weights: dict[str, str] = {}
    for node in scope_nodes(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_weight_expression(node.value):
            stored_weights[node.targets[0].id] = ast.dump(node.value)
    for node in scope_nodes(scope):
        sides = _compared_operands(node)
        for side, other in (sides, sides[::-1]):
            if isinstance(side, ast.Name) and other is not None and stored_weights.get(side.id) == ast.dump(other):
                yield DegenerateMetric(
                    SourceLine(line.file, node.lineno),  # type: ignore[attr-defined]
                    f"{side.id} shares memory with {ast.unparse(other)} instead of copying it, so they never differ",
                    f"{side.id} = {ast.unparse(other)}.clone()",
                    measures_model=False,
                )


def _compared_operands(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return node.left, node.right
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return node.left, node.comparators[0]
    return None, None


def _is_weight_expression(value: ast.expr) -> bool:
    """Check whether an expression is the ``weight`` or ``bias`` of something, also by ``.data`` or ``.detach()``."""
    while isinstance(value, ast.Attribute) and value.attr == "data":
        value = value.value
    if isinstance(value, ast.Call) and call_name(value) == "detach" and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return isinstance(value, ast.Attribute) and value.attr in ("weight", "bias")
