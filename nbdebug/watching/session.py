"""One watched run: the handlers of each event of the user's loop."""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.hooks.module_hooks import (
    SubmoduleOutputs,
    observe_first_loss_call,
    observe_forward_passes,
    observe_loss_calls,
)
from nbdebug.hooks.training_events import (
    ALL_EVENTS,
    LOSS_ONLY,
    BackwardRoots,
    has_closure,
    is_iterator_of,
    observe_all_steps,
    observe_backward_passes,
    observe_batches,
    observe_grad_scaler,
)
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.loop_monitor.learned_unpacking import LearnedUnpack, learn_unpack
from nbdebug.loop_monitor.step_trace import StepTrace
from nbdebug.measurements import measurement_descriptions
from nbdebug.preserve import open_blocks
from nbdebug.records import Record
from nbdebug.replay import RingBuffer
from nbdebug.rule_engine.checkup import FirstStep, judge_step
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.source.location import SourceLine
from nbdebug.tensors.sampling import MAX_SAMPLES_PER_TENSOR, TensorSampler
from nbdebug.watching.fast_path import FastPath
from nbdebug.watching.held_out_samples import FixedSamples
from nbdebug.watching.layer_statistics import LayerStatistics
from nbdebug.watching.optimizer_steps import LayerSnapshot, Match, StepSampler, WatchedModules, square_root
from nbdebug.watching.step_recorder import Number, StepRecorder, defer_scalar, describe_setup, sum_if_on_host
from nbdebug.watching.time_budget import TimeBudget

_FULL_SNAPSHOT_INTERVAL = 8  # with `every`, one snapshot in so many includes dead units and largest values


