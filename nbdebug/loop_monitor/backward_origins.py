"""Where a loop computes the roots of its backward passes, and the leaves that they reach."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor, nn

from nbdebug.autograd import DetachPoint
from nbdebug.loop_monitor.gradient_accumulation import TrackedOptimizer
from nbdebug.loop_monitor.graph_cuts import CutTrace
from nbdebug.source.assignments import covering_statement, find_assignment, last_assignment
from nbdebug.source.location import SourceLine
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import read_names

_MIN_COPIED_SHARE = 0.5  # of the parameters of the model


class _RootFrame(NamedTuple):
    """A function that leads to the backward pass: its line, and the names of the root in it.

    ``receives_root`` tells whether all of these are parameters of the function.
    """

    line: SourceLine
    names: frozenset[str]
    receives_root: bool


def _parameters(frame: FrameType) -> set[str]:
    code = frame.f_code
    return {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}


class RootVariables:
    """The variables that hold the roots of the first backward pass, from which the lines are found later.

    In the loop, only the stack is read; the source is parsed when the lines are needed.
    """

    def __init__(self) -> None:
        self.backward_line: SourceLine | None = None
        self.of_root: list[tuple[SourceLine, str]] = []
        self.frames: list[_RootFrame] = []
        self.scalars: list[str] = []

    def record(self, roots: Sequence[Tensor], files: set[str], frame: FrameType | None) -> None:
        """Record the variables of the first backward pass, and add the files on the stack."""
        if self.backward_line is not None:
            return
        root_ids = {id(root) for root in roots}
        for user_frame in user_frames(frame):
            line = SourceLine(user_frame.f_code.co_filename, user_frame.f_lineno, user_frame.f_code.co_name)
            variables = frame_variables(user_frame)
            if self.backward_line is None:
                self.backward_line = line
                self.scalars = [name for name, value in variables.items() if _is_loss(value)]
            names = frozenset(name for name, value in variables.items() if id(value) in root_ids)
            self.of_root += [(line, name) for name in names]
            self.frames.append(_RootFrame(line, names, names <= _parameters(user_frame)))
            files.add(line.file)

    def lines(self) -> dict[str, SourceLine]:
        """Return the line of the "loss", and of the "root": its last assignment before the backward pass.

        That line is also the "received root" if the function of the backward pass only receives it as an argument.
        A root without a name, as in ``(-loss).backward()``, is made by the statement of the backward pass. The loss is
        then the last of the tensors that this statement reads.
        """
        if self.backward_line is None:
            return {}
        root_line = _last_line(self.of_root, changes=True) or self._passing_line() or self.backward_line
        loss_line = _last_line(self.of_root, changes=False) or self._operand_line(self.backward_line) or root_line
        backward = self.frames[0]
        is_received = bool(backward.names) and backward.receives_root and root_line.function != backward.line.function
        return {"root": root_line, "loss": loss_line, **({"received root": root_line} if is_received else {})}

    def _passing_line(self) -> SourceLine | None:
        """Return the line that passes the root to the functions which lead to the backward pass, if it has no name."""
        passing = next((frame for frame in self.frames if not (frame.names and frame.receives_root)), None)
        return passing.line if passing and not passing.names and passing is not self.frames[0] else None

    def _operand_line(self, line: SourceLine) -> SourceLine | None:
        """Return the last assignment of a tensor with a gradient that the statement of a line reads."""
        statement = covering_statement(line)
        if statement is None or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            return None
        return _last_line([(line, name) for name in read_names(statement) & {*self.scalars}], changes=False)


def _last_line(variables: Iterable[tuple[SourceLine, str]], *, changes: bool) -> SourceLine | None:
    """Return the last assignment of some variables, each before a line of its function."""
    lines = [assigned for line, name in variables if (assigned := last_assignment(line, name, changes=changes))]
    return max(lines, key=lambda assigned: assigned.number, default=None)


def _holds_any(value: object, leaf_ids: set[int]) -> bool:
    """Return whether a value is one of some leaves, or a module with one of them as a parameter."""
    leaves = value.parameters() if isinstance(value, nn.Module) else (value,)
    return any(id(leaf) in leaf_ids for leaf in leaves)


def _is_loss(value: object) -> bool:
    return type(value) is Tensor and value.numel() == 1 and value.grad_fn is not None


@dataclass(frozen=True)
class _BackwardLeaves:
    """Leaves that a backward pass reaches: whether the model is among them, and how many others there are.

    ``other_leaves`` do not belong to the model, of which ``other_parameters`` are parameters; ``copied_parameters`` are
    parameters that have the shapes of at least half of the model's: a single tensor of such a shape is no copy of the
    model. ``line`` is where another leaf was assigned, if the model is not reached.
    """

    reaches_model: bool = False
    other_leaves: int = 0
    copied_parameters: int = 0
    other_parameters: int = 0
    line: SourceLine | None = None


class BackwardLeafMonitor:
    """Collects the leaves of backward passes until one of them reaches the model.

    If the first one does not, the torch calls of the next step are traced once, to find the line that creates the leaf
    that a pass ends in, and the call that cuts the graph between the model and the loss of the last pass.
    """

    def __init__(self, model_shapes: Mapping[int, tuple[int, ...]], *, can_trace: bool = True) -> None:
        self.model_shapes = model_shapes
        self.leaves = _BackwardLeaves()
        self.passes = 0
        self.trace = CutTrace({*model_shapes}) if can_trace else None
        self.cut: DetachPoint | None = None
        self.traced_passes = 0

    def on_backward_begin(self, roots: Sequence[Tensor]) -> None:
        """Collect the leaves behind some roots."""
        if self.leaves.reaches_model:
            return
        self.passes += 1
        leaves = [leaf for root in roots for leaf in (_graph_leaves(root.grad_fn) if root.grad_fn else [root])]
        shapes = Counter(self.model_shapes.values())
        parameters = [leaf for leaf in leaves if isinstance(leaf, nn.Parameter)]
        common = Counter(tuple(leaf.shape) for leaf in parameters) & shapes
        copied_count = common.total() if common.total() >= _MIN_COPIED_SHARE * shapes.total() else 0
        reaches_model = any(id(leaf) in self.model_shapes for leaf in leaves)
        line = None if reaches_model else self._creation_line(leaves, sys._getframe(1))
        other_leaves = len(leaves) - copied_count, copied_count, len(parameters) - copied_count
        self.leaves = _BackwardLeaves(reaches_model, *other_leaves, line)
        if self.trace and self.trace.is_open:
            self.traced_passes, self.cut = self.traced_passes + 1, self.trace.find_cut(roots)

    def _creation_line(self, leaves: list[Tensor], frame: FrameType | None) -> SourceLine | None:
        """Return the line that created a leaf: as traced, as found before, or the assignment of its variable."""
        traced_line = self.trace.leaf_line(leaves) if self.trace else None
        leaf_ids = {id(leaf) for leaf in leaves}
        return traced_line or self.leaves.line or find_assignment(frame, lambda value: _holds_any(value, leaf_ids))

    def on_step_begin(self, _tracked: TrackedOptimizer) -> None:
        """End the trace if it shows a backward pass. A pass is a torch call, inside which the mode cannot be left."""
        self._end_traced_step()

    def _end_traced_step(self) -> None:
        if self.trace and self.traced_passes:
            self.trace.close()

    def on_step_end(self) -> None:
        """Trace the torch calls of the next step if the first pass did not reach the model."""
        self._end_traced_step()
        if self.trace and self.passes and not self.leaves.reaches_model:
            self.trace.open()

    @contextmanager
    def tracing_ended(self) -> Iterator[None]:
        """End the trace with a block."""
        try:
            yield
        finally:
            if self.trace:
                self.trace.close()


def _graph_leaves(function: Any) -> list[Tensor]:
    """Return the leaf tensors of a graph. Keeps no reference to the graph, so that it can be freed."""
    visited, pending, leaves = {function}, [function], []
    while pending:
        node = pending.pop()
        if (variable := getattr(node, "variable", None)) is not None and not node.next_functions:
            leaves.append(variable)
        next_nodes = {next_node for next_node, _ in node.next_functions if next_node is not None} - visited
        visited |= next_nodes
        pending += next_nodes
    return leaves
