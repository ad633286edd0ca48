"""Monitors of the evaluations in a loop: the batches that they use, and the metrics that the loop computes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from nbdebug.hooks.training_events import observe_call_arguments
from nbdebug.loop_monitor.batch_averages import BatchAverageMonitor
from nbdebug.loop_monitor.broadcast_comparisons import ComparisonMonitor
from nbdebug.loop_monitor.constant_decisions import DecisionMonitor
from nbdebug.loop_monitor.correct_counts import CorrectCountMonitor
from nbdebug.loop_monitor.evaluated_copies import EvaluatedCopyMonitor
from nbdebug.loop_monitor.evaluated_inputs import EvaluatedInputMonitor
from nbdebug.loop_monitor.fold_data import FoldDataMonitor
from nbdebug.loop_monitor.shared_lists import SharedListMonitor
from nbdebug.loop_monitor.shared_meters import SharedMeterMonitor
from nbdebug.loop_monitor.stale_predictions import StalePredictionMonitor
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import enclosing_loops, enclosing_scope
from nbdebug.tensors.pytree import tree_tensors

_MIN_STALE_PASSES = 2
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class TrainingEvaluations:
    """Evaluations on batches of the training loader in a loop that draws no batch from any other loader.

    ``rounds`` are the evaluations between two steps, ``passes`` their passes in eval mode without gradients.
    ``line`` is where the loader was chosen: the loop over it, or the call that passes it to the function of that loop.
    """

    rounds: int = 0
    passes: int = 0
    line: SourceLine | None = None


@dataclass(frozen=True)
class StaleInputs:
    """Passes of evaluations on the inputs of the pass before, although another batch was drawn, and no other passes.

    ``line`` is where the model was called.
    """

    passes: int
    line: SourceLine


class _StaleInputMonitor:
    """Compares the inputs of the passes of an evaluation, which differ if each is on a batch of its own.

    Keeps no tensor of the user's alive.
    """

    def __init__(self) -> None:
        self.batch, self.is_new_batch = list[ReferenceType[Tensor]](), False
        self.steps, self.inputs = -1, list[ReferenceType[Tensor]]()
        self.stale_passes, self.has_fresh_pass = 0, False
        self.line: SourceLine | None = None

    def on_batch(self, split: str, batch: Any) -> None:
        """Record the batch of a loader other than that of training."""
        self.batch, self.is_new_batch = [ref(part) for part in tree_tensors(batch) if split != "train"], True

    def on_forward_begin(self, steps: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compare the inputs of a pass, after some steps, with those of the pass before."""
        if not self.batch or torch.is_grad_enabled():
            return
        inputs = tree_tensors((args, kwargs))
        if steps == self.steps and inputs:
            pairs = zip(inputs, self.inputs, strict=False)
            is_same = len(inputs) == len(self.inputs) and all(now is before() for now, before in pairs)
            if is_same and self.is_new_batch and any(_fits(value, part()) for value in inputs for part in self.batch):
                self.stale_passes += 1
                self.line = self.line or get_calling_line(sys._getframe(1))
            self.has_fresh_pass |= not is_same
        self.steps, self.inputs, self.is_new_batch = steps, [ref(value) for value in inputs], False

    def summary(self) -> StaleInputs | None:
        """Return the passes on the inputs of the pass before; None if any pass had its own."""
        is_stale = self.stale_passes >= _MIN_STALE_PASSES and not self.has_fresh_pass
        return StaleInputs(self.stale_passes, self.line) if is_stale and self.line else None


def _fits(value: Tensor, part: Tensor | None) -> bool:
    """Check whether a part of a batch could be passed in place of an input, and was not."""
    return part is not None and value is not part and value.dtype == part.dtype and value.shape[1:] == part.shape[1:]


