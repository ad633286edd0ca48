"""Ring buffer of the last passes of a loop, from which a failed pass can be rerun."""

from __future__ import annotations

import cmath
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.non_finite import NonFiniteOrigin
from nbdebug.hooks.training_events import ALL_EVENTS, LOSS_ONLY, GradScalerCall
from nbdebug.preserve import Preserve
from nbdebug.replay.operation_blame import find_operation
from nbdebug.replay.recorded_pass import (
    BufferCopies,
    Incident,
    Phase,
    RecordedBatch,
    RecordedForward,
    RecordedPass,
    TensorCopies,
    autocast_state,
    copy_tensors,
    depends_on_context,
    largest_absolute_value,
    module_modes,
    random_state,
    size_in_bytes,
    state_tensors,
    tensor_versions,
    without_graph,
)
from nbdebug.setup import Setup
from nbdebug.source.location import get_calling_line

MAX_SMALL_PARAMETER = 4096  # values of a parameter
_MAX_PASSES, _MAX_FORWARDS, _MAX_PASS_BYTES = 32, 8, 64 << 20
MAX_WEIGHT_BYTES = 1 << 30  # bytes of parameters and buffers that are copied if a loss is not finite
MAX_FREEZES = 8
_RANDOMNESS_CHECK_INTERVAL = 64  # steps that are all checked for random numbers; later ones at this interval
_MAX_CONSECUTIVE_OVERFLOWS = 16  # consecutive: they reduce a GradScaler's initial scale, 2**16, to one


class _WeightBackup:
    """Weights of the step with the first non-finite loss, or of the last step, without device synchronization.

    Uses as much memory as the weights, and one pass over them per step.
    """

    def __init__(self, tensors: Sequence[Tensor], device: torch.device) -> None:
        self.tensors = list(tensors)
        self.copies = [tensor.detach().clone() for tensor in self.tensors]
        self.is_finite = self.is_step_finite = torch.ones((), dtype=torch.bool, device=device)

    def check_losses(self, losses: Sequence[Tensor], is_scaled: bool = False) -> None:
        """Check losses of the current step; if they are ``is_scaled`` by a GradScaler only NaN counts."""
        for loss in losses:
            is_finite = loss.detach().isnan().logical_not() if is_scaled else loss.detach().isfinite()
            self.is_step_finite = self.is_step_finite & is_finite.reshape(()).to(self.is_finite.device)

    @torch.no_grad()
    def update(self, finite: bool | Tensor = True) -> None:
        """Copy the weights before an update, while all losses and gradients are finite."""
        for copy, tensor in zip(self.copies, self.tensors, strict=True):
            copy.copy_(torch.where(self.is_finite.to(tensor.device), tensor, copy))
        self.is_step_finite = self.is_finite = self.is_finite & self.is_step_finite & finite


