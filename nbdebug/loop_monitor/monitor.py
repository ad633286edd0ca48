"""Monitors the events of the user's own training loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.hooks.device_syncs import SyncCall, observe_device_syncs
from nbdebug.hooks.module_hooks import observe_mode_switches
from nbdebug.hooks.training_events import (
    ALL_EVENTS,
    ClippingCall,
    GradScalerCall,
    observe_call_arguments,
    observe_calls,
    observe_clipping,
    observe_grad_scaler,
    observe_results,
)
from nbdebug.loop_monitor.accumulated_losses import AccumulationCounter, BatchPartCounter
from nbdebug.loop_monitor.backward_origins import BackwardLeafMonitor, RootVariables
from nbdebug.loop_monitor.batch_alignment import BatchAlignmentMonitor
from nbdebug.loop_monitor.evaluation_monitor import EvaluationMonitor
from nbdebug.loop_monitor.event_stacks import OptimizerNames, Stack, user_stack
from nbdebug.loop_monitor.grad_scaler import GradScalerMonitor
from nbdebug.loop_monitor.gradient_accumulation import ClippingMonitor, GradientVersions, TrackedOptimizer
from nbdebug.loop_monitor.gradient_changes import GradientChangeMonitor
from nbdebug.loop_monitor.inspection_plan import ALWAYS_INSPECTED_STEPS, InspectionPlan
from nbdebug.loop_monitor.leftover_gradients import LeftoverGradientMonitor
from nbdebug.loop_monitor.loss_graph import (
    LossOperands,
    NormalizedTwice,
    find_normalized_twice,
    loss_operands,
    nearest_graph,
)
from nbdebug.loop_monitor.loss_leaves import LossLeafMonitor
from nbdebug.loop_monitor.loss_weights import LossWeights
from nbdebug.loop_monitor.modes import (
    BatchOrderMonitor,
    BatchUseCounter,
    DeviceSyncCounter,
    ModeMonitor,
)
from nbdebug.loop_monitor.optimizers import OptimizerTracking
from nbdebug.loop_monitor.parameter_updates import (
    ClearedGradientMonitor,
    FrozenStepMonitor,
    ParameterTracker,
    tied_parameters,
)
from nbdebug.loop_monitor.pass_data import SplitMemory
from nbdebug.loop_monitor.restored_weights import RestoredWeightsMonitor
from nbdebug.loop_monitor.resumption import ResumptionMonitor
from nbdebug.loop_monitor.retained_graphs import RetainedGraphCounter
from nbdebug.loop_monitor.rounded_updates import RoundedUpdates
from nbdebug.loop_monitor.schedules import SchedulerMonitor
from nbdebug.loop_monitor.step_groups import StepGroupMonitor
from nbdebug.loop_monitor.training_averages import TrainingAverageMonitor
from nbdebug.loop_monitor.triplet_passes import TripletMonitor
from nbdebug.loop_monitor.unbounded_losses import HomogeneousLossMonitor
from nbdebug.loop_monitor.weight_aliases import WeightAliasMonitor
from nbdebug.loop_monitor.weight_copies import StateDictLoadMonitor, WeightCopyMonitor
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind, get_loss_kind
from nbdebug.setup.setup import unwrap_optimizer
from nbdebug.source.location import SourceLine, get_calling_line

_MAX_SAMPLED_PARAMETERS = 64  # parameters whose gradients show whether a backward pass belongs to this model
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


class LoopMonitor(OptimizerTracking):
    """Records backward passes, cleared gradients, optimizer steps and scheduler steps, and counts them in order.

    The steps of the ``first_optimizer`` optimizer count as those of the loop. The caller sets the ``visibility`` of
    each step; unless it is ``ALL_EVENTS``, backward passes and steps are only counted.

    A monitor that raises is not called again; its exception is added to ``errors``, under its name.
    """

    def __init__(self, setup: Setup, errors: dict[str, str] | None = None) -> None:
        super().__init__(setup)
        self.errors = {} if errors is None else errors
        self.parameter_tracker = ParameterTracker(self.model)
        self.clipping_monitor, self.grad_scaler_monitor = ClippingMonitor(), GradScalerMonitor()
        self.accumulation_counter, self.batch_alignment = AccumulationCounter(), BatchAlignmentMonitor()
        self.mode_monitor, self.rounded_updates = ModeMonitor(self.model), RoundedUpdates(self.model)
        self.retained_graph_counter = RetainedGraphCounter(self.model)
        self.gradient_changes, self.weight_aliases = GradientChangeMonitor(), WeightAliasMonitor(self.model)
        self.scheduler_monitor = SchedulerMonitor(setup.schedulers, self.tracked_optimizers)
        self.resumption = ResumptionMonitor(setup.optimizers, self.scheduler_monitor)
        self.batch_order_monitor = BatchOrderMonitor(setup)
        self.batch_parts = BatchPartCounter(self.batch_alignment, self.tracked_optimizers)
        self.state_dict_monitor = StateDictLoadMonitor(self.own_parameter_shapes)
        self.weight_copy_monitor = WeightCopyMonitor(self.model)
        self.sampled_parameters, self.tied_parameters = self.sample_parameters(), tied_parameters(self.model)
        self.step_groups, self.split_memory = StepGroupMonitor(self.sampled_parameters), SplitMemory(setup)
        self.cleared_gradients = ClearedGradientMonitor(self.parameter_tracker)
        self.gradient_versions = GradientVersions(self.sampled_parameters)
        self.concerns_model, self.has_reached_model, self.is_only_model = True, False, True
        self.batch_use_counter, self.device_sync_counter, self.tracked_steps = BatchUseCounter(), DeviceSyncCounter(), 0
        self.leftover_gradients = LeftoverGradientMonitor(self.tracked_optimizers)
        self.root_variables, self.evaluation = RootVariables(), EvaluationMonitor(setup, lambda: self.loss_kind)
        self.leaf_monitor = BackwardLeafMonitor(self.own_parameter_shapes, can_trace=not setup.is_compiled)
        self.restored_weights, self.loss_leaves = RestoredWeightsMonitor(self.model), LossLeafMonitor(setup)
        self.training_averages, self.frozen_steps = TrainingAverageMonitor(setup), FrozenStepMonitor()
        self.homogeneous_losses, self.triplets = HomogeneousLossMonitor(), TripletMonitor()
        self.loss_operands: LossOperands | None = None
        self.normalized_twice: NormalizedTwice | None = None
        self.is_scaled_loss, self.loss_weights = False, LossWeights(Graph(None, ()), (), None)
        self.plan, self.visibility = InspectionPlan(), ALL_EVENTS
        self.backward_line: SourceLine | None = None
        self.lines, self.stacks, self.optimizer_names = dict[str, SourceLine](), dict[str, Stack](), OptimizerNames()

    def hooks(self, wrap_callback: _CallbackWrapper) -> list[AbstractContextManager[None]]:
        """Return hooks for all events except passes, steps and batches; ``wrap_callback`` wraps each callback."""
        hooks: list[AbstractContextManager[None]] = [
            observe_calls(
                torch.optim.Optimizer, "zero_grad", self.if_tracked(wrap_callback(self.on_gradients_cleared))
            ),
            observe_calls(nn.Module, "zero_grad", self.if_tracked(wrap_callback(self.on_gradients_cleared))),
            observe_call_arguments(nn.Module, "load_state_dict", wrap_callback(self.on_load_state_dict)),
            observe_results(nn.Module, "state_dict", wrap_callback(self.on_state_dict)),
            observe_call_arguments(Tensor, "copy_", wrap_callback(self.weight_aliases.on_copy)),
            observe_clipping(wrap_callback(self.on_clipping)),
            observe_grad_scaler(wrap_callback(self.on_grad_scaler)),
            observe_mode_switches(wrap_callback(self.mode_monitor.on_mode_switch)),
            self.leaf_monitor.tracing_ended(),
            *self.resumption.hooks(wrap_callback),
            self.parameter_tracker.registrations.hooks(wrap_callback),
        ]
        traces = [self.rounded_updates.write_trace, self.gradient_changes.write_trace, self.weight_aliases.trace]
        traces += [self.weight_copy_monitor.write_trace, *self.restored_weights.write_traces]
        hooks += map(closing, (self.batch_alignment, *traces, self.evaluation.decisions.trace))  # type: ignore[arg-type]
        hooks += self.evaluation.hooks(wrap_callback) + self.batch_order_monitor.empty_epochs.hooks(wrap_callback)
        if (device_type := self.setup.model_device.type) == "cuda":
            hooks.append(observe_device_syncs(device_type, wrap_callback(self.on_device_sync)))
        return hooks + self.scheduler_monitor.hooks(wrap_callback)

    def if_tracked(self, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a callback that does nothing in steps whose event order is not tracked."""
        return lambda value: callback(value) if self.visibility is ALL_EVENTS else None

    @property
    def needs_all_events(self) -> bool:
        """True if the order of events must be tracked in the step that begins.

        It must if the step is inspected or its graphs are marked, if losses are scaled, and if several optimizers or
        models take turns.
        """
        return (
            self.plan.is_inspection_due
            or self.plan.marks_graphs
            or len(self.tracked_optimizers) != 1
            or not self.is_only_model
            or self.grad_scaler_monitor.scaler is not None
        )

    @property
    def steps(self) -> int:
        """Number of steps of all optimizers; number of backward passes if none has stepped."""
        return sum([tracked.steps for tracked in self.tracked_optimizers.values()]) or self.backward_passes

    @property
    def row_steps(self) -> int:
        """Number of steps of the first optimizer, each of which ends a row of the record."""
        return self.tracked_optimizers[id(self.first_optimizer)].steps if self.first_optimizer else self.steps

    def plan_next_step(self, steps: int) -> None:
        """Plan the step after ``steps`` steps."""
        self.plan.plan_next_step(steps, had_all_events=self.visibility is ALL_EVENTS)
        self.batch_alignment.is_active = self.plan.is_inspection_due

    def attempt(self, method: Callable[..., Any], *args: Any) -> None:
        """Call a method of a monitor, unless that monitor has raised before: its failure must not end the others."""
        name = type(method.__self__).__name__  # type: ignore[attr-defined]
        if name not in self.errors:
            try:
                method(*args)
            except Exception as error:
                self.errors[name] = f"{type(error).__name__}: {error}"

    def on_batch(self, event: tuple[Any, Any, float]) -> None:
        """Record a batch of any loader: (iterator, batch, seconds waited)."""
        split = self.mode_monitor.split = self.batch_order_monitor.record_batch(*event[:2])
        self.attempt(self.mode_monitor.repeated_passes.on_batch)
        self.attempt(self.batch_use_counter.on_batch, split, self.steps)
        for source_monitor in (self.step_groups, self.evaluation.folds):
            self.attempt(source_monitor.on_batch, split, event[0])
        for monitor in (self.batch_alignment, *self.evaluation.of_batches):
            self.attempt(monitor.on_batch, split, event[1])
        if split == "train":
            self.record_line("batch")
            for tracked in self.tracked_optimizers.values():
                tracked.interval.batches += 1

    def wants_output(self) -> bool:
        """True if the next output of the model provides new information."""
        is_tracked = self.plan.marks_graphs and self.visibility is ALL_EVENTS
        is_needed = is_tracked or self.plan.is_inspecting or self.evaluation.wants_output
        is_new = self.mode_monitor.shape is None or self.restored_weights.is_trace_pending
        return is_needed or is_new or self.evaluates_with_gradients

    @property
    def evaluates_with_gradients(self) -> bool:
        """True if a pass on a validation batch, in eval mode or between two batches creates an unmarked graph."""
        is_evaluation = self.mode_monitor.split == "val" or not self.model.training
        is_between = not self.plan.marks_graphs and self.steps > self.batch_use_counter.steps_before_batch
        return (is_evaluation or is_between) and torch.is_grad_enabled()

    def on_forward_begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the start of a forward pass of the whole model."""
        split = self.split_memory.find_split(args, kwargs, self.mode_monitor.split)
        self.attempt(self.mode_monitor.on_forward_begin, split, self.steps)
        is_training = self.model.training
        self.attempt(self.mode_monitor.repeated_passes.on_forward_begin, split, is_training, args, kwargs)
        is_evaluation = split == "val" or not torch.is_grad_enabled()
        self.attempt(self.restored_weights.on_forward_begin, self.row_steps, is_evaluation, self.step_groups)
        self.attempt(self.batch_use_counter.on_forward_begin, split)
        self.attempt(self.step_groups.on_forward_begin, split)
        self.attempt(self.evaluation.batches.on_forward_begin, split, self.steps, is_training)
        self.attempt(self.evaluation.on_forward_begin, self.steps, args, kwargs)
        for monitor in (self.evaluation.correct_counts, self.evaluation.decisions, self.evaluation.folds):
            self.attempt(monitor.on_forward_begin)
        for data_monitor in (self.batch_alignment, self.batch_parts, self.triplets):
            self.attempt(data_monitor.on_forward_begin, self.mode_monitor.split, args, kwargs)

    def on_forward_end(self, output: Any) -> None:
        """Record the end of a forward pass of the whole model."""
        for monitor in (self.mode_monitor, self.restored_weights, *self.evaluation.of_outputs):
            self.attempt(monitor.on_forward_end, output)
        self.attempt(self.batch_alignment.on_forward_end, output)
        for gradient_monitor in (self.homogeneous_losses, self.triplets) if self.plan.is_inspecting else ():
            self.attempt(gradient_monitor.on_forward_end, output)
        if self.evaluates_with_gradients:
            self.attempt(self.retained_graph_counter.mark_evaluation, output, self.steps)
        elif self.plan.marks_graphs:
            self.attempt(self.retained_graph_counter.mark, output, self.steps)

    def on_backward_begin(self, roots: Sequence[Tensor]) -> None:
        """Record the start of a backward pass from some roots."""
        if self.visibility is not ALL_EVENTS:
            return
        self.record_line("backward")
        if self.batch_use_counter.has_gradients and all(p.grad is None for p in self.sampled_parameters):
            self.attempt(self.batch_use_counter.on_gradients_cleared)  # by code of the user's own
        self.attempt(self.step_groups.on_backward_begin)
        self.attempt(self.leftover_gradients.on_backward_begin, roots)
        self.attempt(self.root_variables.record, roots, self.setup.files, sys._getframe(1))
        self.attempt(self.optimizer_names.record, self.setup.optimizers, sys._getframe(1))
        self.is_scaled_loss = self.grad_scaler_monitor.starts_from_scaled_loss(roots)
        self.gradient_versions = GradientVersions(self.sampled_parameters)
        if self.plan.marks_graphs and not self.mode_monitor.current_pass:
            self.attempt(self.retained_graph_counter.mark, roots, self.steps)
        if not self.plan.is_inspecting:
            return
        self.plan.inspected_passes += 1
        if self.follow_parameters():
            self.sampled_parameters[:] = self.sample_parameters()
        for tracked in self.tracked_optimizers.values():
            tracked.on_backward_begin()
        self.attempt(self.leaf_monitor.on_backward_begin, roots)
        self.attempt(self.homogeneous_losses.on_backward_begin, roots)
        self.inspect_loss(roots)
        self.backward_line = get_calling_line(sys._getframe(1))

    def inspect_loss(self, roots: Sequence[Tensor]) -> None:
        """Read what the graph of a loss shows."""
        graph = nearest_graph(roots)
        self.attempt(self.batch_alignment.on_backward_begin, graph)
        self.loss_weights = LossWeights(graph, roots, self.loss_scale)
        self.loss_operands = self.loss_operands or loss_operands(graph)
        if self.backward_passes < ALWAYS_INSPECTED_STEPS and self.normalized_twice is None:
            self.normalized_twice = next((names for _, names in find_normalized_twice(graph)), None)

    @property
    def loss_kind(self) -> LossKind:
        """Kind of the loss in the loop, that of the setup before a step was inspected."""
        return self.loss_operands.kind if self.loss_operands else get_loss_kind(self.setup.loss_fn)

    @property
    def loss_scale(self) -> Tensor | None:
        """Factor of a GradScaler in the loss of the latest backward pass."""
        return self.grad_scaler_monitor.scale if self.is_scaled_loss else None

    def sample_parameters(self) -> list[Tensor]:
        """Return evenly spaced parameters of the model."""
        parameters: list[Tensor] = [*self.model.parameters()]
        return parameters[:: 1 + len(parameters) // _MAX_SAMPLED_PARAMETERS]

    def unscaled_loss(self, root: Tensor) -> Tensor:
        """Return the loss of the latest backward pass, without the factor of a GradScaler."""
        return root.detach() / self.loss_scale if self.loss_scale is not None else root

    def on_backward_end(self) -> None:
        """Record the end of a backward pass, and set ``concerns_model``.

        A pass that adds to no gradient of this model belongs to another model, if earlier passes did add to one.
        """
        if self.visibility is not ALL_EVENTS:
            return self.count_untracked_backward()
        is_sample_incomplete = (
            len(self.sampled_parameters) < len(self.own_parameter_shapes) and self.mode_monitor.current_pass is not None
        )
        reached_model = self.gradient_versions.have_changed or is_sample_incomplete
        self.has_reached_model |= reached_model
        self.concerns_model = reached_model or not self.has_reached_model
        if not self.concerns_model:
            self.is_only_model = False
            return
        self.backward_passes += 1
        for monitor in (self.double_update_counter, self.mode_monitor, self.leftover_gradients):
            self.attempt(monitor.on_backward_end)
        self.attempt(self.batch_use_counter.on_backward_end, self.mode_monitor.split)
        if self.plan.marks_graphs:
            self.attempt(self.retained_graph_counter.on_backward, self.steps)
        for tracked in self.tracked_optimizers.values():
            tracked.count_pass(self.is_scaled_loss, self.loss_weights, self.backward_line)
        if self.plan.is_inspecting:
            for inspecting in (self.cleared_gradients, self.homogeneous_losses, self.triplets):
                self.attempt(inspecting.on_backward_end)
            self.attempt(self.gradient_changes.on_backward_end, self.sampled_parameters, self.loss_weights)
        if not self.tracked_optimizers:
            if self.rounded_updates.parameter_names and self.plan.is_inspecting:
                self.attempt(self.rounded_updates.compare_windows, self.model.parameters(), 1.0, self.steps)
            self.attempt(self.mode_monitor.on_step_end)
            self.attempt(self.batch_alignment.on_step_end)
            self.plan_next_step(self.steps)

    def traced_lines(self) -> dict[str, SourceLine]:
        """Return the user's lines that write to weights or gradients, by event."""
        traces = {"update": self.rounded_updates.write_trace, "gradient": self.gradient_changes.write_trace}
        return {event: trace.line for event, trace in traces.items() if trace.line}

    def on_state_dict(self, call: tuple[Any, Any, Any, Any]) -> None:
        """Record the state of a module that was taken."""
        self.attempt(self.state_dict_monitor.origins.record, call)
        self.attempt(self.restored_weights.on_state_dict, call[0])

    def on_load_state_dict(self, call: tuple[Any, Any, Any]) -> None:
        """Record a state that is about to be loaded."""
        for monitor in (self.state_dict_monitor, self.weight_aliases):
            self.attempt(monitor.on_load, call)
        self.attempt(self.restored_weights.on_load, call, self.row_steps)

    def on_gradients_cleared(self, owner: Any) -> None:
        """Record that the gradients of an optimizer or a module were cleared."""
        self.record_line("zero_grad")
        self.attempt(self.batch_use_counter.on_gradients_cleared, sys._getframe(1))
        cleared = [owner] if id(owner) in self.tracked_optimizers else unwrap_optimizer(owner)
        for tracked in self.tracked_optimizers.values():
            if any(tracked.optimizer is optimizer for optimizer in cleared) or (
                isinstance(owner, nn.Module) and tracked.shares_parameters_with(owner)
            ):
                tracked.interval.on_cleared()

    def on_clipping(self, clip: ClippingCall) -> None:
        """Record a clipping call."""
        self.record_line("clip")
        optimizer = next(
            (tracked for p in clip.parameters if (tracked := self.optimizer_by_parameter.get(id(p)))), None
        )
        self.attempt(self.clipping_monitor.record_call, clip, optimizer, sys._getframe(1))

    def on_grad_scaler(self, event: GradScalerCall) -> None:
        """Record a GradScaler call."""
        self.record_line(event.kind)
        self.attempt(self.grad_scaler_monitor.record_call, event, self.tracked_optimizers.get(id(event.optimizer)))
        if event.kind == "skipped":
            self.mode_monitor.mode_before_step, self.plan.inspected_passes = None, 0
            self.attempt(self.step_groups.on_step_skipped)

    def on_device_sync(self, sync: SyncCall) -> None:
        """Record that a value was fetched from the device, except in a pass over validation batches."""
        if self.plan.is_inspection_due and self.mode_monitor.split != "val":
            self.attempt(self.device_sync_counter.record_sync, sync)

    def on_step_begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the start of an optimizer step."""
        if optimizer is not self.first_optimizer:
            self.follow_successor(self.tracked_optimizers[id(optimizer)])
        self.attempt(self.resumption.on_step_begin, optimizer)
        if self.visibility is not ALL_EVENTS:
            return
        self.record_line("optimizer")
        self.attempt(self.weight_aliases.on_step_begin)
        self.attempt(self.weight_copy_monitor.write_trace.close)
        tracked = self.tracked_optimizers[id(optimizer)]
        tracked.on_step_begin()
        for monitor in (self.double_update_counter, self.leftover_gradients, self.frozen_steps, self.leaf_monitor):
            self.attempt(monitor.on_step_begin, tracked)
        for scale_monitor in (self.grad_scaler_monitor, self.accumulation_counter):
            self.attempt(scale_monitor.on_step_begin, tracked)
        if self.plan.is_inspecting:
            if not tracked.interval.has_backward:  # the loop computes gradients without backward()
                self.attempt(self.parameter_tracker.check_gradients)
            self.attempt(self.gradient_changes.on_step_begin, tracked)
            self.attempt(self.cleared_gradients.on_step_begin, tracked)
        if self.rounded_updates.parameter_names and self.plan.is_inspecting:
            self.attempt(self.rounded_updates.on_step_begin, tracked)

    def on_step_end(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the end of an optimizer step."""
        tracked = self.tracked_optimizers[id(optimizer)]
        if self.visibility is not ALL_EVENTS:
            return self.count_untracked_step(tracked)
        tracked.on_step_end(sys._getframe(1))
        self.attempt(self.restored_weights.on_step_end, optimizer)
        self.attempt(self.double_update_counter.on_step_end, tracked, sys._getframe(1))
        self.tracked_steps += 1
        self.attempt(self.step_groups.on_step_end, optimizer)
        for monitor in (self.leaf_monitor, self.rounded_updates, self.mode_monitor, self.batch_use_counter):
            self.attempt(monitor.on_step_end)
        self.attempt(self.batch_alignment.on_step_end)
        self.device_sync_counter.checked_steps += self.plan.is_inspection_due
        self.plan_next_step(self.steps)
        if self.plan.is_inspection_due:
            self.attempt(self.retained_graph_counter.count_alive, self.steps)
            self.attempt(self.weight_copy_monitor.inspect, sys._getframe(1))
            self.attempt(self.weight_aliases.on_step_end, sys._getframe(1))
        if self.steps == ALWAYS_INSPECTED_STEPS:
            self.attempt(self.parameter_tracker.check_values)

    def count_untracked_backward(self) -> None:
        """Count a backward pass whose events are not tracked."""
        self.backward_passes += 1
        self.attempt(self.step_groups.on_backward_begin)
        for tracked in self.tracked_optimizers.values():
            tracked.interval.has_backward = True

    def count_untracked_step(self, tracked: TrackedOptimizer) -> None:
        """Count a step whose events were not tracked, and reset its interval; there is only one optimizer."""
        self.batch_use_counter.reset()
        self.attempt(self.restored_weights.on_step_end, tracked.optimizer)
        self.attempt(self.step_groups.on_step_end, tracked.optimizer)
        tracked.on_untracked_step_end()
        self.plan_next_step(tracked.steps)

    def record_line(self, event: str) -> None:
        """Store the user's line of an event when it first occurs."""
        if event not in self.stacks:
            stack = self.stacks[event] = user_stack(sys._getframe(2))
            self.lines.update({event: stack[0]} if stack else {})
