"""Metrics averaged over batches or taken from the last batch only, read from the source of a loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    SourceScope,
    assigned_names,
    call_name,
    call_subject,
    enclosing_loops,
    enclosing_scope,
    expression_texts,
    may_be_skipped,
    read_names,
)

_WHOLE_SET_METRICS = re.compile(
    r"(binary_|multiclass_|multilabel_)?(f1|f1_score|fbeta_score|precision|precision_score|recall|recall_score|auc|"
    r"roc_auc_score|roc_auc|auroc|average_precision_score|average_precision|auprc|r2_score|explained_variance_score|"
    r"matthews_corrcoef|cohen_kappa_score|cohen_kappa|balanced_accuracy_score|root_mean_squared_error|pearsonr|"
    r"spearmanr|pearson_corrcoef|spearman_corrcoef|jaccard_score|corrcoef)"
)
_BATCH_MEAN_NAMES = re.compile(
    r"mean|criterion|accuracy|accuracy_score|\w*loss\w*|cross_entropy|binary_cross_entropy\w*"
)
_LOADER_NAMES = re.compile(r"load|batch|(?<![a-z])dl|dataiter", re.IGNORECASE)
_MEAN_FUNCTIONS = {"mean", "fmean", "average", "nanmean"}
_WEIGHT_ARGUMENTS = {"weights", "weight"}
_ITERATION_WRAPPERS = {"enumerate", "tqdm", "track", "islice", "iter"}
_MAX_RESOLUTION_DEPTH = 4
_AveragingKind = Literal["whole", "perplexity", "root", "means", "last", "count"]
_SCALAR_FUNCTIONS = {"item", "float", "sum", "mean"}


@dataclass(frozen=True)
class AveragedMetric:
    """A metric averaged over batches: its line, its name, and why the average differs from the metric on all rows.

    ``kind`` is "whole" for metrics that do not decompose into rows, such as F1; "perplexity" and "root" for a nonlinear
    function applied to each batch; "means" for batch means that are averaged with equal weight whatever the batch size;
    "last" if only the value of the last batch remains; "count" for a number of rows that is divided by that of batches.
    """

    line: SourceLine
    kind: _AveragingKind
    metric: str
    call: ast.Call | None = field(default=None, compare=False)

    @property
    def fix(self) -> str | None:
        """The statements that collect the two arguments of the metric and compute it once; None without such a call."""
        if self.call is None or len(self.call.args) < 2:
            return None
        first, second = (ast.unparse(argument) for argument in self.call.args[:2])
        options = [ast.unparse(argument) for argument in self.call.args[2:]]
        options += [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in self.call.keywords if keyword.arg]
        arguments = ", ".join(["all_first", "all_second", *options])
        return (
            f"first.append({first}); second.append({second})   # in the loop; after it, once: concatenate both, and "
            f"{ast.unparse(self.call.func)}({arguments})"
        )


def averaged_metrics(line: SourceLine, is_loader_known: bool = False) -> Iterator[AveragedMetric]:
    """Yield the metrics that the innermost loop around a forward pass averages; none for a loop that trains.

    Unless ``is_loader_known``, the loop must name what it iterates over like a loader or batches.
    """
    scope = enclosing_scope(line)
    loops = enclosing_loops(scope, line.number) if scope is not None else []
    if scope is None or not loops or not (is_loader_known or _names_a_loader(loops[0])):
        return
    if any(call_name(node) == "backward" for node in ast.walk(loops[0])):
        return
    evaluation_loop = _EvaluationLoop(scope, loops[0])
    for node, target, value in evaluation_loop.accumulations():
        parts = evaluation_loop.resolve(value)
        if kind := _averaging_kind(parts, value, evaluation_loop, target):
            call = _whole_set_call(parts) if kind == "whole" else None
            is_list_of_means = kind == "means" and isinstance(node, ast.Call)
            place = next(evaluation_loop.means_over_batches(target)) if is_list_of_means else node
            yield AveragedMetric(SourceLine(line.file, place.lineno), kind, _metric_name(kind, call), call)


def accumulation_lines(line: SourceLine) -> Iterator[int]:
    """Yield the number of each line that adds up or collects values in the innermost loop around a line."""
    scope = enclosing_scope(line)
    loops = enclosing_loops(scope, line.number) if scope is not None else []
    if scope is not None and loops:
        yield from (node.lineno for node, _, _ in _EvaluationLoop(scope, loops[0]).accumulations())


def accumulation_line(name: str, line: SourceLine) -> SourceLine | None:
    """Return the line that adds to a variable, or to a part of one, in the innermost loop around a line."""
    scope = enclosing_scope(line)
    loops = enclosing_loops(scope, line.number) if scope is not None else []
    if scope is None or not loops:
        return None
    numbers = [node.lineno for node, target, _ in _EvaluationLoop(scope, loops[0]).accumulations() if target == name]
    return SourceLine(line.file, numbers[0], line.function) if numbers else None


def counts_over_batches(name: str, line: SourceLine) -> Iterator[AveragedMetric]:
    """Yield each division of a variable, which counts rows in the loop around a line, by the number of batches."""
    scope = enclosing_scope(line)
    for loop in enclosing_loops(scope, line.number) if scope is not None else ():
        assert scope is not None
        evaluation_loop = _EvaluationLoop(scope, loop)
        batch_counts = evaluation_loop.batch_counts(name)
        divided_again = {id(node.left) for node in ast.walk(scope) if is_division(node)}
        for node in ast.walk(scope):
            if is_division(node) and id(node) not in divided_again and evaluation_loop.is_always_divided(node, name):
                has_product = any(isinstance(part, ast.BinOp) for part in ast.walk(node.right))
                if batch_counts & expression_texts(node.right) and not has_product:
                    yield AveragedMetric(SourceLine(line.file, node.lineno), "count", name)


def is_division(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Check whether an expression divides two others."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


@dataclass(frozen=True)
class _EvaluationLoop:
    """A loop over batches and the function around it."""

    scope: SourceScope
    loop: ast.For

    def accumulations(self) -> Iterator[tuple[ast.stmt | ast.expr, str, ast.expr]]:
        """Yield each accumulation in the loop: its node, the target as text, and the added value."""
        for node in ast.walk(self.loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                yield node, ast.unparse(node.target), node.value
            elif isinstance(node, ast.Call) and call_name(node) == "append" and len(node.args) == 1:
                if isinstance(node.func, ast.Attribute):
                    yield node, ast.unparse(node.func.value), node.args[0]
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                target, left_operand = ast.unparse(node.targets[0]), ast.unparse(node.value.left)
                if isinstance(node.value.op, ast.Add) and target == left_operand:
                    yield node, target, node.value.right

    def resolve(self, value: ast.expr) -> list[ast.AST]:
        """Return the nodes of an expression and of the values that the loop assigns to its names, recursively."""
        assigned_values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.loop):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned_values.setdefault(node.targets[0].id, []).append(node.value)
        nodes, pending, resolved_names = list[ast.AST](), [value], set[str]()
        for _ in range(_MAX_RESOLUTION_DEPTH):
            new_nodes = [part for expression in pending for part in ast.walk(expression)]
            nodes += new_nodes
            names = {
                expression.id
                for expression in new_nodes
                if isinstance(expression, ast.Name) and isinstance(expression.ctx, ast.Load)
            } - resolved_names
            resolved_names |= names
            pending = [
                expression
                for name in sorted(names)
                for expression in assigned_values.get(name, ())
                if not self.is_forward_pass(expression)
            ]
        return nodes

    def is_forward_pass(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and call_name(value) in ("model", "net", "forward")

    def divisors(self, target: str) -> Iterator[ast.expr]:
        for node in ast.walk(self.scope):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and self.is_always_divided(node, target):
                yield node.right
            is_division = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div)
            if isinstance(node, ast.AugAssign) and is_division and ast.unparse(node.target) == target:
                yield node.value

    def is_always_divided(self, node: ast.BinOp, target: str) -> bool:
        return _mentions(node.left, target) and not may_be_skipped(self.scope, node, target, self.loop.lineno)

    def is_averaged(self, target: str) -> bool:
        """Check whether a sum is divided by anything, or the mean of a list is taken."""
        return any(True for _ in (*self.divisors(target), *self.mean_calls(target)))

    def mean_calls(self, target: str, weighted: bool = True) -> Iterator[ast.expr]:
        calls = (
            node for node in ast.walk(self.scope) if call_name(node) in _MEAN_FUNCTIONS and isinstance(node, ast.Call)
        )
        calls = (
            call for call in calls if weighted or not (_WEIGHT_ARGUMENTS & {keyword.arg for keyword in call.keywords})
        )
        return (
            call
            for call in calls
            if (averaged_value := _argument_or_owner(call)) is not None
            and _mentions(averaged_value, target)
            and not may_be_skipped(self.scope, call, target, self.loop.lineno)
        )

    def means_over_batches(self, target: str) -> Iterator[ast.expr]:
        """Yield the divisors and calls that average a sum or a list over the batches on every branch."""
        batch_counts = self.batch_counts(target)
        yield from (divisor for divisor in self.divisors(target) if batch_counts & expression_texts(divisor))
        yield from self.mean_calls(target, weighted=False)

    def batch_counts(self, target: str) -> set[str]:
        """Return the expressions for the number of batches, as text."""
        counters = {
            ast.unparse(node.target)
            for node in ast.walk(self.loop)
            if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant) and node.value.value == 1
        }
        source = ast.unparse(_iterated_value(self.loop.iter))
        return {f"len({source})", f"len({target})", *counters}


def _averaging_kind(
    parts: list[ast.AST], value: ast.expr, evaluation_loop: _EvaluationLoop, target: str
) -> _AveragingKind | None:
    """Return why the accumulated value differs from the metric on all rows; None if it does not."""
    if not evaluation_loop.is_averaged(target):
        return None
    names = [call_name(node) for node in parts]
    if any(_WHOLE_SET_METRICS.fullmatch(name) for name in names):
        return "whole"
    if _has_nonlinear_mean(parts, "exp", ("cross_entropy", "loss", "criterion")):
        return "perplexity"
    if _has_nonlinear_mean(parts, "sqrt", ("mse_loss", "criterion", "loss_fn", "mean")):
        return "root"
    is_averaged_over_batches = any(True for _ in evaluation_loop.means_over_batches(target))
    return "means" if _is_batch_mean(parts, value) and is_averaged_over_batches else None


def _has_nonlinear_mean(parts: list[ast.AST], function: str, inner: tuple[str, ...]) -> bool:
    """Check whether ``exp`` or ``sqrt`` is applied to a batch mean."""
    for node in parts:
        if (
            isinstance(node, ast.Call)
            and call_name(node) == function
            and (argument := _argument_or_owner(node)) is not None
        ):
            calls = [inner_node for inner_node in ast.walk(argument) if isinstance(inner_node, ast.Call)]
            names = {inner_node.id for inner_node in ast.walk(argument) if isinstance(inner_node, ast.Name)}
            means = [
                inner_node
                for inner_node in calls
                if call_name(inner_node) in inner and not (call_name(inner_node) == "mean" and inner_node.args)
            ]
            if means or (function == "exp" and any("loss" in name or name in ("ce", "nll") for name in names)):
                return True
    return False


def _is_batch_mean(parts: list[ast.AST], value: ast.expr) -> bool:
    """Check whether a value is a batch mean that is not multiplied by the batch size."""
    if any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) for node in ast.walk(value)):
        return False
    if any(_scales_by_batch_size(node, ast.Mult) for node in parts):
        return False
    names = {call_name(node) for node in parts}
    if names & {"sum", "tolist", "numpy", "cat"}:
        return any(_scales_by_batch_size(node, ast.Div) for node in parts)
    return any(_BATCH_MEAN_NAMES.fullmatch(name) for name in names)


def _scales_by_batch_size(node: ast.AST, operation: type[ast.operator]) -> bool:
    """Check whether a value is divided or multiplied by the number of rows of a batch."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, operation):
        return False
    sides = (node.right, node.left) if operation is ast.Mult else (node.right,)
    operands = (operand for side in sides for operand in ast.walk(side))
    return any(
        call_name(operand) in ("len", "size", "numel") or getattr(operand, "attr", "") == "shape"
        for operand in operands
    )


