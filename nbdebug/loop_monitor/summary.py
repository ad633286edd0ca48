"""Summary of the user's own training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from nbdebug.autograd import DetachPoint
from nbdebug.loop_monitor.accumulated_losses import GradientAccumulation
from nbdebug.loop_monitor.batch_alignment import BatchAlignment
from nbdebug.loop_monitor.batch_averages import BatchAverage
from nbdebug.loop_monitor.broadcast_comparisons import ShapeMismatch
from nbdebug.loop_monitor.constant_decisions import ConstantDecision
from nbdebug.loop_monitor.correct_counts import CorrectCount
from nbdebug.loop_monitor.empty_epochs import EmptyEpochs
from nbdebug.loop_monitor.evaluated_copies import EvaluatedCopy
from nbdebug.loop_monitor.evaluated_inputs import ChangedInputs
from nbdebug.loop_monitor.evaluation_monitor import StaleInputs, TrainingEvaluations
from nbdebug.loop_monitor.event_stacks import Stack
from nbdebug.loop_monitor.fold_data import FoldEvaluation
from nbdebug.loop_monitor.grad_scaler import GradScalerUsage
from nbdebug.loop_monitor.gradient_accumulation import ClippingSummary, DoubleUpdates, repeated_parameters
from nbdebug.loop_monitor.gradient_changes import GradientChanges
from nbdebug.loop_monitor.gradient_terms import ConstantGradientTerm
from nbdebug.loop_monitor.growing_attributes import GrowingAttribute
from nbdebug.loop_monitor.leftover_gradients import LeftoverGradients
from nbdebug.loop_monitor.loss_graph import LossOperands, NormalizedTwice
from nbdebug.loop_monitor.mistaken_metrics import MistakenNumber
from nbdebug.loop_monitor.modes import DeviceSyncs, EpochOrder, ForwardPasses
from nbdebug.loop_monitor.monitor import LoopMonitor
from nbdebug.loop_monitor.parameter_updates import (
    ClearedGradients,
    FrozenSteps,
    UncoveredParameters,
    untied_parameters,
)
from nbdebug.loop_monitor.rate_history import RateHistory, get_rate_history
from nbdebug.loop_monitor.replaced_weights import ReplacedWeights
from nbdebug.loop_monitor.reset_weights import ResetWeights
from nbdebug.loop_monitor.restored_weights import RestoredWeights, UndoneTraining
from nbdebug.loop_monitor.resumption import ScheduleStart
from nbdebug.loop_monitor.retained_graphs import RetainedGraphs
from nbdebug.loop_monitor.rounded_updates import UpdateSample
from nbdebug.loop_monitor.schedules import SchedulerUse
from nbdebug.loop_monitor.shared_lists import SharedList
from nbdebug.loop_monitor.shared_meters import SharedMeter
from nbdebug.loop_monitor.stale_predictions import StalePredictions
from nbdebug.loop_monitor.step_groups import StepGroups
from nbdebug.loop_monitor.training_averages import TrainingAverage
from nbdebug.loop_monitor.triplet_passes import RecordedTriplets
from nbdebug.loop_monitor.unbounded_losses import HomogeneousLoss
from nbdebug.loop_monitor.undone_updates import UndoneUpdates
from nbdebug.loop_monitor.weight_aliases import WeightAlias
from nbdebug.loop_monitor.weight_copies import StateDictLoads, WeightCopy
from nbdebug.loop_monitor.wrong_decisions import TwoValuedDecisions, WrongDecision
from nbdebug.source.location import SourceLine

_MIN_OPTIMIZER_STEPS = 5  # steps of an optimizer before a missing gradient of its parameters counts


@dataclass(frozen=True)
class LoopSummary:
    """Counts of the events of a training loop, and the parameters that it updates.

    Of the ``steps``, all events of the ``tracked_steps`` were recorded; ``twin_steps`` are those of optimizers that
    hold other tensors with the shapes of the parameters. Of the ``checked_intervals`` between them,
    ``uncleared_intervals`` began with the gradients of the previous step, those of ``uncleared_parameters``, for which
    ``uncleared_step_line`` is the line of the step;
    ``cleared_after_backward`` counts steps whose gradients had been cleared after the backward pass. ``closure_steps``
    ran several backward passes in their closure; in ``uncleared_closure_steps`` of them, gradients were not cleared
    between those. ``alternates_losses`` tells whether several optimizers stepped, with a backward pass for each step.
    ``reaches_model`` tells whether any backward pass reached the model; if none did, ``other_leaves`` and
    ``copied_parameters`` count the tensors, and the parameters of the same shapes, that it reached instead, and
    ``new_leaf_line`` is where one of those tensors was created. ``other_parameters`` are those of other shapes, and
    ``graph_cut`` is the only call that cuts the graph between the model and the loss of the last pass before a step.

    ``always_with_gradient`` are parameters with a nonzero gradient at each of the ``gradient_checks``,
    ``with_gradient`` those with one at any check, ``with_any_gradient`` those with one that may be zero, ``changed``
    those whose values have changed. ``never_with_gradient`` ones had no gradient at any check although an optimizer
    that holds them stepped. ``gradient_term`` is a term of the first loss that is computed from gradients without a
    graph. ``triplets`` are inputs whose outputs the loss compares, if each step passes three parts one by one.
    ``loss_operands`` describes the operands of torch's own loss, ``normalized_twice``
    probabilities that it takes for logits. ``schedulers`` are those that the loop stepped or that the user passed.
    ``ineffective_scheduler_steps`` counts steps that should have changed the rate, if all optimizer steps used one
    rate.

    ``untied_parameters`` are names that have another tensor than when the watch began, each with a name that still has
    the one that they shared.
    ``repeated_parameters`` are the identities of parameters that one optimizer holds more than once.
    ``validation_steps`` are steps on batches of the validation loader. ``discarded_batches`` of the
    ``batches_with_backward`` from the training loader had gradients that were cleared before any step; so had some in
    ``incomplete_steps`` of the ``summing_steps``, which used several other batches.
    ``unused_batches`` counts those drawn if no forward pass followed any of them.

    ``lines`` are the user's own, by event: "batch" (where one is drawn), "backward", "loss" (where it is computed),
    "root" (its last change), "received root" (the same, if the function of the backward pass only receives it),
    "zero_grad", "clip", "optimizer" (its step), "scale", "unscale", "step" of a GradScaler, "update" (where an own
    optimizer changes a weight) and "gradient" (where the loop changes a gradient). ``stacks`` are the user's stacks at
    the first of them. For the following faults, it is the most frequent stack: "clearing before batch", "clearing
    before step" and "clearing between passes" of gradients that no step had used, "misplaced clip", "scaled clip", and
    "repeated step" with the same gradients. ``skipping_branch`` is the branch around a step of an optimizer that the
    first backward pass is not in; ``skipping_condition`` is the line that computes its condition.
    ``rounded_updates`` holds the samples of low-precision weights, by parameter.
    """

    steps: int = 0
    twin_steps: int = 0
    alternates_losses: bool = False
    tracked_steps: int = 0
    backward_passes: int = 0
    checked_intervals: int = 0
    uncleared_intervals: int = 0
    uncleared_parameters: frozenset[str] = frozenset()
    uncleared_step_line: SourceLine | None = None
    closure_steps: int = 0
    uncleared_closure_steps: int = 0
    cleared_after_backward: int = 0
    reaches_model: bool = False
    other_leaves: int = 0
    copied_parameters: int = 0
    other_parameters: int = 0
    graph_cut: DetachPoint | None = None
    new_leaf_line: SourceLine | None = None
    gradient_checks: int = 0
    always_with_gradient: frozenset[str] = frozenset()
    with_gradient: frozenset[str] = frozenset()
    with_any_gradient: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    never_with_gradient: frozenset[str] = frozenset()
    loss_operands: LossOperands | None = None
    normalized_twice: NormalizedTwice | None = None
    schedulers: tuple[SchedulerUse, ...] = ()
    schedule_starts: tuple[ScheduleStart, ...] = ()
    ineffective_scheduler_steps: int = 0
    rates: RateHistory = field(default_factory=RateHistory)
    lines: dict[str, SourceLine] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    skipping_branch: SourceLine | None = None
    skipping_condition: SourceLine | None = None
    clipping: ClippingSummary = field(default_factory=ClippingSummary)
    gradient_changes: GradientChanges = field(default_factory=GradientChanges)
    grad_scaler: GradScalerUsage = field(default_factory=GradScalerUsage)
    validation_steps: int = 0
    batches_with_backward: int = 0
    discarded_batches: int = 0
    summing_steps: int = 0
    incomplete_steps: int = 0
    unused_batches: int = 0
    forward_passes: ForwardPasses = field(default_factory=ForwardPasses)
    accumulation: GradientAccumulation = field(default_factory=GradientAccumulation)
    retained_graphs: RetainedGraphs = field(default_factory=RetainedGraphs)
    growing_attribute: GrowingAttribute | None = None
    state_dict_loads: StateDictLoads = field(default_factory=StateDictLoads)
    weight_copies: tuple[WeightCopy, ...] = ()
    weight_alias: WeightAlias = field(default_factory=WeightAlias)
    homogeneous_loss: HomogeneousLoss | None = None
    triplets: RecordedTriplets | None = None
    gradient_term: ConstantGradientTerm | None = None
    has_one_optimizer: bool = True
    frozen_steps: FrozenSteps | None = None
    leftover_gradients: LeftoverGradients | None = None
    restored_weights: RestoredWeights | None = None
    weight_replacements: tuple[int, ...] = ()
    replaced_weights: ReplacedWeights | None = None
    reset_weights: ResetWeights | None = None
    undone_training: UndoneTraining | None = None
    undone_updates: UndoneUpdates | None = None
    fold_evaluations: tuple[FoldEvaluation, ...] = ()
    untied_parameters: tuple[tuple[str, str], ...] = ()
    empty_epochs: EmptyEpochs | None = None
    epoch_order: EpochOrder = field(default_factory=EpochOrder)
    shape_mismatch: ShapeMismatch | None = None
    double_updates: DoubleUpdates = field(default_factory=DoubleUpdates)
    repeated_parameters: frozenset[int] = frozenset()
    device_syncs: DeviceSyncs = field(default_factory=DeviceSyncs)
    uncovered_parameters: UncoveredParameters = field(default_factory=UncoveredParameters)
    correct_counts: tuple[CorrectCount, ...] = ()
    constant_decisions: tuple[ConstantDecision, ...] = ()
    wrong_decisions: tuple[WrongDecision, ...] = ()
    two_valued_decisions: TwoValuedDecisions | None = None
    shared_list: SharedList | None = None
    shared_meter: SharedMeter | None = None
    stale_inputs: StaleInputs | None = None
    evaluated_inputs: ChangedInputs = field(default_factory=ChangedInputs)
    evaluated_copy: EvaluatedCopy | None = None
    stale_predictions: tuple[StalePredictions, ...] = ()
    batch_averages: tuple[BatchAverage, ...] = ()
    mistaken_numbers: tuple[MistakenNumber, ...] = ()
    training_evaluations: TrainingEvaluations = field(default_factory=TrainingEvaluations)
    training_averages: tuple[TrainingAverage, ...] = ()
    step_groups: StepGroups = field(default_factory=StepGroups)
    cleared_gradients: ClearedGradients = field(default_factory=ClearedGradients)
    batch_alignment: BatchAlignment = field(default_factory=BatchAlignment)
    rounded_updates: dict[str, tuple[UpdateSample, ...]] = field(default_factory=dict)

    @property
    def has_steps_of_fixed_norm(self) -> bool:
        """True if nearly all steps had gradients of one norm, also between the inspected ones if torch clips them."""
        return self.gradient_changes.fixes_norm and (not self.clipping.norms or self.clipping.acts_in_nearly_all_calls)


def summarize_loop(monitor: LoopMonitor, relative_rates: Sequence[float]) -> LoopSummary:
    """Summarize all events so far. Synchronizes the device.

    ``relative_rates`` are the learning rates of the steps, each divided by the highest one of its optimizer.
    """
    monitor.parameter_tracker.check_values()
    monitor.retained_graph_counter.count_alive(monitor.steps)
    most_uncleared = max(
        monitor.tracked_optimizers.values(), key=lambda tracked: tracked.uncleared_intervals, default=None
    )
    stepped_parameter_ids = {
        id(p)
        for tracked in monitor.tracked_optimizers.values()
        if tracked.steps >= _MIN_OPTIMIZER_STEPS
        for p in tracked.parameters
    }
    steps = sum(tracked.steps for tracked in monitor.tracked_optimizers.values())
    has_one_optimizer = len(monitor.tracked_optimizers) == 1 and not monitor.unrelated_optimizers
    rates = get_rate_history(relative_rates, monitor.step_groups.steps, monitor.step_groups.epoch_starts)
    is_one_training = has_one_optimizer and not monitor.replaced_optimizers and not rates.rises
    stacks = {**monitor.stacks, **_frequent_stacks(monitor)}
    lines = {**monitor.lines, **{event: stack[0] for event, stack in stacks.items() if stack}}
    return LoopSummary(
        steps=steps,
        twin_steps=monitor.twin_steps,
        alternates_losses=sum(tracked.steps > 0 for tracked in monitor.tracked_optimizers.values()) > 1
        and monitor.backward_passes >= steps,
        tracked_steps=monitor.tracked_steps,
        backward_passes=monitor.backward_passes,
        checked_intervals=most_uncleared.checked_intervals if most_uncleared else 0,
        uncleared_intervals=most_uncleared.uncleared_intervals if most_uncleared else 0,
        uncleared_parameters=_names_of_parameters(monitor, most_uncleared.parameters if most_uncleared else ()),
        uncleared_step_line=most_uncleared.uncleared_step_line if most_uncleared else None,
        closure_steps=sum(tracked.closure_steps for tracked in monitor.tracked_optimizers.values()),
        uncleared_closure_steps=sum(tracked.uncleared_closure_steps for tracked in monitor.tracked_optimizers.values()),
        cleared_after_backward=sum(tracked.cleared_after_backward for tracked in monitor.tracked_optimizers.values()),
        reaches_model=monitor.leaf_monitor.leaves.reaches_model,
        other_leaves=monitor.leaf_monitor.leaves.other_leaves,
        copied_parameters=monitor.leaf_monitor.leaves.copied_parameters,
        other_parameters=monitor.leaf_monitor.leaves.other_parameters,
        graph_cut=monitor.leaf_monitor.cut,
        new_leaf_line=monitor.leaf_monitor.leaves.line,
        gradient_checks=monitor.parameter_tracker.gradient_checks,
        always_with_gradient=monitor.parameter_tracker.always_with_gradient,
        with_gradient=frozenset(monitor.parameter_tracker.nonzero_gradient_counts),
        with_any_gradient=frozenset(monitor.parameter_tracker.parameters_with_gradient),
        changed=frozenset(monitor.parameter_tracker.changed),
        never_with_gradient=monitor.parameter_tracker.never_with_gradient(stepped_parameter_ids),
        loss_operands=monitor.loss_operands,
        normalized_twice=monitor.normalized_twice,
        schedulers=tuple(monitor.scheduler_monitor.uses.values()),
        schedule_starts=monitor.resumption.summary(),
        ineffective_scheduler_steps=monitor.scheduler_monitor.effective_steps(monitor.first_optimizer)
        if rates.is_constant
        else 0,
        rates=rates,
        stacks=stacks,
        skipping_branch=None if monitor.tracked_steps else monitor.optimizer_names.skipping_branch(),
        skipping_condition=None if monitor.tracked_steps else monitor.optimizer_names.skipping_condition(),
        lines={**lines, **monitor.root_variables.lines(), **monitor.traced_lines()},
        clipping=monitor.clipping_monitor.summary(),
        gradient_changes=monitor.gradient_changes.summary(),
        grad_scaler=monitor.grad_scaler_monitor.summary(),
        validation_steps=monitor.step_groups.validation.steps_on_validation,
        batches_with_backward=monitor.batch_use_counter.batches_with_backward,
        discarded_batches=monitor.batch_use_counter.discarded_batches,
        summing_steps=monitor.batch_use_counter.summing_steps,
        incomplete_steps=monitor.batch_use_counter.incomplete_steps,
        unused_batches=monitor.batch_use_counter.unused_batches,
        forward_passes=monitor.mode_monitor.summary(),
        accumulation=monitor.accumulation_counter.summary(),
        retained_graphs=monitor.retained_graph_counter.worst,
        growing_attribute=monitor.retained_graph_counter.attributes.summary(),
        state_dict_loads=monitor.state_dict_monitor.summary(),
        shape_mismatch=monitor.evaluation.comparisons.first_mismatch,
        empty_epochs=monitor.batch_order_monitor.empty_epochs.summary(),
        epoch_order=monitor.batch_order_monitor.summary(),
        weight_copies=monitor.weight_copy_monitor.summary(
            backward.file if (backward := monitor.lines.get("backward")) else None
        ),
        weight_alias=monitor.weight_aliases.summary(),
        homogeneous_loss=monitor.homogeneous_losses.summary() if has_one_optimizer else None,
        triplets=monitor.triplets.summary(),
        gradient_term=monitor.loss_leaves.gradient_term,
        has_one_optimizer=has_one_optimizer,
        restored_weights=monitor.restored_weights.summary(monitor.row_steps),
        weight_replacements=monitor.restored_weights.replacements(monitor.row_steps),
        replaced_weights=monitor.restored_weights.replacement_monitor.summary(),
        undone_updates=monitor.restored_weights.undone_updates.summary() if has_one_optimizer else None,
        undone_training=monitor.restored_weights.undone_training(
            monitor.row_steps, len(monitor.step_groups.epoch_starts)
        )
        if is_one_training
        else None,
        reset_weights=monitor.restored_weights.reset_monitor.summary() if is_one_training else None,
        untied_parameters=untied_parameters(monitor.setup.eager_model, monitor.tied_parameters),
        frozen_steps=monitor.frozen_steps.summary(monitor.setup.eager_model),
        leftover_gradients=monitor.leftover_gradients.summary(monitor.setup.eager_model),
        repeated_parameters=repeated_parameters(monitor.tracked_optimizers.values()),
        double_updates=monitor.double_update_counter.summary(),
        device_syncs=monitor.device_sync_counter.summary(),
        batch_alignment=monitor.batch_alignment.summary(),
        correct_counts=monitor.evaluation.correct_counts.summary(),
        constant_decisions=monitor.evaluation.decisions.summary(),
        wrong_decisions=monitor.evaluation.decisions.wrong_decisions.summary(),
        two_valued_decisions=monitor.evaluation.decisions.two_valued.summary(),
        shared_list=monitor.evaluation.shared_lists.first,
        shared_meter=monitor.evaluation.shared_meters.summary(),
        stale_inputs=monitor.evaluation.stale_inputs.summary(),
        evaluated_inputs=monitor.evaluation.inputs.summary(),
        evaluated_copy=monitor.evaluation.copies.summary(),
        stale_predictions=monitor.evaluation.stale_predictions.summary(),
        batch_averages=monitor.evaluation.batch_averages.summary(),
        mistaken_numbers=monitor.evaluation.batch_averages.mistaken_numbers(),
        training_evaluations=monitor.evaluation.batches.summary(),
        fold_evaluations=tuple(monitor.evaluation.folds.evaluations),
        training_averages=monitor.training_averages.summary(),
        step_groups=monitor.step_groups.summary()
        if monitor.is_only_model and len(monitor.tracked_optimizers) == 1
        else StepGroups(),
        cleared_gradients=monitor.cleared_gradients.summary(),
        uncovered_parameters=monitor.parameter_tracker.uncovered_parameters(
            monitor.setup.eager_model,
            monitor.setup.loss_fn,
            monitor.tracked_optimizers.values(),
            monitor.replaced_optimizers,
            monitor.loss_leaves,
        ),
        rounded_updates={name: tuple(samples) for name, samples in monitor.rounded_updates.samples.items()},
    )


def _frequent_stacks(monitor: LoopMonitor) -> dict[str, Stack]:
    """Return the most frequent stacks of events that are faulty only at some calls."""
    counted = (
        monitor.batch_use_counter.clearings.stacks,
        monitor.clipping_monitor.stacks,
        monitor.double_update_counter.stacks,
    )
    return {event: stack for counter in counted for event, stack in counter.most_frequent().items()}


def _names_of_parameters(monitor: LoopMonitor, parameters: Sequence[Tensor]) -> frozenset[str]:
    ids = {id(parameter) for parameter in parameters}
    named = monitor.setup.eager_model.named_parameters()
    return frozenset(name for name, parameter in named if id(parameter) in ids)
