"""O507: the scheduler changes another optimizer, or steps too often, too seldom or never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Severity
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.planned_rates import highest_factor_if_rate
from nbdebug.loop_monitor.resumption import ScheduleStart, initial_starts
from nbdebug.loop_monitor.schedules import (
    SchedulerUse,
    planned_length,
    required_plateau_mode,
    unfinished_length,
    unreached_rate,
)
from nbdebug.records import Record
from nbdebug.rule_engine.loop_edits import move_after_loop
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.schedule_edits import (
    change_scheduler,
    step_each_batch,
    step_each_epoch,
    use_rate_as_factor,
)
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.resumed_schedules import (
    describe_ended_schedule,
    describe_late_start,
    describe_restored_rate,
    describe_resumption,
)
from nbdebug.rules.schedule_lengths import (
    batches_per_epoch,
    describe_sample_count,
    is_poor_per_epoch,
    length_line,
    sample_count,
    severity_of_sample_count,
    steps_of_kind,
)
from nbdebug.rules.schedule_texts import (
    FIX_PER_EPOCH,
    describe_fast_schedule,
    describe_foreign_schedule,
    describe_negative_rate,
    describe_plateau_mode,
    describe_rate_as_factor,
    describe_unfinished_schedule,
    describe_unreached_rate,
    fix_for_undone_changes,
    relate_schedule,
)
from nbdebug.setup import Setup, loaders
from nbdebug.setup.schedule_lines import factor_line
from nbdebug.setup.setup import unwrap_optimizer
from nbdebug.setup.source_lines import (
    creation_line,
    only_optimizer_line,
    option_line,
    rate_write_line,
    state_loading_line,
)
from nbdebug.source.location import SourceLine, get_location, get_related_lines

_CONSEQUENCES = ("O502", "G409", "G414", "T601", "T604", "T606", "T607", "T610", "T614")
_CONSEQUENCES_OF_ASCENT = (
    *("O501", "O510", "T602", "T603", "T605", "G404", "G410", "G412", "G415", "M306", "M307", "M314", "E702", "E703"),
)
_FIX_PER_BATCH = "Move scheduler.step() into the loop over batches, after optimizer.step()."
_MIN_EVENTS, _MIN_INEFFECTIVE_STEPS, _MIN_ZERO_STEPS = 2, 3, 8


@rule("O507", "warning", origin="scheduler")
def schedule_misused(
    setup: Setup,
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: LoopSummary | NotChecked,
    record: Record | NotChecked,
    *,
    most: float = 0.5,
    zero: float = 0.1,
) -> Iterator[Finding]:
    """The scheduler changes the rate of another optimizer, or steps too often, too seldom or never.

    ## What it does
    Compares, by identity, the optimizer of each scheduler with the optimizers that were passed. In a watched loop,
    counts the steps of each scheduler, also of one that was not passed, and follows the learning rate and the metric
    passed to a plateau scheduler.

    ## Why it matters
    The learning rate of the optimizer that steps stays constant: no warm-up, no decay, and no error. Or it decays
    within the first epoch as far as it should in a hundred, and training stalls.

    ## How it is measured
    Exactly. A schedule is too fast if more than ``most`` = half of all steps ran at less than a hundredth of the
    highest rate of its optimizer, or if it ends below zero; a cosine over all steps ends there too, but spends only 6%
    of its steps there. A plateau scheduler may do so. If the rate was below a hundredth of the initial one before the
    first step of the loop, the schedule had run down before. A schedule was forgotten if it never stepped in more than
    two epochs. It steps too seldom if it was planned for as many steps as there are batches, within 10%, and made fewer
    than half of them, or if its rate reached less than half of the peak that half as many steps as batches would reach,
    computed on a copy of it, in ten steps or more, and in as many as half of the batches for each of its steps, or 50:
    a shorter warm-up may count epochs. It is planned for samples if it steps per batch and its length is the product of
    the samples and the completed epochs; a note if that is also a whole number of epochs. A function of factors returns
    rates if its highest factor is the initial rate, or down to half of it.
    A schedule skips its first rate if its first step comes before the first step of the
    optimizer. A plateau scheduler has the wrong mode if it waits for a minimum of a rising score, or for a maximum of a
    decreasing loss, judged by the name of the metric, or by its values: a score is a multiple of one over the number of
    validation samples, and other values that decrease at three of four steps are those of a loss.

    A schedule belongs to a replaced optimizer if before at least two of its steps, its optimizer had not stepped and
    another one with the same parameters had; or if its optimizer never steps, and one with parameters of the same
    shapes does. A schedule is undone by another one of the same optimizer if at least two
    of its changes are directly followed by a step of the other, and the other computes the same rates from a current
    rate that is halved. Whatever sets the rate, it may not be zero in the last ``zero`` = 10% of all steps or more,
    fall by a factor of ten and rise again more often than once per epoch, or rise in each epoch from half or less to
    the highest rate of that epoch at its end. At least three steps of a scheduler that should have changed the rate
    have no effect if all optimizer steps used one rate. Three or more schedulers of one kind for one optimizer repeat
    the start of their schedule if each made fewer than half of its planned steps, or of those before its first change.

    Training that is resumed must go on where it stopped: a schedule may not begin at its first step beside a state that
    was loaded into the optimizer and that had a schedule; a schedule that was moved to a later step must find the rate
    that it plans there, within a factor of 1.5. Only a note is given if the optimizer has no state beside it. A rate
    below a hundredth of the one that the optimizer was created with, which no scheduler changes, is left from an
    earlier schedule if that has left its initial rate in the groups.

    ## How to fix
    Create the scheduler after the optimizer, in the same cell, and again whenever the optimizer is created again. Step
    it once per epoch, or specify its lengths in steps.

    ## When to ignore
    When another part that is not passed here is trained with that optimizer.

    ## References
    Documentation of torch.optim: how to adjust learning rate.
    """
    uses = loop.schedulers if isinstance(loop, LoopSummary) else ()
    has_one_rate = not isinstance(loop, LoopSummary) or loop.rates.is_constant or not loop.rates.steps
    if has_one_rate and not uses and not any(map(_scheduled_optimizers, setup.schedulers)):
        if isinstance(loop, LoopSummary) and (finding := _restored_rate_finding(setup, optimizers, loop)):
            yield finding
            return
        raise NotChecked("no scheduler was passed, and none stepped in a watched loop")
    if isinstance(loop, LoopSummary):
        losses = record.series("loss")[1].tolist() if isinstance(record, Record) else []
        yield from _loop_findings(setup, optimizers, loop, losses, most, zero)
    else:
        yield from _resumption_findings(setup, initial_starts(optimizers, setup.schedulers))
    for scheduler in setup.schedulers:
        scheduled = _scheduled_optimizers(scheduler)
        if scheduled and not any(part is optimizer for part in scheduled for optimizer in optimizers):
            yield _other_optimizer_finding(setup, scheduler, len(optimizers))


def _loop_findings(
    setup: Setup,
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: LoopSummary,
    losses: Sequence[float],
    max_slow_share: float,
    max_zero_share: float,
) -> Iterator[Finding]:
    """Check the schedulers of a watched loop and the rates of its steps."""
    relate = partial(relate_schedule, setup, loop)
    findings = [relate(use, finding) for use in loop.schedulers for finding in _relation_findings(loop, use)]
    for use in loop.schedulers:
        is_passed = any(use.scheduler is scheduler for scheduler in setup.schedulers)
        is_first = any(optimizer is optimizers[0] for optimizer in _scheduled_optimizers(use.scheduler))
        if (is_passed or is_first) and not findings:
            findings += [relate(use, item) for item in _schedule_findings(setup, loop, use, losses, max_slow_share)]
    first_use = next((use for use in loop.schedulers if use.line), None)
    findings = findings or [relate(first_use, item) for item in _rate_findings(setup, loop, max_zero_share)]
    findings = findings or [*_repeated_creation_findings(setup, loop)]
    yield from findings or _resumption_findings(setup, loop.schedule_starts)


def _restored_rate_finding(
    setup: Setup, optimizers: Sequence[torch.optim.Optimizer], loop: LoopSummary
) -> Finding | None:
    """Check for a rate that an earlier schedule has lowered; only an optimizer that made steps counts."""
    texts = describe_restored_rate(optimizers[0], loop.steps) if len(optimizers) == 1 and loop.steps else None
    if texts is None:
        return None
    line = state_loading_line(setup, optimizers[0]) or creation_line(setup, optimizers[0])
    return _finding(
        *texts, line, {"rate": optimizers[0].param_groups[0]["lr"], "created": optimizers[0].defaults["lr"]}
    )


def _resumption_findings(setup: Setup, starts: Sequence[ScheduleStart]) -> Iterator[Finding]:
    """Check the first schedule that does not begin where its optimizer does."""
    for start in starts:
        if description := describe_resumption(start):
            line = start.creation_line or (start.loaded.line if start.loaded else None)
            line = line or creation_line(setup, start.scheduler)
            finding = _finding(*description.texts, line, description.evidence, description.aspect)
            yield replace(finding, severity=description.severity)
            return


def _relation_findings(loop: LoopSummary, use: SchedulerUse) -> Iterator[Finding]:
    """Check a scheduler against the other schedulers and optimizers of the loop."""
    kind = type(use.scheduler).__name__
    if use.idle_steps >= _MIN_EVENTS:
        yield _finding(
            f"{kind} made {use.idle_steps} of its {use.steps} steps after its optimizer had been replaced: another "
            "optimizer with the same parameters stepped instead, at a rate that the schedule does not change.",
            "The optimizer was created again, but not the scheduler.",
            f"Create the {kind} again after the optimizer, with the new optimizer.",
            use.replacement_line or use.line,
            {"scheduler steps": use.steps, "after the replacement": use.idle_steps},
        )
    elif use.foreign_steps >= _MIN_EVENTS and not use.optimizer_steps:
        yield _finding(*describe_foreign_schedule(kind, loop, use), use.line, {"scheduler steps": use.steps})
    for position, other in enumerate(loop.schedulers):
        is_later = position > loop.schedulers.index(use)
        if use.is_undone_by(other, _MIN_EVENTS) and (is_later or not other.is_undone_by(use, _MIN_EVENTS)):
            count, other_kind = use.overwritten[id(other.scheduler)], type(other.scheduler).__name__
            yield _finding(
                f"Two schedulers set the rate of one optimizer: {count} changes by {kind} were followed directly by a "
                f"step of {other_kind}, which computes the rate from its initial value and so undoes them.",
                f"{other_kind} does not multiply the current rate, but replaces it.",
                fix_for_undone_changes(use, other),
                other.line or use.line,
                {"scheduler steps": use.steps, "undone": count},
            )


def _plan_line(setup: Setup, uses: Sequence[SchedulerUse]) -> SourceLine | None:
    """Return the line that plans a schedule: the user's function of its factors, or the creation of a scheduler."""
    factor_lines = (factor_line(use.scheduler) for use in uses)
    creation_lines = (creation_line(setup, use.scheduler) for use in reversed(uses))
    return next(filter(None, (*factor_lines, *creation_lines)), None)


