"""Modes of passes, use and order of batches, broadcasting comparisons and device synchronizations of a loop."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.hooks.device_syncs import SyncCall
from nbdebug.hooks.training_events import is_iterator_of
from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tensors.pytree import tree_tensors

_MAX_MODULES = 200  # modules whose mode is recorded
_COMPARED_BATCHES = 2  # first batches of an epoch that are compared with those of the previous epoch
_MAX_INSPECTED_COMPARISONS = 64  # such comparisons whose values are inspected
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class _ModelMode:
    """The mode of the whole model, and of each submodule whose behavior depends on the mode."""

    training: bool
    submodule_training: tuple[bool, ...]


@dataclass(frozen=True)
class ForwardPasses:
    """The forward passes of a loop, by mode.

    ``training_modes`` are the modes of the last pass before each step, in order, each with the number of steps it
    lasted. ``validation_passes`` counts the passes over batches of the validation loader without a backward pass,
    ``validation_in_train_mode`` those of them in train mode, and ``validation_with_graph`` those with gradients
    enabled. ``mode_dependent`` are the paths of the submodules whose behavior depends on the mode; ``shape`` is that of
    a floating-point output. ``lines`` are the user's: "forward", "validation", and "train" and "eval", which last
    changed the mode, "step in eval mode", which last changed it before the first step in eval mode, and "no change",
    which left it in eval mode in the same function. ``calls`` are the lines of all passes.
    """

    mode_dependent: tuple[str, ...] = ()
    training_modes: tuple[tuple[_ModelMode, int], ...] = ()
    validation_passes: int = 0
    validation_in_train_mode: int = 0
    validation_with_graph: int = 0
    shape: tuple[int, ...] | None = None
    lines: dict[str, SourceLine] = field(default_factory=dict)
    calls: tuple[SourceLine, ...] = ()


class ModeMonitor:
    """Records the mode of each forward pass."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = dict(
            [(name, module) for name, module in model.named_modules() if _depends_on_mode(module)][:_MAX_MODULES]
        )
        self.training_modes: list[tuple[_ModelMode, int]] = []
        self.counts: Counter[str] = Counter()
        self.split = ""
        self.current_pass: tuple[_ModelMode, str, bool] | None = None
        self.mode_before_step: _ModelMode | None = None
        self.shape: tuple[int, ...] | None = None
        self.lines: dict[str, SourceLine] = {}
        self.unchanged_line: SourceLine | None = None
        self.calls: dict[tuple[Any, ...], SourceLine | None] = {}

    def on_forward_begin(self) -> None:
        """Record the start of a pass of the whole model; a previous pass without a backward pass was an evaluation."""
        self.counts, self.current_pass = self.final_counts, None
        mode = _ModelMode(self.model.training, tuple([module.training for module in self.modules.values()]))
        self.current_pass = mode, self.split, torch.is_grad_enabled()
        call_kind = self.split, torch.is_grad_enabled(), mode.training
        if call_kind not in self.calls:
            line = self.calls[call_kind] = get_calling_line(sys._getframe(1))
            if line:
                self.lines.setdefault("validation" if self.split == "val" else "forward", line)

    @property
    def final_counts(self) -> Counter[str]:
        """Counts that include the latest pass if it was over validation data without a backward pass."""
        if not self.current_pass or self.current_pass[1] != "val":
            return self.counts
        mode, _, with_graph = self.current_pass
        in_train_mode = mode.training and any(mode.submodule_training)
        return self.counts + Counter({"validated": 1, "in train": int(in_train_mode), "with graph": int(with_graph)})

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

        A call that leaves the mode as it is does not count, but may be meant to put it back: it then follows the one
        that changed the mode in the same function.
        """
        module, mode = event
        if module is not self.model or (line := get_calling_line(sys._getframe(1))) is None:
            return
        kind = "train" if mode else "eval"
        changing = self.lines.get(kind)
        if module.training != mode or changing is None:
            self.lines[kind], self.unchanged_line = line, None
        elif not mode and (line.file, line.function) == (changing.file, changing.function):
            self.unchanged_line = line if line.number > changing.number else None

    def summary(self) -> ForwardPasses:
        """Return all counts."""
        counts, lines = self.final_counts, dict(self.lines)
        calls = tuple({line: None for line in self.calls.values() if line})
        validation_counts = counts["validated"], counts["in train"], counts["with graph"]
        return ForwardPasses(
            tuple(self.modules), tuple(self.training_modes), *validation_counts, self.shape, lines, calls
        )


class BatchUseCounter:
    """Counts what becomes of batches: which loader those of a step come from, and whether a step uses their gradients.

    A step counts for validation if only validation batches were drawn since the previous step, and each of them had a
    backward pass; so batches of an evaluation, or drawn beside training batches, do not. A training batch is discarded
    if its gradients are cleared, and the next batch is drawn before any step: several backward passes for one step on
    one batch, as in adversarial training, do not count, and neither do the gradients that another network's loss leaves
    after the step.
    """

    def __init__(self) -> None:
        self.drawn, self.backward = Counter[str](), Counter[str]()
        self.steps: dict[int, Counter[str]] = {}
        self.batch = self.backward_batch = 0  # numbers of the latest training batch, and of that of the latest backward
        self.cleared_batch: int | None = None
        self.stepped_batch = -1
        self.has_gradients = False
        self.batches_with_backward = self.discarded_batches = self.training_passes = 0

    def on_forward_begin(self, split: str) -> None:
        """Record a forward pass by the split of the latest batch."""
        self.training_passes += split != "val"

    def on_batch(self, split: str) -> None:
        """Record a batch by its split: "train", "val" or "" for another loader."""
        self.drawn[split] += 1
        self.batch += split == "train"
        self._count_discarded()

    def on_backward_end(self, split: str) -> None:
        """Record a backward pass by the split of the latest batch."""
        self.backward[split] += 1
        if split == "train":
            self.batches_with_backward += self.backward_batch != self.batch
            self.backward_batch, self.has_gradients = self.batch, self.batch != self.stepped_batch

    def on_gradients_cleared(self) -> None:
        """Record that gradients were cleared."""
        if self.has_gradients:
            self.cleared_batch, self.has_gradients = self.backward_batch, False
            self._count_discarded()

    def _count_discarded(self) -> None:
        if self.cleared_batch is not None and self.cleared_batch < self.batch:
            self.discarded_batches += 1
            self.cleared_batch = None

    def on_step_end(self, optimizer: torch.optim.Optimizer) -> None:
        """Record a step."""
        only_validation = self.drawn.total() == self.drawn["val"] > 0 and self.backward["val"] >= self.drawn["val"]
        split = "val" if only_validation else "train" if self.drawn["train"] else ""
        self.steps.setdefault(id(optimizer), Counter())[split] += 1
        self.stepped_batch = self.batch
        self.reset()

    def reset(self) -> None:
        """Forget the batches since the previous step."""
        self.drawn, self.backward = Counter(), Counter()
        self.cleared_batch, self.has_gradients = None, False

    @property
    def unused_batches(self) -> int:
        """Training batches that were drawn, if no forward pass followed any of them."""
        return 0 if self.training_passes else self.batch

    @property
    def validation_steps(self) -> int:
        """Steps on validation batches by optimizers that also step on training batches; all if none does.

        An optimizer with validation batches of its own, such as that of an architecture search, does not count.
        """
        trains = any(steps["train"] for steps in self.steps.values())
        return sum(steps["val"] for steps in self.steps.values() if steps["train"] or not trains)


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
        self.setup, self.split = setup, ""
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
class ShapeMismatch:
    """A comparison of shapes (size, 1) and (size,), which broadcasts to (size, size)."""

    size: int
    line: SourceLine | None


class ComparisonMonitor:
    """Monitors each ``==`` and stores the first that broadcasts, unless it compares a tensor with itself.

    Comparing a tensor with itself or a copy tests which pairs of samples are equal, which is intended.
    """

    def __init__(self) -> None:
        self.first_mismatch: ShapeMismatch | None = None
        self.inspected = 0

    def comparison_callback(self, wrap_callback: _CallbackWrapper) -> Callable[[tuple[Any, Any, Any]], None]:
        """Return the callback before each comparison, of any thread; broadcasting ones go through ``wrap_callback``."""
        inspect = wrap_callback(self.inspect)

        def on_comparison(call: tuple[Any, Any, Any]) -> None:
            left_operand, other_args, _ = call
            if (
                self.inspected < _MAX_INSPECTED_COMPARISONS
                and other_args
                and type(left_operand) is type(other_args[0]) is Tensor
            ):
                column, row = (
                    (left_operand, other_args[0]) if left_operand.dim() == 2 else (other_args[0], left_operand)
                )
                if row.dim() == 1 and not column.is_nested and column.shape == (len(row), 1) and len(row) > 1:
                    inspect((column, row))

        return on_comparison

    def inspect(self, pair: tuple[Tensor, Tensor]) -> None:
        """Inspect a column that is about to be compared with a row."""
        column, row = pair
        self.inspected += 1
        if self.first_mismatch is None and not torch.eq(column[:, 0], row).all():
            self.first_mismatch = ShapeMismatch(len(row), get_calling_line(sys._getframe(1)))


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