def _whole_set_call(parts: list[ast.AST]) -> ast.Call | None:
    calls = (node for node in parts if isinstance(node, ast.Call))
    return next((call for call in calls if _WHOLE_SET_METRICS.fullmatch(call_name(call))), None)


def _metric_name(kind: _AveragingKind, call: ast.Call | None) -> str:
    if call is not None:
        return call_name(call)
    return {"perplexity": "the exponential of a loss", "root": "the root of a mean"}.get(kind, "a mean")


def _names_a_loader(loop: ast.For) -> bool:
    return _LOADER_NAMES.search(ast.unparse(_iterated_value(loop.iter))) is not None


def _iterated_value(value: ast.expr) -> ast.expr:
    """Return what a loop iterates over, without ``enumerate`` and progress bars."""
    while isinstance(value, ast.Call) and call_name(value) in _ITERATION_WRAPPERS and value.args:
        value = value.args[0]
    return value


def _argument_or_owner(call: ast.Call) -> ast.expr | None:
    """Return the object or first argument of a call; also knows ``math``, ``statistics`` and ``numpy``."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id in ("math", "statistics", "numpy"):
        return call.args[0] if call.args else None
    return call_subject(call)


def _mentions(node: ast.AST, target: str) -> bool:
    return target in expression_texts(node) or target in read_names(node)


def last_batch_only(line: SourceLine) -> Iterator[AveragedMetric]:
    """Yield the numbers that the innermost loop recomputes for each batch and that are read only after the loop.

    Yields nothing for a loop that trains or may end before the last batch.
    """
    scope = enclosing_scope(line)
    loops = enclosing_loops(scope, line.number) if scope is not None else []
    if scope is None or not loops:
        return
    loop = loops[0]
    may_end_early = any(isinstance(node, (ast.Break, ast.Return, ast.Yield)) for node in ast.walk(loop))
    if may_end_early or any(call_name(node) == "backward" for node in ast.walk(loop)):
        return
    evaluation_loop = _EvaluationLoop(scope, loop)
    batch_names, accumulated_names = assigned_names(loop.target), _find_accumulated_names(loop)
    for target, value in _loop_assignments(loop):
        parts = evaluation_loop.resolve(value)
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        is_batch_scalar = (
            _is_scalar_expression(value) and batch_names & names and not (accumulated_names | {target.id}) & names
        )
        if (
            is_batch_scalar
            and target.id not in _names_read_in(loop)
            and _is_assigned_once(loop, target.id)
            and _is_read_after(scope, loop, target.id)
        ):
            yield AveragedMetric(SourceLine(line.file, target.lineno), "last", target.id)


def _loop_assignments(loop: ast.For) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Yield the assignments of a loop as (name, expression), also from tuple assignments."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            is_tuple = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts, strict=False) if is_tuple else [(target, value)]  # type: ignore[attr-defined]
            yield from ((name, expression) for name, expression in pairs if isinstance(name, ast.Name))


def _find_accumulated_names(loop: ast.For) -> set[str]:
    """Return the names that a loop adds to or changes in place."""
    names = {name for node in ast.walk(loop) if isinstance(node, ast.AugAssign) for name in assigned_names(node.target)}
    for node in ast.walk(loop):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            names |= read_names(node.value.func)
    return names


def _is_scalar_expression(value: ast.expr) -> bool:
    """Check whether an expression is a scalar of a batch: a sum, a mean, a ratio, a loss or a score."""
    if isinstance(value, ast.BinOp):
        return _is_scalar_expression(value.left)
    if isinstance(value, ast.IfExp) or not isinstance(value, ast.Call):
        return False
    name = call_name(value)
    has_axis = name in ("sum", "mean") and bool(value.args or value.keywords)
    return (
        name in _SCALAR_FUNCTIONS or bool(_BATCH_MEAN_NAMES.fullmatch(name) or _WHOLE_SET_METRICS.fullmatch(name))
    ) and not has_axis


def _names_read_in(loop: ast.For) -> set[str]:
    return {name for node in loop.body for name in read_names(node)}


def _is_assigned_once(loop: ast.For, name: str) -> bool:
    """Check whether a loop assigns a name exactly once per iteration, on every branch."""
    stored_nodes = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    branches = [node for node in loop.body if isinstance(node, (ast.If, ast.Try, ast.For, ast.While))]
    return [node.id for node in stored_nodes].count(name) == 1 and not any(
        name in assigned_names(branch) for branch in branches
    )


def _is_read_after(scope: SourceScope, loop: ast.For, name: str) -> bool:
    """Check whether the first use of a name after a loop is a read."""
    end = loop.end_lineno or loop.lineno
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name and node.lineno > end]
    first = min((node.lineno for node in uses), default=0)
    return bool(uses) and all(isinstance(node.ctx, ast.Load) for node in uses if node.lineno == first)