def _rate_findings(setup: Setup, loop: LoopSummary, max_zero_share: float) -> Iterator[Finding]:
    """Check the rates of all steps, whatever set them."""
    rates, step_line = loop.rates, next((use.line for use in loop.schedulers if use.line), None)
    line = step_line or rate_write_line(setup) or loop.lines.get("optimizer")
    recreation_line = _plan_line(setup, loop.schedulers) if len(loop.schedulers) > 1 else None
    evidence = {"steps": rates.steps, "epochs": rates.epochs, "scheduler steps": sum(u.steps for u in loop.schedulers)}
    if rates.zero_steps >= max(_MIN_ZERO_STEPS, max_zero_share * rates.steps):
        plateaus = (use for use in loop.schedulers if isinstance(use.scheduler, ReduceLROnPlateau))
        per_batch = next((use for use in plateaus if _steps_per_batch(loop, use)), None)
        yield _finding(
            f"The learning rate was zero in the last {rates.zero_steps} of {rates.steps} optimizer steps "
            f"({rates.zero_steps / rates.steps:.0%}, limit {max_zero_share:.0%}). These steps changed nothing.",
            "ReduceLROnPlateau steps with every batch, so its patience counts batches."
            if per_batch
            else "The schedule is planned for fewer steps than the loop makes.",
            FIX_PER_EPOCH if per_batch else "# as many steps as the schedule makes: epochs, or epochs * len(loader)",
            per_batch.line if per_batch else _plan_line(setup, loop.schedulers) or line,
            {**evidence, "steps at rate zero": rates.zero_steps},
            edits=move_after_loop(per_batch.line) if per_batch else (),
        )
    elif rates.swings_within_epochs:
        yield _finding(
            f"The learning rate fell to a tenth or less and rose again {rates.swings} times in {rates.epochs} epochs; "
            "expected at most once per epoch.",
            "The scheduler steps with every batch, but its period is meant for epochs.",
            FIX_PER_EPOCH,
            line,
            {**evidence, "swings": rates.swings},
            edits=move_after_loop(step_line),
        )
    elif rates.warms_up_in_each_epoch:
        yield _finding(
            f"The learning rate rises again in {rates.warm_ups} of {rates.epochs} epochs, each time from "
            f"{rates.warm_up_start:.2g} of its highest value or less; expected one warm-up at the start of training.",
            "The warm-up counts the batches of an epoch, or its scheduler is created in each epoch.",
            "step = epoch * len(train_loader) + number   # the warm-up counts all steps; create its scheduler once",
            recreation_line or line,
            {**evidence, "warm-ups": rates.warm_ups},
        )
    elif loop.ineffective_scheduler_steps >= _MIN_INEFFECTIVE_STEPS:
        yield _finding(
            f"The schedule has no effect: after {loop.ineffective_scheduler_steps} steps of the scheduler, all "
            f"{rates.steps} optimizer steps used one learning rate.",
            "The scheduler is created again in each epoch, or other code sets the rate back.",
            "Create the scheduler once, before the loop over epochs.",
            recreation_line or line,
            evidence,
        )


