"""Modes of passes, use and order of batches, broadcasting comparisons and device synchronizations of a loop."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import compress
from math import inf
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.hooks.device_syncs import SyncCall
from nbdebug.hooks.training_events import is_iterator_of
from nbdebug.loop_monitor.dropout_rates import DropoutRateMonitor, LostRate
from nbdebug.loop_monitor.empty_epochs import EmptyEpochMonitor
from nbdebug.loop_monitor.event_stacks import ClearingCalls, get_deciding_line
from nbdebug.loop_monitor.repeated_passes import RepeatedPassCounter
from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tensors.pytree import tree_tensors

_MAX_MODULES = 200  # modules whose mode is recorded
_MAX_ROUNDS = 10_000  # rounds of validation
_COMPARED_BATCHES = 2  # first batches of an epoch that are compared with those of the previous epoch
_Evaluation = tuple[int, bool, bool]  # steps before a pass over validation data, in train mode, with gradients enabled
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class ModelMode:
    """The mode of the whole model, and of each submodule whose behavior depends on the mode.

    ``trainable`` tells which of these submodules have trainable parameters, or follow some if they have none.
    """

    training: bool
    submodule_training: tuple[bool, ...]
    trainable: tuple[bool, ...]


@dataclass(frozen=True)
class ForwardPasses:
    """The forward passes of a loop, by mode.

    ``training_modes`` are the modes of the last pass before each step, in order, each with the number of steps it
    lasted. ``validation_passes`` counts the passes over batches of the validation loader without a backward pass,
    ``validation_in_train_mode`` those of them in train mode, and ``validation_with_graph`` those with gradients
    enabled. All such passes between two steps are one of the ``validation_rounds``, and most of those of
    ``rounds_in_train_mode`` ran in train mode. ``mode_dependent`` are the paths of the submodules whose behavior
    depends on the mode, ``validation_train_layers`` those that were in train mode in the latest such validation pass;
    ``shape`` is that of a floating-point output. ``lines`` are the user's: "forward", "validation", and "train" and
    "eval", which last changed the mode, "part eval", which switches only a part of the model, "step in eval mode",
    which last changed it before the first step in eval mode, and "no change", which left it in eval mode in the same
    function. ``calls`` are the lines of all passes. ``lost_rates`` are rates of dropout that an evaluation set to zero.
    ``samples_dropout`` is True if most validation passes in train mode repeat the input of the previous one.
    """

    mode_dependent: tuple[str, ...] = ()
    validation_train_layers: tuple[str, ...] = ()
    training_modes: tuple[tuple[ModelMode, int], ...] = ()
    validation_passes: int = 0
    validation_in_train_mode: int = 0
    validation_with_graph: int = 0
    validation_rounds: int = 0
    rounds_in_train_mode: int = 0
    shape: tuple[int, ...] | None = None
    lines: dict[str, SourceLine] = field(default_factory=dict)
    calls: tuple[SourceLine, ...] = ()
    lost_rates: tuple[LostRate, ...] = ()
    samples_dropout: bool = False


class ModeMonitor:
    """Records the mode of each forward pass."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = dict(
            [(name, module) for name, module in model.named_modules() if _depends_on_mode(module)][:_MAX_MODULES]
        )
        self.parameters = [_own_or_adjacent_parameters(model, name) for name in self.modules]
        self.dropout_rates = DropoutRateMonitor(model)
        self.repeated_passes = RepeatedPassCounter(self.modules.values())
        self.training_modes: list[tuple[ModelMode, int]] = []
        self.evaluations: Counter[_Evaluation] = Counter()
        self.split = ""
        self.current_pass: tuple[ModelMode, str, bool] | None = None
        self.steps_before_pass = 0
        self.validation_train_layers: tuple[str, ...] = ()
        self.mode_before_step: ModelMode | None = None
        self.shape: tuple[int, ...] | None = None
        self.lines: dict[str, SourceLine] = {}
        self.unchanged_line: SourceLine | None = None
        self.calls: dict[tuple[Any, ...], SourceLine | None] = {}

    def on_forward_begin(self, split: str, steps: int) -> None:
        """Record the start of a pass of the whole model; a previous pass without a backward pass was an evaluation."""
        self.evaluations.update(self.unfinished_evaluation)
        self.current_pass = None
        self.dropout_rates.on_forward_begin(self.model.training and torch.is_grad_enabled())
        mode = ModelMode(
            self.model.training,
            tuple([module.training for module in self.modules.values()]),
            tuple([any(p.requires_grad for p in parameters) for parameters in self.parameters]),
        )
        self.current_pass, self.steps_before_pass = (mode, split, torch.is_grad_enabled()), steps
        if split == "val" and self._is_train_mode(mode):
            self.validation_train_layers = tuple(compress(self.modules, mode.submodule_training))
        call_kind = split, torch.is_grad_enabled(), mode.training
        if call_kind not in self.calls:
            line = self.calls[call_kind] = get_calling_line(sys._getframe(1))
            if line:
                self.lines.setdefault("validation" if split == "val" else "forward", line)

    @property
    def unfinished_evaluation(self) -> tuple[_Evaluation, ...]:
        """The latest pass if it was over validation data; a backward pass may still follow it."""
        if not self.current_pass or self.current_pass[1] != "val":
            return ()
        mode, _, with_graph = self.current_pass
        round_number = self.steps_before_pass if len(self.evaluations) < _MAX_ROUNDS else -1
        return ((round_number, self._is_train_mode(mode), with_graph),)

    def _is_train_mode(self, mode: ModelMode) -> bool:
        """Return whether a pass depends on the train mode of the model.

        If only the flag of the whole model is off, eval() was not called, and none of its modules is in eval mode.
        """
        others = (module for module in self.model.modules() if module is not self.model)
        return any(mode.submodule_training) and (mode.training or all(module.training for module in others))

    def on_forward_end(self, output: Any) -> None:
        """Record the end of a pass."""
        if self.shape is None and isinstance(output, torch.Tensor) and output.is_floating_point():
            self.shape = tuple(output.shape)

    def on_backward_end(self) -> None:
        """Record a backward pass: the forward pass before it was one of training."""
        if self.current_pass:
            self.mode_before_step, self.current_pass = self.current_pass[0], None

    def on_step_end(self) -> None:
        """Record an optimizer step."""
        mode, self.mode_before_step = self.mode_before_step, None
        if mode is None:
            return
        if not mode.training and "eval" in self.lines and "step in eval mode" not in self.lines:
            self.lines["step in eval mode"] = self.lines["eval"]
            self.lines.update({"no change": self.unchanged_line} if self.unchanged_line else {})
        if self.training_modes and self.training_modes[-1][0] == mode:
            self.training_modes[-1] = mode, self.training_modes[-1][1] + 1
        elif len(self.training_modes) < _MAX_MODULES:
            self.training_modes.append((mode, 1))

    def on_mode_switch(self, event: tuple[nn.Module, bool]) -> None:
        """Record a mode switch that is about to run; stores the line if the module is the whole model.

        The first call that sets only a part of the model to eval mode is stored too. A call that leaves the mode as it
        is does not count, but may be meant to put it back: it then follows the one that changed the mode in the same
        function.
        """
        module, mode = event
        if module is not self.model and not mode and self.model.training and "part eval" not in self.lines:
            is_part = any(part is module for part in self.model.modules())
            if is_part and (line := get_deciding_line(sys._getframe(1), "train")):
                self.lines["part eval"] = line
        if module is not self.model or (line := get_deciding_line(sys._getframe(1), "train")) is None:
            return
        kind = "train" if mode else "eval"
        changing = self.lines.get(kind)
        if module.training != mode or changing is None:
            self.lines[kind], self.unchanged_line = line, None
        elif not mode and (line.file, line.function) == (changing.file, changing.function):
            self.unchanged_line = line if line.number > changing.number else None

    def summary(self) -> ForwardPasses:
        """Return all counts."""
        evaluations = self.evaluations + Counter(self.unfinished_evaluation)
        in_train_mode, rounds = Counter[int](), Counter[int]()
        for (round_number, is_training, _), passes in evaluations.items():
            rounds[round_number] += passes
            in_train_mode[round_number] += passes * is_training
        return ForwardPasses(
            tuple(self.modules),
            self.validation_train_layers,
            tuple(self.training_modes),
            rounds.total(),
            in_train_mode.total(),
            sum(passes for (_, _, with_graph), passes in evaluations.items() if with_graph),
            len(rounds),
            sum(in_train_mode[round_number] > passes / 2 for round_number, passes in rounds.items()),
            self.shape,
            dict(self.lines),
            tuple({line: None for line in self.calls.values() if line}),
            self.dropout_rates.summary(),
            self.repeated_passes.is_sampling,
        )


