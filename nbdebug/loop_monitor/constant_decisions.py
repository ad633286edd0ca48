"""Predictions that a loop compares with its targets and that stay constant while the output of the model varies."""

from __future__ import annotations

import ast
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop_monitor.decision_trace import MIN_DECISIONS, DecisionTrace
from nbdebug.loop_monitor.wrong_decisions import TwoValuedDecisionCounter, WrongDecisionCounter
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.source.location import SourceLine
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import SourceScope, call_name, call_subject, enclosing_scope, syntax_tree
from nbdebug.tensors.pytree import tree_tensors

_MAX_PASSES, _MAX_COMPARISONS, _MAX_FRAMES, _MAX_TENSORS = 64, 64, 3, 4  # passes of each split
_MIN_COMPARISONS, _MIN_ROWS = 2, 8
_AXIS_CALLS = {"argmax", "max", "topk", "sort", "argsort", "softmax", "log_softmax"}
_AXIS_IS_OPTIONAL = {"topk", "sort", "argsort", "softmax", "log_softmax"}
_COMPARISON_METHODS, _EXPORT_METHODS = ("__eq__", "eq", "__ne__", "ne"), ("numpy", "tolist")
_ORDERINGS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class ConstantDecision:
    """A comparison of targets that vary with predictions that do not, although the outputs have both signs.

    ``line`` is where the predictions are made, ``operation`` the call that makes them: "" for a threshold.
    ``is_index`` tells that they are indices along an axis of one value, which are constant for any output.
    """

    line: SourceLine
    operation: str
    value: float
    comparisons: int
    is_index: bool = False


@dataclass
class _Comparisons:
    """The comparisons on one line: their number, and the constant predictions; ``varies`` if there were others."""

    value: float
    maker: tuple[SourceLine, str] | None
    count: int = 0
    varies: bool = False


class DecisionMonitor:
    """Compares predictions with the outputs that they were made from, if the model returns one value for each row.

    Predictions are operands of ``==`` and ``!=`` with as many values as the latest outputs, and whole numbers that
    leave torch for a metric of another library. They count only if these outputs have both signs, so that a threshold
    of zero gives both classes, and if no tensor of the batch is constant, since targets of one class are compared too.
    Indices along an axis of one value are counted in evaluations, whatever they are used for.
    """

    def __init__(
        self, get_loss_kind: Callable[[], LossKind], on_comparison: Callable[[Any, Any], None] = lambda *_: None
    ) -> None:
        self.comparisons, self.split = 0, ""
        self.passes = Counter[str]()
        self.phase: tuple[str, bool] | None = None
        self.phase_rows, self.phase_signs = 0, set[bool]()
        self.batch: list[Tensor] = []
        self.signs_by_rows: dict[int, set[bool]] = {}
        self.by_line: dict[SourceLine, _Comparisons] = {}
        self.wrong_decisions, self.two_valued = WrongDecisionCounter(get_loss_kind), TwoValuedDecisionCounter()
        self.on_comparison = on_comparison
        self.trace = DecisionTrace(self.wrong_decisions, self.pass_comparison)

    def pass_comparison(self, left: Any, right: Any) -> None:
        """Pass the operands of a comparison on."""
        self.on_comparison(left, right)
        self.two_valued.on_comparison(left, right)

    @property
    def wants_output(self) -> bool:
        """True if the next output is to be inspected."""
        return self.passes[self.split] < _MAX_PASSES

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of any loader."""
        self.split = split
        self.batch = tree_tensors(batch)[:_MAX_TENSORS] if self.wants_output else []

    def on_forward_begin(self) -> None:
        """Record the start of a pass, whose own comparisons are not predictions."""
        self.trace.close()
        self.signs_by_rows = {}

    def on_forward_end(self, output: Any) -> None:
        """Record the signs of the outputs of a pass, and of all outputs since the loop last changed the split."""
        scores = score_tensor(output) if self.wants_output else None
        if not isinstance(scores, Tensor) or not scores.is_floating_point() or scores.is_nested:
            return
        if not scores.numel():
            return
        self.passes[self.split] += 1
        phase = self.split, torch.is_grad_enabled()
        is_new_phase = self.phase != phase
        if is_new_phase:
            self.phase, self.phase_rows, self.phase_signs = phase, 0, set()
        batch, self.batch = self.batch, []
        if not phase[1]:
            self.wrong_decisions.start(scores, batch, is_new_phase)
            self.two_valued.targets = batch
        if scores.dim() < 2 or scores.shape[1] == 1:
            self.record_signs(scores.detach(), [values for values in batch if values.numel() == scores.numel()])
        self.trace.start(scores, self.phase_rows)

    def record_signs(self, scores: Tensor, targets: list[Tensor]) -> None:
        """Record whether scores of one value for each row have both signs."""
        low, high = torch.aminmax(scores)
        signs = {bool(low > 0), bool(high > 0)}
        self.phase_rows += scores.numel()
        self.phase_signs |= signs
        if targets and all(map(_varies, targets)):
            self.signs_by_rows = {self.phase_rows: self.phase_signs, scores.numel(): signs}

    def comparison_callbacks(self, wrap_callback: _CallbackWrapper) -> Iterator[tuple[str, Callable[[Any], None]]]:
        """Yield each method of tensors that compares or exports values, and the callback before its calls."""
        inspect, inspect_export = wrap_callback(self.inspect), wrap_callback(self.inspect_export)

        def on_comparison(call: tuple[Any, Any, Any]) -> None:
            operand, others, _ = call
            if others and type(operand) is type(others[0]) is Tensor and not operand.is_nested:
                size = operand.numel()
                if len(self.signs_by_rows.get(size, ())) > 1 and size >= _MIN_ROWS and others[0].numel() == size:
                    inspect((operand, others[0]))

        def on_export(call: tuple[Any, Any, Any]) -> None:
            values = call[0]
            if not self.signs_by_rows or type(values) is not Tensor or values.is_nested or values.is_floating_point():
                return
            size = values.numel()
            if len(self.signs_by_rows.get(size, ())) > 1 and size >= _MIN_ROWS:
                inspect_export(values)

        yield from ((method, on_comparison) for method in _COMPARISON_METHODS)
        yield from ((method, on_export) for method in _EXPORT_METHODS)

    @torch.no_grad()
    def inspect(self, pair: tuple[Tensor, Tensor]) -> None:
        """Inspect two tensors of the size of the latest outputs that are about to be compared."""
        if self.comparisons >= _MAX_COMPARISONS:
            return
        self.comparisons += 1
        constant = [float(operand.flatten()[0]) for operand in pair if not _varies(operand)]
        if len(constant) < 2:
            self.record(constant[0] if constant else math.nan, sys._getframe(1))

    @torch.no_grad()
    def inspect_export(self, values: Tensor) -> None:
        """Inspect whole numbers, as many as the latest outputs, that leave torch; targets that vary leave it too."""
        if self.comparisons < _MAX_COMPARISONS:
            self.comparisons += 1
            if not _varies(values):
                self.record(float(values.flatten()[0]), sys._getframe(1))

    def record(self, value: float, frame: FrameType) -> None:
        """Count predictions of one value, NaN if they vary, on the user's line."""
        frames = [user_frame for _, user_frame in zip(range(_MAX_FRAMES), user_frames(frame), strict=False)]
        if not frames:
            return
        line = SourceLine(frames[0].f_code.co_filename, frames[0].f_lineno, frames[0].f_code.co_name)
        if line not in self.by_line:
            self.by_line[line] = _Comparisons(value, None if math.isnan(value) else _find_decision(frames))
        comparisons = self.by_line[line]
        comparisons.count += 1
        comparisons.varies |= comparisons.value != value

    def summary(self) -> tuple[ConstantDecision, ...]:
        """Return the lines on which the predictions were constant in all comparisons."""
        indices = tuple(
            ConstantDecision(line, operation, 0.0, count, is_index=True)
            for (line, operation), count in self.trace.counts.items()
            if count >= MIN_DECISIONS
        )
        return indices + tuple(
            ConstantDecision(*comparisons.maker, comparisons.value, comparisons.count)
            for comparisons in self.by_line.values()
            if comparisons.maker is not None and not comparisons.varies and comparisons.count >= _MIN_COMPARISONS
        )