def _repeated_creation_findings(setup: Setup, loop: LoopSummary) -> Iterator[Finding]:
    """Check whether schedulers of one kind are created again and again, each long before the end of its schedule."""
    kinds: dict[type, list[SchedulerUse]] = {}
    for use in loop.schedulers:
        if getattr(use.scheduler, "last_epoch", 0) <= use.steps:  # otherwise it goes on from a state that was loaded
            kinds.setdefault(type(use.scheduler), []).append(use)
    for kind, uses in kinds.items():
        lengths = [unfinished_length(use.scheduler, use.steps) for use in uses]
        if len(uses) >= _MIN_INEFFECTIVE_STEPS and all(lengths):
            steps = max(use.steps for use in uses)
            yield _finding(
                f"{len(uses)} schedulers of the kind {kind.__name__} were created in the loop, each planned for "
                f"{lengths[0]} steps, and each made {steps} or fewer: every one begins at the start of the schedule.",
                "The scheduler is created again, and its state is not restored.",
                "Create the scheduler once, before the loop; call scheduler.load_state_dict() when training resumes.",
                _plan_line(setup, uses) or uses[0].line,
                {"schedulers": len(uses), "planned steps": lengths[0], "steps of each": steps},
            )


def _finding(
    message: str,
    cause: str,
    fix: str,
    line: SourceLine | None,
    evidence: dict[str, Any],
    aspect: str = "",
    edits: tuple[Edit, ...] = (),
) -> Finding:
    return Finding(message, get_location(line), cause, fix, evidence, _CONSEQUENCES, aspect=aspect, edits=edits)