def _own_or_adjacent_parameters(model: nn.Module, path: str) -> list[nn.Parameter]:
    """Return the parameters of a module, or if it has none those of the last module with some before it.

    Without one in the same parent, they are those of the parent.
    """
    module, parent = model.get_submodule(path), model.get_submodule(path.rpartition(".")[0])
    before: list[nn.Parameter] = []
    for child in parent.children():
        if child is module:
            break
        before = [*child.parameters()] or before
    return [*module.parameters(recurse=False)] or before or [*parent.parameters()]


class BatchUseCounter:
    """Counts what becomes of training batches: whether a step uses their gradients.

    A training batch is discarded if its gradients are cleared and the next batch is drawn before any step. Several
    backward passes for one step on one batch, as in adversarial training, do not count, and neither do the gradients
    that another network's loss leaves after the step. Of the ``summing_steps``, which used several batches, the
    ``incomplete_steps`` came after batches that were discarded since the previous step.

    ``clearings`` counts the calls that cleared gradients before a step, by what came next.
    """

    def __init__(self) -> None:
        self.clearings = ClearingCalls()
        self.batch = self.backward_batch = 0  # numbers of the latest training batch, and of that of the latest backward
        self.cleared_batch: int | None = None
        self.stepped_batch, self.steps_before_batch = -1, inf  # no batch has been drawn
        self.has_gradients = False
        self.batches_with_backward = self.discarded_batches = self.training_passes = 0
        self.summed = self.cleared_batches = self.discarded_in_step = self.summing_steps = self.incomplete_steps = 0

    def on_forward_begin(self, split: str) -> None:
        """Record a forward pass by the split of its input."""
        self.training_passes += split != "val"

    def on_batch(self, split: str, steps: int) -> None:
        """Record a batch by its split, "train", "val" or "" for another loader, and the number of steps before it."""
        self.steps_before_batch = steps
        self.batch += split == "train"
        self._count_discarded()

    def on_backward_end(self, split: str) -> None:
        """Record a backward pass by the split of the latest batch."""
        self.clearings.on_following_event("clearing between passes")
        if split == "train":
            self.batches_with_backward += self.backward_batch != self.batch
            self.summed += self.backward_batch != self.batch
            self.backward_batch, self.has_gradients = self.batch, self.batch != self.stepped_batch

    def on_gradients_cleared(self, frame: FrameType | None = None) -> None:
        """Record that gradients were cleared, by a call on a frame, if it is known."""
        if self.has_gradients:
            self.clearings.on_cleared(frame)
            self.cleared_batch, self.has_gradients = self.backward_batch, False
            self.cleared_batches, self.summed = max(self.summed, 1), 0
            self._count_discarded()

    def _count_discarded(self) -> None:
        if self.cleared_batch is not None and self.cleared_batch < self.batch:
            self.discarded_batches += self.cleared_batches
            self.discarded_in_step += self.cleared_batches
            self.cleared_batch = None
            self.clearings.on_following_event("clearing before batch")

    def on_step_end(self) -> None:
        """Record a step."""
        self.clearings.on_following_event("clearing before step")
        self.stepped_batch = self.batch
        self.summing_steps += self.summed > 1
        self.incomplete_steps += self.summed > 1 and self.discarded_in_step > 0
        self.reset()

    def reset(self) -> None:
        """Forget the batches since the previous step."""
        self.clearings.pending = ()
        self.cleared_batch, self.has_gradients = None, False
        self.summed = self.discarded_in_step = 0

    @property
    def unused_batches(self) -> int:
        """Training batches that were drawn, if no forward pass followed any of them."""
        return 0 if self.training_passes else self.batch