class _EvaluatedBatches:
    """Counts the batches of each loader, and the evaluations of training batches."""

    def __init__(self, train_loader: Any) -> None:
        self.train_loader = train_loader
        self.drawn = Counter[str]()
        self.passes_by_step = Counter[int]()
        self.line: SourceLine | None = None

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of any loader."""
        self.drawn[split] += 1

    def on_forward_begin(self, split: str, steps: int, is_training: bool) -> None:
        """Record a pass by the split of its input, the number of steps before it, and the mode."""
        if split == "train" and steps and not is_training and not torch.is_grad_enabled():
            self.passes_by_step[steps] += 1
            self.line = self.line or _choice_line(self.train_loader, sys._getframe(1))

    def summary(self) -> TrainingEvaluations:
        """Return the evaluations of training batches, if the loop uses no other batches."""
        if self.drawn.total() > self.drawn["train"]:
            return TrainingEvaluations()
        return TrainingEvaluations(len(self.passes_by_step), self.passes_by_step.total(), self.line)


def _choice_line(loader: Any, frame: FrameType) -> SourceLine | None:
    """Return the user's line that chose a loader for a pass: in the innermost function that was not passed it."""
    for depth, user_frame in enumerate(user_frames(frame)):
        code = user_frame.f_code
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        variables = frame_variables(user_frame)
        if not any(variables.get(name) is loader for name in parameters):
            line = SourceLine(code.co_filename, user_frame.f_lineno, code.co_name)
            scope = enclosing_scope(line) if not depth else None
            loops = enclosing_loops(scope, line.number) if scope is not None else []
            return SourceLine(line.file, loops[0].lineno, code.co_name) if loops else line
    return None


class EvaluationMonitor:
    """The monitors of evaluations, by name."""

    def __init__(self, setup: Setup, get_loss_kind: Callable[[], LossKind]) -> None:
        self.correct_counts, self.comparisons = CorrectCountMonitor(), ComparisonMonitor()
        self.decisions = DecisionMonitor(get_loss_kind, self.comparisons.on_comparison)
        self.batch_averages = BatchAverageMonitor(setup.loss_fn)
        self.stale_predictions = StalePredictionMonitor(setup.val_loader is not None)
        self.batches, self.folds = _EvaluatedBatches(setup.train_loader), FoldDataMonitor(setup.eager_model)
        self.shared_lists, self.stale_inputs = SharedListMonitor(), _StaleInputMonitor()
        self.shared_meters, self.inputs = SharedMeterMonitor(), EvaluatedInputMonitor()
        self.decisions.trace.on_operands = self.inputs.on_operands
        can_trace = setup.val_loader is not None and not setup.is_compiled  # hooks on all modules disturb a compiler
        self.copies = EvaluatedCopyMonitor(setup.eager_model, can_trace)
        of_both = self.correct_counts, self.decisions, self.batch_averages, self.stale_predictions
        self.of_outputs = *of_both, self.comparisons, self.inputs
        self.of_batches = (
            self.batches,
            self.inputs,
            self.shared_lists,
            self.shared_meters,
            self.stale_inputs,
            self.copies,
            *of_both,
        )

    def on_forward_begin(self, steps: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the start of a pass after some steps."""
        self.decisions.two_valued.on_forward_begin(steps)
        self.stale_inputs.on_forward_begin(steps, args, kwargs)
        self.inputs.on_forward_begin(args, kwargs)
        self.copies.on_forward_begin()

    @property
    def wants_output(self) -> bool:
        """True if the next output of the model provides new information."""
        return any(monitor.wants_output for monitor in self.of_outputs)

    def hooks(self, wrap_callback: _CallbackWrapper) -> list[AbstractContextManager[None]]:
        """Return hooks for comparisons and exports of tensors; ``wrap_callback`` wraps each callback."""
        on_comparison = self.comparisons.comparison_callback(wrap_callback)
        self.copies.on_call = wrap_callback(self.copies.on_module)
        callbacks = [
            callback
            for monitor in (self.decisions, self.stale_predictions)
            for callback in monitor.comparison_callbacks(wrap_callback)
        ]
        hooks = [
            observe_call_arguments(Tensor, method, callback)
            for method, callback in [("__eq__", on_comparison), *callbacks]
        ]
        return [*hooks, closing(self.copies)]  # type: ignore[list-item]
