"""Conclusions from a LoopSummary: disproved assumptions, and the line that retains graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.exceptions import NotChecked
from nbdebug.loop_monitor.summary import LoopSummary
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.records import Record
from nbdebug.source.location import SourceLine
from nbdebug.source.search import iterate_names, matches_call, syntax_tree

LOSS_RAISES, LOSS_OPERANDS_MISMATCH, LOSS_TARGETS_MISMATCH = (
    "the loss raises",
    "operands of the loss",
    "targets of the loss",
)
INPUTS_UNCHANGED = "the model receives the inputs as the loader yields them"
LABELS_UNRELATED = "labels are unrelated to the inputs"
INITIAL_SCALE_HINDERS = "the scale of the initial weights hinders training"
_RECOVERED_SHARE = 0.1  # of the loss of a constant prediction
_MIN_GAIN = 0.1  # of the validation score over that of the most frequent class
_STORING_METHODS = {"append", "add", "extend", "update", "put", "insert"}


def parameter_not_updated(parameter: str) -> str:
    """Return the assumption that no optimizer updates a parameter."""
    return f"{parameter} is not updated"


def parameter_not_reached(parameter: str) -> str:
    """Return the assumption that no loss reaches a parameter."""
    return f"{parameter} is not reached"


def disproved_assumptions(summary: LoopSummary, record: Record) -> frozenset[str]:
    """Return the assumptions that the loop has disproved.

    A loop may reshape outputs, use other targets, pass arguments or step optimizers that the setup does not show.
    """
    assumptions = {parameter_not_updated(name) for name in summary.changed | summary.never_with_gradient} | {
        parameter_not_reached(name) for name in summary.with_gradient
    }
    if summary.backward_passes:
        assumptions.add(LOSS_RAISES)
    operands = summary.loss_operands
    if operands and not operands.broadcast and (operands.is_float_target or operands.kind in ("cross-entropy", "nll")):
        assumptions.add(LOSS_OPERANDS_MISMATCH)
    if operands and operands.is_unit_target and operands.kind in ("bce", "bce-with-logits"):
        assumptions.add(LOSS_TARGETS_MISMATCH)
    if summary.batch_alignment.changed_inputs is not None and not summary.batch_alignment.receives_unchanged_inputs:
        assumptions.add(INPUTS_UNCHANGED)
    if _beats_majority_class(record):
        assumptions.add(LABELS_UNRELATED)
    if _has_learned_well(record):
        assumptions.add(INITIAL_SCALE_HINDERS)
    return frozenset(assumptions)


def _beats_majority_class(record: Record) -> bool:
    """Check whether the score on the fixed validation samples exceeds that of the most frequent class."""
    try:
        summary = get_run_summary(record)
    except NotChecked:
        return False
    score, majority_score = summary.val.last_score, summary.majority
    return (
        score is not None and majority_score is not None and majority_score > 0 and score > majority_score + _MIN_GAIN
    )


def _has_learned_well(record: Record) -> bool:
    """Check whether hardly any of the loss of a constant prediction is left."""
    try:
        summary = get_run_summary(record)
    except NotChecked:
        return False
    share = summary.remaining_share
    return summary.has_converged or (share is not None and share < _RECOVERED_SHARE)


def graph_retaining_line(summary: LoopSummary) -> tuple[str, SourceLine] | None:
    """Return what keeps losses or outputs alive, and the line; None if no line can be identified.

    Searches the file or cell of the backward pass for a name that ``backward`` is called on, or that is assigned from
    a call, and that is added to, put into or stored in something without being detached.
    """
    backward_line = summary.lines.get("backward") or summary.forward_passes.lines.get("forward")
    tree = syntax_tree(backward_line.file) if backward_line else None
    if backward_line is None or tree is None:
        return None
    losses = {
        name for node in ast.walk(tree) if matches_call("backward")(node) for name in _names_in_method_owner(node)
    }
    for names in (losses, _names_assigned_from_calls(tree)):
        lines = (node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr)))
        matches = [(node.lineno, target) for node in lines for target in [_storing_target(node, names)] if target]
        if matches:
            number, target = min(matches, key=lambda match: abs(match[0] - backward_line.number))
            return target, SourceLine(backward_line.file, number)
    return None


def _names_in_method_owner(node: ast.AST) -> Iterator[str]:
    method = node.func if isinstance(node, ast.Call) else None
    return iterate_names(method.value) if isinstance(method, ast.Attribute) else iter(())


def _names_assigned_from_calls(tree: ast.AST) -> set[str]:
    """Return the names that are assigned the result of a call."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return {target.id for node in nodes for target in node.targets if isinstance(target, ast.Name)}


def _storing_target(node: ast.AST, names: set[str]) -> str | None:
    """Return the target in which a statement or call stores one of some names; None if it stores none."""
    if isinstance(node, ast.AugAssign) and _holds_undetached(node.value, names):
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        target = ast.unparse(node.targets[0])
        sides = {ast.unparse(node.value.left), ast.unparse(node.value.right)}
        return target if target in sides and _holds_undetached(node.value, names - {target}) else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return ast.unparse(node.targets[0].value) if _holds_undetached(node.value, names) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _STORING_METHODS:
        return (
            ast.unparse(node.func.value) if any(_holds_undetached(argument, names) for argument in node.args) else None
        )
    return None


def _holds_undetached(value: ast.AST, names: set[str]) -> bool:
    """Check whether an expression contains one of some names, through arithmetic or containers but not calls."""
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, (ast.BinOp, ast.Tuple, ast.List, ast.Dict)):
        return any(_holds_undetached(child, names) for child in ast.iter_child_nodes(value))
    return False