def _depends_on_mode(module: nn.Module) -> bool:
    """Check whether the output of a torch module depends on train or eval mode."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return float(module.p) > 0
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return bool(module.track_running_stats)
    if isinstance(module, nn.MultiheadAttention):
        return float(module.dropout) > 0
    return isinstance(module, nn.RNNBase) and module.dropout > 0 and module.num_layers > 1


@dataclass(frozen=True)
class EpochOrder:
    """Number of training epochs, and of those that started with the batches of the previous epoch."""

    epochs: int = 0
    repeated_epochs: int = 0


class BatchOrderMonitor:
    """Monitors each batch that a loop draws."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.split, self.empty_epochs = setup, "", EmptyEpochMonitor(setup)
        self.iterator: weakref.ref[Any] | None = None
        self.previous_epoch: list[list[Tensor]] = []
        self.current_epoch: list[list[Tensor]] = []
        self.epochs = self.repeated_epochs = 0

    def record_batch(self, iterator: Any, batch: Any) -> str:
        """Record a batch and return its split: "train", "val" or ""."""
        if self.iterator is None or self.iterator() is not iterator:
            self.iterator = weakref.ref(iterator)
            splits = {"val": self.setup.val_loader, "train": self.setup.train_loader}
            self.split = next((name for name, value in splits.items() if is_iterator_of(iterator, value)), "")
            if self.split == "train":
                self.start_epoch()
        if self.split == "train" and len(self.current_epoch) < _COMPARED_BATCHES:
            self.current_epoch.append([first_values(value) for value in tree_tensors(batch)])
        return self.split

    def start_epoch(self) -> None:
        """Start a training epoch; compare the previous epoch with the one before it."""
        if self.current_epoch:
            self.epochs, self.repeated_epochs = (
                self.epochs + 1,
                self.repeated_epochs + _start_with_same_batches(self.previous_epoch, self.current_epoch),
            )
        self.previous_epoch, self.current_epoch = self.current_epoch, []

    def summary(self) -> EpochOrder:
        """Return the counts, including the current epoch."""
        return EpochOrder(
            self.epochs + bool(self.current_epoch),
            self.repeated_epochs + _start_with_same_batches(self.previous_epoch, self.current_epoch),
        )