def _varies(values: Tensor) -> bool:
    return not bool((torch.ne(values, values.flatten()[0])).logical_not().all())


def _find_decision(frames: list[FrameType]) -> tuple[SourceLine, str] | None:
    """Return the line that makes the predictions of a comparison, and the name of its call; None if none is found.

    A call along an axis is searched in the functions on the stack, innermost first, and in those that they call; then
    a comparison with a threshold.
    """
    scopes = [scope for frame in frames for scope in _scopes_around(frame)]
    for select in (_axis_calls, _thresholds):
        for file, scope, last_line in scopes:
            matches = sorted(select(scope), key=lambda match: (match[0] > last_line, -match[0]))
            if matches:
                number, name = matches[0]
                return SourceLine(file, number, getattr(scope, "name", "")), name
    return None


def _scopes_around(frame: FrameType) -> Iterator[tuple[str, SourceScope, int]]:
    """Yield the function of a frame and the user's functions that it calls, each with its file and last line."""
    file = frame.f_code.co_filename
    scope = enclosing_scope(SourceLine(file, frame.f_lineno))
    if scope is None:
        return
    yield file, scope, frame.f_lineno
    variables = frame.f_globals | frame_variables(frame)
    names = {call_name(node): node for node in ast.walk(scope) if isinstance(node, ast.Call)}
    for name, call in names.items():
        function = variables.get(name)
        if isinstance(call.func, ast.Name) and isinstance(function, FunctionType):
            code = function.__code__
            called = enclosing_scope(SourceLine(code.co_filename, code.co_firstlineno + 1))
            if isinstance(called, ast.FunctionDef):
                yield code.co_filename, called, called.end_lineno or called.lineno
    for node in ast.walk(syntax_tree(file) or scope):
        if isinstance(node, ast.FunctionDef) and isinstance(getattr(names.get(node.name), "func", None), ast.Attribute):
            yield file, node, node.end_lineno or node.lineno


def _axis_calls(scope: SourceScope) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each call that works along an axis, such as ``argmax``."""
    for node in ast.walk(scope):
        name = call_name(node)
        if not isinstance(node, ast.Call) or name not in _AXIS_CALLS:
            continue
        arguments = [*node.args[call_subject(node) is (node.args[0] if node.args else None) :]]
        has_axis = bool(arguments) or any(keyword.arg in ("dim", "axis") for keyword in node.keywords)
        if isinstance(node.func, ast.Attribute) and (has_axis or name in _AXIS_IS_OPTIONAL):
            yield node.lineno, name


def _thresholds(scope: SourceScope) -> Iterator[tuple[int, str]]:
    """Yield the line of each comparison with a number."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.Constant):
            yield from [(node.lineno, "")] if isinstance(node.ops[0], _ORDERINGS) else []
