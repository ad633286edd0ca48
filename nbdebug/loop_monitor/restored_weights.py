"""Weights that a loop loads: at its end, which step they come from; before, the steps at which they replace others."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.loop_monitor.replaced_weights import ReplacedWeightsMonitor
from nbdebug.loop_monitor.reset_weights import ResetWeightsMonitor
from nbdebug.loop_monitor.step_groups import StepGroupMonitor
from nbdebug.loop_monitor.undone_updates import UndoneUpdateMonitor
from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.loop_monitor.write_trace import WriteTrace, is_plain_tensor
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.source.search import covers_line, syntax_tree

_MAX_FINGERPRINTS, _FINGERPRINT_TENSORS = 4096, 8
_MAX_KEPT_SHARE = 0.05  # an average of all steps keeps more, unless it ends before a twentieth of its own time constant
_MIN_EPOCHS = 2  # of a training, unlike a test of a single batch or of a few rates


@dataclass(frozen=True)
class RestoredWeights:
    """Weights that were loaded after the last step: the step they were evaluated at.

    ``line`` is the condition under which they were saved, or else the line that loaded them.
    """

    step: int
    line: SourceLine | None


@dataclass(frozen=True)
class UndoneTraining:
    """Weights that were loaded after the last of ``steps`` steps, and that are nearly those before the first one.

    ``share`` is the norm of their difference from the first weights, relative to that of the weights that they replace.
    It is zero for the first weights. ``line`` loaded them.
    """

    steps: int
    share: float
    line: SourceLine | None


class RestoredWeightsMonitor:
    """Remembers the weights of each evaluation by a fingerprint, and compares the weights that are loaded."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parameters = fingerprint_parameters(model)
        self.steps: dict[bytes, int] = {}
        self.saving_lines: dict[bytes, SourceLine | None] = {}
        self.latest_evaluation = -1
        self.restored: tuple[bytes, int, SourceLine | None] | None = None
        self.loads: dict[int, tuple[bytes, bytes]] = {}
        self.initial_fingerprint, self.last_load = b"", UndoneTraining(0, 1.0, None)
        self.are_trained_weights_taken = False
        self.replacement_monitor, self.reset_monitor = ReplacedWeightsMonitor(model), ResetWeightsMonitor(model)
        replacements = self.replacement_monitor
        self.undone_updates = UndoneUpdateMonitor(replacements.parameters, replacements.values)

    @property
    def write_traces(self) -> tuple[WriteTrace, ...]:
        """The traces of what writes the weights."""
        monitors = self.replacement_monitor, self.reset_monitor, self.undone_updates
        return tuple(monitor.write_trace for monitor in monitors)

    @property
    def is_trace_pending(self) -> bool:
        """True if the line that writes the weights may follow the next forward pass."""
        return self.reset_monitor.is_write_expected

    def on_step_end(self, optimizer: torch.optim.Optimizer) -> None:
        """Store the weights after a step of an optimizer."""
        self.are_trained_weights_taken = False
        self.replacement_monitor.on_step_end()
        self.undone_updates.on_step_end(self.replacement_monitor.latest)
        self.reset_monitor.on_step_end(optimizer)

    def on_forward_begin(self, step: int, is_evaluation: bool, groups: StepGroupMonitor) -> None:
        """Record the weights of a forward pass after ``step`` steps; ``groups`` are the batches of the steps so far."""
        if not step and not self.initial_fingerprint:
            self.initial_fingerprint = fingerprint(self.parameters.values())
        self.undone_updates.on_forward_begin(step)
        self.replacement_monitor.on_forward_begin(is_evaluation)
        self.reset_monitor.on_forward_begin(not is_evaluation and groups.is_at_epoch_start)
        if is_evaluation:
            self.on_evaluation(step)

    def on_forward_end(self, output: Any) -> None:
        """Go on to trace what writes weights between the passes of an evaluation."""
        self.reset_monitor.trace()

    def on_evaluation(self, step: int) -> None:
        """Store the fingerprint of the weights at the first pass of an evaluation after ``step`` steps."""
        if step != self.latest_evaluation and len(self.steps) < _MAX_FINGERPRINTS:
            self.latest_evaluation = step
            self.steps.setdefault(fingerprint(self.parameters.values()), step)

    def on_state_dict(self, module: nn.Module) -> None:
        """Store the line that first takes the state of evaluated weights."""
        self.are_trained_weights_taken |= module is self.model
        if module is self.model and self.steps:
            key = fingerprint(self.parameters.values())
            if key in self.steps and key not in self.saving_lines:
                self.saving_lines[key] = get_calling_line(sys._getframe(1))

    def on_load(self, call: tuple[Any, Any, Any], step: int) -> None:
        """Compare a state that is about to be loaded with those of the evaluations."""
        module, args, kwargs = call
        state = args[0] if args else kwargs.get("state_dict")
        if module is not self.model or not isinstance(state, Mapping):
            return
        values = [state.get(name) for name in self.parameters]
        tensors = [value for value in values if isinstance(value, Tensor)]
        if len(tensors) != len(values):
            return
        loaded = fingerprint(tensors)
        if not step:
            self.initial_fingerprint = loaded
        elif self.initial_fingerprint:
            self.last_load = UndoneTraining(
                step, self.remaining_change_share(loaded, step), get_calling_line(sys._getframe(1))
            )
        if step in self.loads or len(self.loads) < _MAX_FINGERPRINTS:
            before, _ = self.loads.get(step) or (fingerprint(self.parameters.values()), b"")
            self.loads[step] = before, loaded
        if self.steps:
            self.restored = loaded, step, get_calling_line(sys._getframe(1))

    def remaining_change_share(self, loaded: bytes, step: int) -> float:
        """Return how much of the change since the start remains in a state that is about to be loaded after ``step``.

        It is 1 for weights that are loaded on purpose: those that were evaluated, such as the best ones of a training
        that only made them worse, and the first ones, if the trained weights were stored, as their state or as other
        tensors, or if they were loaded after earlier steps, too, as between several trainings.
        """
        current = fingerprint(self.parameters.values())
        first, kept, trained = (
            np.frombuffer(values, np.float32) for values in (self.initial_fingerprint, loaded, current)
        )
        is_repeated = any(0 < earlier < step and after == loaded for earlier, (_, after) in self.loads.items())
        is_restart = loaded == self.initial_fingerprint and (
            self.are_trained_weights_taken or is_repeated or _has_copy(max(self.parameters.values(), key=Tensor.numel))
        )
        if loaded in self.steps or is_restart or not len(first) == len(kept) == len(trained):
            return 1.0
        change = float(np.linalg.norm(trained - first))
        return float(np.linalg.norm(kept - first)) / change if change > 0 else 1.0

    def undone_training(self, steps: int, epochs: int) -> UndoneTraining | None:
        """Return the load after the last of ``steps`` steps that undid all ``epochs`` epochs of the training."""
        is_last = self.last_load.steps == steps > 0 and epochs >= _MIN_EPOCHS
        return self.last_load if is_last and self.last_load.share < _MAX_KEPT_SHARE else None

    def replacements(self, steps: int) -> tuple[int, ...]:
        """Return the steps within a run of ``steps`` steps after which other weights were loaded, and not put back."""
        return tuple(step for step, (before, after) in self.loads.items() if 0 < step < steps and before != after)

    def summary(self, steps: int) -> RestoredWeights | None:
        """Return the step of the weights that were loaded after the last of ``steps`` steps; None if it is unknown."""
        if self.restored is None or self.restored[1] != steps or self.restored[0] not in self.steps:
            return None
        key, _, load_line = self.restored
        return RestoredWeights(self.steps[key], _condition_around(self.saving_lines.get(key)) or load_line)