class WatchSession:
    """Handles the events of a loop and fills a record; ``at_boundary`` is true once after each whole step."""

    def __init__(self, setup: Setup, time_budget: TimeBudget, match: Match = None) -> None:
        self.setup, self.time_budget = setup, time_budget
        self.record = Record(about=describe_setup(setup))
        self.loop_monitor, self.recorder = LoopMonitor(setup, time_budget.errors), StepRecorder(self.record)
        modules = WatchedModules(setup.eager_model, match)
        self.max_values = MAX_SAMPLES_PER_TENSOR if time_budget.every is None else MAX_SAMPLES_PER_TENSOR // 4
        self.snapshot_count = 0
        sampler = TensorSampler(list(modules.parameters.values()), self.max_values)
        self.modules, self.layer_statistics = modules, LayerStatistics(modules, sampler, self.record)
        self.step_sampler = StepSampler(modules, sampler)
        self.outputs = SubmoduleOutputs(setup.eager_model, self.take_output, modules.selects)
        self.fixed_samples = FixedSamples.from_setup(setup)
        self.record.about.update(self.fixed_samples.data_summary)
        self.record.modules = modules.layers(set())
        self.measure_fixed_samples(0)
        self.fixed_samples.total_seconds, self.fixed_samples.measurements = 0.0, 0
        self.at_boundary = self.epoch_ended = self.gradients_changed = False
        self.learned_unpack: LearnedUnpack | None = None
        self.losses: list[Number] = []
        self.iterator: weakref.ref[Any] | None = None
        self.skipped_steps, self.ring, self.lines = 0, RingBuffer(setup), dict[str, SourceLine]()
        self.batches_per_epoch = int(self.record.about.get("batches_per_epoch", 0))
        self.fast_path, self.step_trace, self.first_step = FastPath(self), StepTrace(setup), FirstStep()
        measurement_descriptions()  # imports the measurements of the first step before the loop
        if setup.model_device.type == "cuda":
            self.time_budget.is_capturing = torch.cuda.is_current_stream_capturing
        self.prepare_step()

    def hooks(self, between_steps: Callable[[], None]) -> list[AbstractContextManager[None]]:
        """Return all hooks; each counts its cost and stores its exceptions.

        ``between_steps`` is called after each whole step, and may end the loop by raising.
        """
        timed, loop_monitor, setup = self.time_budget.timed, self.loop_monitor, self.setup
        on_step, on_backward = timed("steps", self.after_step), timed("losses", self.after_backward)
        on_loss_call = timed("replay", self.loss_operands_passed, always=False)

        def notify_after(callback: Callable[[Any], None]) -> Callable[[Any], None]:
            def call(*args: Any) -> None:
                callback(*args)
                if self.at_boundary:
                    self.at_boundary = False
                    between_steps()

            return call

        return [
            observe_backward_passes(timed("backward", self.before_backward), notify_after(on_backward)),
            observe_all_steps(timed("gradients", self.before_step, always=False), notify_after(on_step)),
            *loop_monitor.hooks(self.time_budget.guarded),
            observe_forward_passes(
                setup.model,
                timed("passes", self.model_called),
                timed("outputs", self.model_returned),
                self.wants_model_output,
            ),
            observe_grad_scaler(timed("replay", self.ring.on_grad_scaler)),
            observe_first_loss_call(setup.loss_fn, self.loss_called),
            observe_loss_calls(setup.loss_fn, on_loss_call, timed("evaluations", self.evaluation_loss_computed)),
            observe_batches(timed("batches", self.batch_drawn)),
            # The last hook is removed first: a mode that was entered in a traced call lies below this one.
            closing(self.step_trace),  # type: ignore[list-item]
        ]

    @property
    def has_unused_epochs(self) -> bool:
        """True if the batches of two epochs were drawn and no forward pass followed, or if epochs had no batch."""
        unused = self.loop_monitor.batch_use_counter.unused_batches
        has_unused = bool(self.batches_per_epoch) and unused >= 2 * self.batches_per_epoch
        return has_unused or self.loop_monitor.batch_order_monitor.empty_epochs.summary() is not None

    def wants_model_output(self) -> bool | None:
        """Return whether the loop monitor needs the model's output; None in a pass of a tool, which restores hooks."""
        is_pass_of_tool = len(open_blocks) > self.time_budget.outer_blocks
        return None if is_pass_of_tool else self.loop_monitor.wants_output() or self.step_trace.awaits_backward

    def loss_operands_passed(self, args: tuple[Any, ...]) -> None:
        """Handle the loss about to be called with gradients enabled."""
        self.ring.on_loss_call(args)
        self.loop_monitor.batch_alignment.on_loss_call(args)

    def loss_called(self, line: SourceLine) -> None:
        """Record the user's line that called the loss first."""
        self.lines["loss"] = line

    def prepare_step(self) -> None:
        """Prepare the next step, with a snapshot if one is due."""
        self.step_sampler.snapshot, self.step_sampler.squared_norm = None, None
        self.time_budget.begin_step(self.recorder.step, self.loop_monitor.needs_all_events)
        self.loop_monitor.visibility = self.ring.visibility = self.time_budget.visibility
        if self.time_budget.takes_snapshot and self.layer_statistics.wants_snapshot():
            self.snapshot_count += 1
            is_full = self.time_budget.every is None or self.snapshot_count % _FULL_SNAPSHOT_INTERVAL == 1
            self.step_sampler.snapshot = LayerSnapshot(self.recorder.step, self.max_values, is_full)
            self.step_sampler.largest_values.advance(is_full)
            self.outputs.open()
        else:
            self.step_sampler.complete_pending()
            self.outputs.close()

    def take_output(self, output_name: str, module: nn.Module, output: Tensor) -> None:
        """Add the output of a submodule to the snapshot."""
        snapshot, started = self.step_sampler.snapshot, time.perf_counter()
        is_of_tool = len(open_blocks) > self.time_budget.outer_blocks
        if snapshot is not None and not is_of_tool and not self.time_budget.is_capturing():
            self.time_budget.attempt("activations", snapshot.add_output, output_name, module, output)
        self.time_budget.spent_seconds += time.perf_counter() - started

    def batch_drawn(self, event: tuple[Any, Any, float]) -> None:
        """Handle a batch that a loader has yielded."""
        self.step_trace.leave()
        self.loop_monitor.on_batch(event)
        iterator, batch, seconds = event
        if not is_iterator_of(iterator, self.setup.train_loader):
            return
        if self.time_budget.visibility is not LOSS_ONLY:
            self.time_budget.attempt("replay", self.ring.on_batch, batch)
            self.time_budget.attempt("first step", self.step_trace.on_batch, batch)
        self.recorder.wait_seconds += seconds
        if self.iterator is None or self.iterator() is not iterator:
            compare = self.loop_monitor.training_averages.on_epoch_begin
            self.time_budget.attempt("training averages", compare, self.recorder, sys._getframe(1))
            # A weak reference, since a loader's workers end with its iterator.
            self.iterator, self.recorder.epoch = weakref.ref(iterator), self.recorder.epoch + 1
            self.record.add_event(self.recorder.step, "epoch", f"epoch {self.recorder.epoch}")

    def model_called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle the model about to be called."""
        training = torch.is_grad_enabled()
        if training and module.training and self.time_budget.visibility is not LOSS_ONLY:
            self.time_budget.attempt("replay", self.ring.on_forward_begin, module, args, kwargs)
        if not training or self.time_budget.visibility is ALL_EVENTS or self.loop_monitor.mode_monitor.split == "val":
            self.loop_monitor.on_forward_begin(args, kwargs)
        self.time_budget.attempt("first step", self.step_trace.on_forward_begin, args, kwargs)

    def model_returned(self, output: Any) -> None:
        """Handle an output of the model."""
        self.loop_monitor.on_forward_end(output)
        self.time_budget.attempt("first step", self.step_trace.on_forward_end, output)

    def judge_first_step(self, roots: BackwardRoots) -> None:
        """Judge the loss of the first step, while its graph exists."""
        if (step := self.step_trace.on_backward_begin(roots)) is not None:
            monitor = self.loop_monitor
            monitor.attempt(monitor.weight_aliases.on_loss, step.loss_calls, sys._getframe(1))
            graph = step.trace.get_graph(step.loss)
            monitor.attempt(monitor.loss_leaves.on_loss, graph, step.batch, step.loss_calls, sys._getframe(1))
            monitor.attempt(monitor.loss_leaves.on_gradients, graph, step.loss_calls, step.loss)
            monitor.batch_alignment.separate_draws = step.separate_draws
            monitor.batch_alignment.drawn_inputs = step.drawn_inputs
            self.first_step = judge_step(self.setup, step)
            self.learned_unpack = learn_unpack(self.setup, step)

    def use_learned_unpack(self) -> None:
        """Split batches as the first step did from now on, if the setup could not tell how."""
        if self.learned_unpack is not None and self.setup.unpack is None:
            self.setup.unpack = self.learned_unpack
            if not all(map(is_map_style, filter(None, (self.setup.train_loader, self.setup.val_loader)))):
                return  # a stream must not be read while the loop reads it
            self.fixed_samples = FixedSamples.from_setup(self.setup)
            self.record.about.update(self.fixed_samples.data_summary)

    def evaluation_loss_computed(self, loss: Tensor) -> None:
        """Record the user's own loss of a batch that is not trained on."""
        self.recorder.evaluation_losses.append(defer_scalar(loss))

    def before_backward(self, roots: BackwardRoots) -> bool:
        """Handle a backward pass about to run; return True if its end need not be reported."""
        if self.time_budget.visibility is not ALL_EVENTS and self.fast_path.before_backward(roots):
            return True
        self.record_skipped_steps()
        self.recorder.end_evaluation()
        if self.step_trace.awaits_backward:
            self.time_budget.attempt("first step", self.judge_first_step, roots)
        self.loop_monitor.on_backward_begin(roots)
        self.losses = [defer_scalar(self.loop_monitor.unscaled_loss(root)) for root in roots if root.numel() == 1]
        self.time_budget.attempt("replay", self.ring.on_backward_begin, roots, sum_if_on_host(self.losses))
        return False

    def after_backward(self, roots: BackwardRoots) -> None:
        """Handle a finished backward pass; it counts as a step if no optimizer is known."""
        self.gradients_changed = True
        had_reached_model = self.loop_monitor.has_reached_model
        self.loop_monitor.on_backward_end()
        self.time_budget.attempt("replay", self.ring.on_backward_end)
        if not self.loop_monitor.concerns_model:
            self.recorder.record_other_losses(self.losses)
            return
        if self.loop_monitor.has_reached_model and not had_reached_model:
            self.recorder.row.losses.clear()  # of passes through other models
        self.recorder.row.losses += self.losses
        self.epoch_ended |= self.loop_monitor.backward_passes % (self.batches_per_epoch or math.inf) == 0
        if not self.loop_monitor.tracked_optimizers:
            self.before_step(None)
            self.step_sampler.sample_weights_after(None)
            self.end_of_step(None)

    def before_step(self, optimizer: torch.optim.Optimizer | None, *call: Any) -> None:
        """Handle an optimizer about to step; with a closure, the forward pass and the backward pass follow."""
        if self.time_budget.visibility is not ALL_EVENTS and self.fast_path.before_step(optimizer):
            return
        if not has_closure(*call):
            self.step_trace.leave()
        if optimizer is not None and not self.loop_monitor.accepts_optimizer(optimizer):
            return
        if optimizer is not None:
            self.loop_monitor.on_step_begin(optimizer)
            if self.ring.first_optimizer is not self.loop_monitor.first_optimizer and self.recorder.part_ends:
                self.ring.steps += self.recorder.split_row(optimizer)
                self.step_sampler.snapshot = self.step_sampler.squared_norm = None  # they sum several steps
            self.ring.first_optimizer = self.loop_monitor.first_optimizer
            self.record_clipping(optimizer)
        self.gradients_changed = False
        if self.time_budget.measures_norms:
            started = time.perf_counter()
            self.step_sampler.add_norm(optimizer)
            now = time.perf_counter()
            self.time_budget.norm_throttle.record(now - started, now)
        if self.step_sampler.snapshot is not None:
            self.step_sampler.sample_gradients(optimizer)
        if optimizer is not None:
            self.time_budget.attempt("replay", self.ring.on_step_begin, optimizer, self.step_sampler.is_finite)
        if self.step_sampler.snapshot is not None:
            self.step_sampler.sample_weights_before()

    def after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Handle an optimizer step; a step of the first one ends a row. With a closure, gradients exist only now."""
        if self.time_budget.visibility is LOSS_ONLY:
            return self.fast_path.after_loss_only_step(optimizer)
        if (
            self.time_budget.visibility is not ALL_EVENTS and self.fast_path.after_step(optimizer)
        ) or not self.loop_monitor.accepts_optimizer(optimizer):
            return
        self.loop_monitor.on_step_end(optimizer)
        self.time_budget.attempt("replay", self.ring.on_step_end, optimizer)
        if self.gradients_changed and self.step_sampler.snapshot is not None:
            self.step_sampler.snapshot.gradients, self.step_sampler.squared_norm = None, None
            self.step_sampler.add_norm(optimizer)
            self.step_sampler.sample_gradients(optimizer)
        if self.step_sampler.snapshot is not None:
            self.step_sampler.sample_weights_after(
                optimizer, self.time_budget.every == 1 and self.time_budget.visibility is not ALL_EVENTS
            )
        self.recorder.end_part()
        if optimizer is self.loop_monitor.first_optimizer:
            self.end_of_step(optimizer)

    def record_clipping(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the gradient norm measured by clipping before this step, and the clipping factor."""
        clip = self.loop_monitor.tracked_optimizers[id(optimizer)].interval.clip
        if clip is not None and clip.norm is not None:
            self.recorder.row.numbers["raw_gradient_norm"] = defer_scalar(clip.norm)
            self.recorder.row.numbers["clip_scale"] = defer_scalar((clip.limit / (clip.norm + 1e-6)).clamp(max=1.0))

    def record_skipped_steps(self) -> None:
        """Finish the rows of steps that a GradScaler has skipped since the last backward pass."""
        count, recorder = self.loop_monitor.grad_scaler_monitor.skipped_steps, self.recorder
        if count == self.skipped_steps:
            return
        self.skipped_steps = count
        if recorder.row.losses:
            recorder.row.numbers["skipped"] = 1.0
            recorder.next_row()
        elif recorder.pending:
            recorder.pending[-1].numbers["skipped"] = 1.0
        self.record.add_event(recorder.step - 1, "skipped", "the GradScaler skipped this step")

    def end_of_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Finish the row of a step, and store its snapshot."""
        now = time.perf_counter()
        if self.step_sampler.squared_norm is not None:
            self.recorder.row.numbers["gradient_norm"] = square_root(self.step_sampler.squared_norm)
        if self.step_sampler.snapshot is not None:
            self.time_budget.attempt("layers", self.layer_statistics.add, self.step_sampler.snapshot)
        self.recorder.finish_step(optimizer, now)
        self.at_boundary = True
        self.time_budget.attempt("batches", self.use_learned_unpack)
        self.measure_at_epoch_end()
        self.prepare_step()

    def measure_at_epoch_end(self) -> None:
        """Measure the fixed samples at the end of an epoch, if that is planned or their time budget allows it."""
        if not self.epoch_ended or self.time_budget.exceeds_strict_budget(time.perf_counter()):
            return
        samples, step = self.fixed_samples, self.recorder.step - 1
        affordable_seconds = self.time_budget.budget / 2 * self.time_budget.elapsed
        is_affordable = samples.total_seconds + samples.last_seconds <= affordable_seconds
        if is_affordable or samples.is_planned(step, self.last_measured_step):
            self.measure_fixed_samples(step)

    def measure_fixed_samples(self, step: int) -> None:
        """Measure the fixed samples now."""
        self.epoch_ended, self.last_measured_step = False, step
        if row := self.fixed_samples.evaluate():
            self.record.evaluations.append(step, row, "fixed")

    def fetch(self, *, is_last: bool = False) -> None:
        """Fetch pending numbers, and snapshots if they are due."""
        if self.time_budget.met_capture and not self.record.events_of_kind("captured"):
            text = "a CUDA graph was captured; its replays cannot be observed"
            self.record.add_event(self.recorder.step, "captured", text)
        self.recorder.fetch()
        if not (is_last or self.layer_statistics.are_due):
            return
        started = time.perf_counter()
        self.time_budget.attempt("layers", self.step_sampler.complete_pending)
        self.time_budget.attempt("layers", self.layer_statistics.flush)
        self.time_budget.snapshot_throttle.charge(time.perf_counter() - started)

    def close(self) -> None:
        """Fetch everything pending, after the hooks are removed."""
        self.outputs.close()
        self.record_skipped_steps()
        self.recorder.end_evaluation()
        self.time_budget.attempt("metrics", self.loop_monitor.evaluation.batch_averages.compare, sys._getframe(1))
        if self.recorder.row.losses:
            self.recorder.next_row()
        self.fetch(is_last=True)
        if self.recorder.step - 1 > self.last_measured_step:
            self.measure_fixed_samples(self.recorder.step - 1)
        of_activations = [name for name in self.record.histogram_names if name[:3] == "act"]
        called = {name.partition("|")[2].split("#")[0].split("[")[0] for name in of_activations}
        self.record.modules = self.modules.layers(called)
        self.record.about["model part"] = self.setup.model_part.value
        if reason := self.setup.model_part.unmeasured or self.fixed_samples.unmeasured:
            self.record.about["not measured"] = reason