class _GradientCheck:
    """Checks the gradient of the first small parameter that has one, such as a bias.

    Non-finite values in a backward pass propagate to all earlier layers, and in each layer to the bias. Of a table they
    reach only the rows that were read, and never that of the padding.
    """

    def __init__(self, model: nn.Module) -> None:
        self.trainable = [p for p in model.parameters() if p.requires_grad]
        tables = {id(m.weight) for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
        dense = [p for p in self.trainable if id(p) not in tables]
        self.checked = [p for p in dense if p.numel() <= MAX_SMALL_PARAMETER] or dense or self.trainable

    def is_finite(self) -> bool:
        """Check whether the inspected gradient is free of NaN and Inf; synchronizes the device."""
        first = next(_dense_gradients(chain(self.checked, self.trainable)), None)
        if first is None or cmath.isfinite(first.sum().item()):
            return True
        return all(
            bool(gradient.isfinite().all()) for gradient in _dense_gradients(self.trainable)
        )  # a sum of finite numbers may overflow


def _dense_gradients(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the dense gradients."""
    for p in parameters:
        if (gradient := p.grad) is not None and gradient.layout is torch.strided:
            yield gradient


class RingBuffer:
    """Records batches, forward calls, losses and steps, and freezes the first pass that is not finite.

    On the CPU a loss is checked when its backward pass begins. Other devices are not synchronized: the caller fetches
    the losses and calls ``on_non_finite``; with ``keep_weights`` the device keeps the weights of that step. The caller
    sets the ``visibility`` of each step.
    """

    def __init__(self, setup: Setup, *, keep_weights: bool = False, deferred: bool | None = None) -> None:
        device = next(setup.eager_model.parameters()).device
        self.setup, self.device_name = setup, str(device)
        self.first_optimizer = next(iter(setup.optimizers), None)
        self.deferred = device.type != "cpu" if deferred is None else deferred
        self.weight_backup = _WeightBackup(state_tensors(setup), device) if keep_weights and self.deferred else None
        self.device_types = tuple(dict.fromkeys(("cpu", device.type)))
        self.buffer_copies, self.largest_weight = (
            BufferCopies(setup.eager_model),
            largest_absolute_value(list(setup.eager_model.parameters())),
        )
        self.current_pass = RecordedPass()
        self.last_batch: RecordedBatch | None = None
        self.random_state, self.autocast = random_state(self.device_name), autocast_state(self.device_types)
        self.depends_on_context, self.visibility = False, ALL_EVENTS
        self.passes: deque[tuple[int, RecordedPass]] = deque(maxlen=_MAX_PASSES)
        self.gradient_check = _GradientCheck(setup.eager_model)
        self.scaler: Any = None
        self.incidents: list[Incident] = []
        self.steps = self.freeze_count = self.overflows = 0
        self.last_non_finite_step = -1
        self.is_stepping = False
        self.loss_only_steps = 0

    @property
    def incident(self) -> Incident | None:
        """The first step that was not finite; None if there is none."""
        return self.incidents[0] if self.incidents else None

    @property
    def step(self) -> int:
        """Number of the current step, from one."""
        return self.steps + 1

    def on_batch(self, batch: Any, indices: tuple[int, ...] | None = None) -> None:
        """Record a batch of the training loader; ``indices`` are its dataset indices."""
        self.last_batch = RecordedBatch(batch, random_state(self.device_name) if self.setup.step_fn else {}, indices)

    def on_forward_begin(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the arguments of the model, in train mode, before it is called.

        Unless all events are visible, random and autocast state are not read again if inspected passes did not change
        them.
        """
        if len(self.current_pass.forwards) == _MAX_FORWARDS:
            del self.current_pass.forwards[0]
        if self.buffer_copies.buffers:
            self.buffer_copies.update()
        if self.depends_on_context or self.visibility is ALL_EVENTS:
            self.random_state, self.autocast = random_state(self.device_name), autocast_state(self.device_types)
        positional, keywords = without_graph(args), without_graph(kwargs) if kwargs else kwargs
        self.current_pass.forwards.append(
            RecordedForward(
                positional, keywords, self.random_state, self.autocast, tensor_versions(positional, keywords)
            )
        )

    def on_loss_call(self, args: tuple[Any, ...]) -> None:
        """Record the targets before a loss module is called."""
        self.current_pass.targets = without_graph(args[1:])

    def on_loss_scaled(self, scaler: Any) -> None:
        """Record that a GradScaler scaled a loss: Inf is then expected, NaN is not."""
        self.scaler = scaler

    def on_grad_scaler(self, event: GradScalerCall) -> None:
        """Record a call of a GradScaler."""
        if event.kind == "scale":
            self.on_loss_scaled(event.scaler)
        elif event.kind == "skipped" and event.optimizer is not None:
            self.on_step_skipped(event.optimizer)

    def on_backward_begin(self, roots: Sequence[Tensor], loss: float | None = None) -> None:
        """Record the start of a backward pass from some roots; ``loss`` is its loss if it is already known."""
        if (self.visibility is ALL_EVENTS and not self.depends_on_context) and (
            self.steps < _RANDOMNESS_CHECK_INTERVAL or self.steps % _RANDOMNESS_CHECK_INTERVAL == 0
        ):
            self.depends_on_context = depends_on_context(self.current_pass.forwards, random_state(self.device_name))
        ended_pass, self.current_pass = self.current_pass, RecordedPass()
        ended_pass.last_batch = self.last_batch
        self.passes.append((self.steps + 1, ended_pass))
        if len(self.passes) > 1:
            self.drop_old_passes()
        if self.deferred:
            if self.weight_backup:
                self.weight_backup.check_losses(
                    [root for root in roots if root.numel() == 1], is_scaled=self.scaler is not None
                )
        else:
            ended_pass.loss = self.total_loss(roots) if loss is None else loss
            if (
                ended_pass.loss is not None
                and not math.isfinite(ended_pass.loss)
                and (math.isnan(ended_pass.loss) or self.scaler is None)
            ):
                self.mark_non_finite("loss", lambda: self.operation_of_loss(roots))

    def total_loss(self, roots: Sequence[Tensor]) -> float | None:
        """Return the sum of some scalar losses, unscaled; None if there is none."""
        losses = [root.item() for root in roots if root.numel() == 1]
        return sum(losses) / (self.scaler.get_scale() if self.scaler else 1.0) if losses else None

    def on_backward_end(self) -> None:
        """Check the gradient after a backward pass within a step, as of LBFGS, or if there is no optimizer."""
        is_check_due = self.is_stepping or (self.first_optimizer is None and self.scaler is None)
        if is_check_due and not self.deferred and not self.gradient_check.is_finite():
            self.mark_non_finite("gradient")
        self.steps += self.first_optimizer is None

    def on_step_begin(self, optimizer: torch.optim.Optimizer, finite: bool | Tensor | None = None) -> None:
        """Record the start of an optimizer step; ``finite`` tells whether its gradients are, None if unknown."""
        self.is_stepping, self.overflows, self.scaler = True, 0, None
        self.first_optimizer = self.first_optimizer or optimizer
        if self.weight_backup and optimizer is self.first_optimizer:
            self.weight_backup.update(True if finite is None else finite)
        elif self.deferred or getattr(optimizer, "found_inf", None) is not None:  # it may skip the step
            return
        elif not (self.gradient_check.is_finite() if finite is None else finite):
            self.mark_non_finite("gradient")

    def count_loss_only_step(self) -> None:
        """Count a step of the first optimizer of which only the loss was recorded."""
        self.steps, self.loss_only_steps, self.last_batch = self.steps + 1, self.loss_only_steps + 1, None
        if not self.deferred:
            self.passes.clear()

    def on_step_end(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the end of an optimizer step."""
        self.is_stepping, self.loss_only_steps = False, 0
        if optimizer is self.first_optimizer:
            self.steps += 1
            if not self.deferred:
                self.passes.clear()

    def on_step_skipped(self, optimizer: torch.optim.Optimizer) -> None:
        """Record that a GradScaler skipped a step; this is expected until a lower scale no longer helps."""
        if optimizer not in (self.first_optimizer, *self.setup.optimizers):
            return
        self.overflows, self.scaler = self.overflows + 1, None
        if self.overflows == _MAX_CONSECUTIVE_OVERFLOWS and not self.deferred:
            self.mark_non_finite("gradient")
        self.steps += optimizer is self.first_optimizer

    def mark_non_finite(
        self, phase: Phase, find_operation: Callable[[], NonFiniteOrigin | None] = lambda: None
    ) -> None:
        """Freeze this step as not finite, unless the previous step was not finite either."""
        if self.last_non_finite_step < self.step - 1:
            self.freeze(phase, find_operation)
        self.last_non_finite_step = self.step

    def on_non_finite(self, step: int, phase: Phase = "loss", loss: float | None = None) -> None:
        """Record that values of a step arrived from the device and are not finite."""
        if self.incidents:
            return
        for pass_step, recorded_pass in self.passes:
            recorded_pass.loss = loss if pass_step == step else recorded_pass.loss
        self.freeze(phase, step=step)

    def abandoned_pass(self) -> Incident | None:
        """Return an incident for a pass that the loop abandoned before its backward pass; None if there is none."""
        if not self.current_pass.forwards or self.incidents or self.deferred:
            return None
        self.current_pass.last_batch = self.last_batch
        self.passes.append((self.step, self.current_pass))
        self.current_pass = RecordedPass()
        self.freeze("loss")
        return self.incidents.pop()

    def freeze(
        self, phase: Phase, find_operation: Callable[[], NonFiniteOrigin | None] = lambda: None, step: int | None = None
    ) -> None:
        """Copy the initial state of the pass; of several incidents the first and the last are stored."""
        if self.freeze_count == MAX_FREEZES:
            return
        self.freeze_count += 1
        step_number = step or self.step
        passes = [item for pass_step, item in self.passes if pass_step == step_number]
        if phase == "loss" and not self.deferred:
            passes = passes[-1:]
        notes = [] if passes else ["Its batch was no longer in memory."]
        if any(call.is_modified for item in passes for call in item.forwards):
            notes.append("Its inputs were modified in place after the pass began.")
        weights = self.initial_weights(notes)
        item = Incident(
            step=step_number,
            phase=phase,
            loss=passes[-1].loss if passes else None,
            passes=[item_to_copy.copy() for item_to_copy in passes],
            weights=weights,
            modes=module_modes(self.setup),
            largest_weights=(
                self.largest_weight,
                math.nan if weights is None and self.deferred else self.largest_initial_weight(weights),
            ),
            operation=find_operation(),
            line=get_calling_line(sys._getframe(1)),
            notes=notes,
            loss_only_steps=self.loss_only_steps + (self.visibility is LOSS_ONLY),
        )
        self.incidents = [*self.incidents[:1], item]

    def operation_of_loss(self, roots: Sequence[Tensor]) -> NonFiniteOrigin | None:
        """Analyze the graph of a loss if the model is small enough, since a checkpoint in it reruns the model."""
        if size_in_bytes(state_tensors(self.setup)) > MAX_WEIGHT_BYTES:
            return None
        with Preserve(*self.setup.mutable_objects):
            return find_operation(roots, get_calling_line(sys._getframe()))

    def initial_weights(self, notes: list[str]) -> TensorCopies | None:
        """Return the initial weights of the pass; None, with a note, if they are lost or too large to copy."""
        if self.weight_backup:
            return list(zip(self.weight_backup.tensors, self.weight_backup.copies, strict=True))
        tensors = state_tensors(self.setup)
        if self.deferred:
            notes.append("The weights had already been updated when the loss arrived from the device.")
        elif size_in_bytes(tensors) > MAX_WEIGHT_BYTES:
            notes.append(f"The weights take {size_in_bytes(tensors) / 1e9:.1f} GB and were not copied.")
        else:
            return copy_tensors(tensors, self.buffer_copies)
        return None

    def largest_initial_weight(self, weights: TensorCopies | None) -> float:
        """Return the largest initial weight of the pass."""
        copies = {id(tensor): value for tensor, value in weights or ()}
        return largest_absolute_value([copies.get(id(p), p) for p in self.setup.eager_model.parameters()])

    def drop_old_passes(self) -> None:
        """Drop passes of past steps, and the oldest of the others if they use much memory."""
        while not self.deferred and self.passes[0][0] <= self.steps:
            self.passes.popleft()
        if len(self.passes) > 1:
            self.passes[-1][1].with_size()
            while (
                len(self.passes) > 2 and sum(recorded_pass.bytes for _, recorded_pass in self.passes) > _MAX_PASS_BYTES
            ):
                self.passes.popleft()