def fingerprint_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of a model whose values identify its weights, by name."""
    return dict([*model.named_parameters()][-_FINGERPRINT_TENSORS:])


@torch.no_grad()
def _has_copy(weight: Tensor) -> bool:
    """Return whether another tensor of the process has the values of a weight, as in a copy of the model.

    Asks the garbage collector for all objects, and so only when a loop loads its first weights.
    """
    tensors = [value for value in gc.get_objects() if is_plain_tensor(value) and value.shape == weight.shape]
    return any(
        tensor.data_ptr() != weight.data_ptr() and torch.equal(tensor.to(weight.device, weight.dtype), weight)
        for tensor in tensors
        if tensor.device.type != "meta"
    )


@torch.no_grad()
def fingerprint(tensors: Iterable[Tensor]) -> bytes:
    """Return some values of each tensor as bytes."""
    values = [first_values(tensor).float().cpu() for tensor in tensors]
    return torch.cat(values).numpy().tobytes() if values else b""


def _condition_around(line: SourceLine | None) -> SourceLine | None:
    """Return the line of the innermost condition whose body contains a line; None if there is none."""
    tree = syntax_tree(line.file) if line is not None else None
    if line is None or tree is None:
        return None
    numbers = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and any(covers_line(child, line.number) for child in node.body)
    ]
    return SourceLine(line.file, max(numbers)) if numbers else None