def _scheduled_optimizers(scheduler: Any) -> list[torch.optim.Optimizer]:
    """The optimizers whose learning rate a scheduler changes; empty if it does not tell."""
    scheduled = getattr(scheduler, "optimizer", None)
    return unwrap_optimizer(scheduled) if isinstance(scheduled, torch.optim.Optimizer) else []


def _other_optimizer_finding(setup: Setup, scheduler: Any, count: int) -> Finding:
    kind = type(scheduler).__name__
    return Finding(
        message=f"{kind} changes the rate of an optimizer that is not among the {count} passed.",
        related=get_related_lines((only_optimizer_line(setup), "the optimizer that steps is created here")),
        cause="The optimizer was created again after the scheduler.",
        fix=f"Create the {kind} after the optimizer, with the optimizer that steps.",
        evidence={"scheduler": kind, "optimizer": type(scheduler.optimizer).__name__},
        explains=("T606", "T604", "T614"),
    )


def _schedule_findings(
    setup: Setup, loop: LoopSummary, use: SchedulerUse, losses: Sequence[float], max_slow_share: float
) -> Iterator[Finding]:
    """A schedule that is too fast, too slow, forgotten, or in the wrong plateau mode."""
    kind, length = type(use.scheduler).__name__, planned_length(use.scheduler)
    correct_mode = required_plateau_mode(use.scheduler, use.plateau_metrics, _validation_size(setup), use.line, losses)
    evidence = {
        "steps": loop.steps,
        "scheduler steps": use.steps,
        "share under 1 % of the peak": loop.rates.low_share,
        "last over highest rate": loop.rates.final_ratio,
    }
    texts: tuple[str, str, str] | None = None
    edits: tuple[Edit, ...] = ()
    severity: Severity | None = None
    line, optimizer_step = use.line, loop.lines.get("optimizer")
    is_slow = loop.rates.low_share > max_slow_share or loop.rates.is_constant
    if correct_mode:
        texts = describe_plateau_mode(kind, loop, use, correct_mode)
        edits = change_scheduler(setup, use.scheduler, "mode", repr(correct_mode))
        line = option_line(setup, use.scheduler, "mode", use.scheduler.mode) or use.line
    elif loop.rates.final_ratio < 0 and use.steps:
        texts = describe_negative_rate(kind, loop)
        line = _plan_line(setup, [use]) or line
    elif is_slow and (late_texts := describe_late_start(use, loop.rates)):
        texts, line = late_texts, state_loading_line(setup, use.scheduler) or creation_line(setup, use.scheduler)
    elif loop.rates.low_share > max_slow_share and use.steps and not isinstance(use.scheduler, ReduceLROnPlateau):
        is_per_batch = _steps_per_batch(loop, use) and not is_poor_per_epoch(setup, loop, use, max_slow_share)
        texts = describe_fast_schedule(kind, loop, use, max_slow_share, is_per_batch)
        if is_per_batch:
            edits = move_after_loop(line)
        else:
            line = _plan_line(setup, [use]) or line
    elif ended_texts := describe_ended_schedule(use.scheduler, use.steps, loop.steps):
        texts, line = ended_texts, state_loading_line(setup, use.scheduler) or creation_line(setup, use.scheduler)
    elif not use.steps and loop.steps > 2 * batches_per_epoch(setup) > 0:
        epochs = loop.steps / batches_per_epoch(setup)
        texts = (
            f"{kind} never stepped in {loop.steps} optimizer steps ({epochs:.1f} epochs).",
            "The loop never calls the scheduler's step().",
            "scheduler.step()   # once per epoch",
        )
        edits = step_each_epoch(setup, use.scheduler, optimizer_step)
        line = creation_line(setup, use.scheduler) or optimizer_step
    elif length and 0 < steps_of_kind(loop, use) < length / 2 and 0.9 * length <= loop.steps <= 1.1 * length:
        texts = (*describe_unfinished_schedule(kind, loop, use, length), _FIX_PER_BATCH)
        edits = step_each_batch(line, optimizer_step)
    elif samples := sample_count(setup, loop, use):
        texts = describe_sample_count(kind, use, samples, batches_per_epoch(setup))
        line, severity = length_line(setup, use) or line, severity_of_sample_count(setup, use)
    elif peak := unreached_rate(use, loop.steps):
        texts = (*describe_unreached_rate(kind, loop, use, peak), _FIX_PER_BATCH)
        evidence |= {"highest rate": peak.reached, "planned rate": peak.planned, "planned step": peak.step}
        edits = step_each_batch(line, optimizer_step)
    elif highest := highest_factor_if_rate(use.scheduler, use.steps):
        texts = describe_rate_as_factor(kind, use, highest)
        edits = use_rate_as_factor(setup, use.scheduler)
        line = factor_line(use.scheduler) or line
    elif use.precedes_optimizer and use.steps > 1 and loop.steps and not loop.grad_scaler.requested_steps:
        texts = (
            f"{kind} stepped before the first step of the optimizer. The optimizer never uses the first rate of the "
            "schedule.",
            "The loop calls the scheduler's step() before the optimizer's.",
            "optimizer.step()\nscheduler.step()   # after it",
        )
    if texts:
        finding = _finding(*texts, line, evidence, "plateau mode" if correct_mode else "", edits)
        finding = replace(finding, severity=severity)
        if loop.rates.final_ratio < 0:
            finding = replace(finding, severity="error", explains=(*finding.explains, *_CONSEQUENCES_OF_ASCENT))
        yield finding


def _steps_per_batch(loop: LoopSummary, use: SchedulerUse) -> bool:
    return use.steps >= 0.9 * loop.steps


def _validation_size(setup: Setup) -> int | None:
    """The number of validation samples, if the loader provides it."""
    return loaders.dataset_length(setup.val_loader)


def _scheduled_setup(recreates_optimizer: bool) -> Setup:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    training_optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if recreates_optimizer else optimizer
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(training_optimizer,), scheduler=scheduler)


def bad() -> Setup:
    """An optimizer that was created again."""
    return _scheduled_setup(recreates_optimizer=True)


def good() -> Setup:
    """The same optimizer in both."""
    return _scheduled_setup(recreates_optimizer=False)