def _start_with_same_batches(previous_epoch: list[list[Tensor]], current_epoch: list[list[Tensor]]) -> bool:
    """Check whether the first batches of two epochs share tensors that differ between the batches of an epoch."""
    if len(previous_epoch) < _COMPARED_BATCHES or len(current_epoch) < _COMPARED_BATCHES:
        return False
    tensor_indices = range(min(map(len, [*previous_epoch, *current_epoch])))
    equal_indices = [
        index
        for index in tensor_indices
        if all(
            torch.equal(previous_batch[index], current_batch[index])
            for previous_batch, current_batch in zip(previous_epoch, current_epoch, strict=True)
        )
    ]
    return any(not torch.equal(current_epoch[0][index], current_epoch[1][index]) for index in equal_indices)


@dataclass(frozen=True)
class DeviceSyncs:
    """Inspected steps on an accelerator, and the calls in them that waited for the device, by line.

    ``seconds`` is their total duration.
    """

    checked_steps: int = 0
    lines: dict[SourceLine, int] = field(default_factory=dict)
    seconds: float = 0.0


class DeviceSyncCounter:
    """Counts the calls."""

    def __init__(self) -> None:
        self.checked_steps, self.seconds = 0, 0.0
        self.lines: Counter[SourceLine] = Counter()

    def record_sync(self, sync: SyncCall) -> None:
        """Record that a value was fetched."""
        frame, seconds = sync
        if line := get_calling_line(frame):
            self.lines[line] += 1
            self.seconds += seconds

    def summary(self) -> DeviceSyncs:
        """Return all counts."""
        return DeviceSyncs(self.checked_steps, dict(self.lines), self.seconds)
