"""Messages, causes, fixes and second lines of schedules that are too fast, undone, negative or in the wrong mode."""

from __future__ import annotations

from dataclasses import replace

from torch.optim.lr_scheduler import ReduceLROnPlateau

from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.planned_rates import UnreachedPeak
from nbdebug.loop_monitor.schedules import SchedulerUse
from nbdebug.setup import Setup
from nbdebug.setup.source_lines import creation_line
from nbdebug.source.location import get_related_lines

FIX_PER_EPOCH = "Move scheduler.step() behind the loop over batches, so that it runs once per epoch."


def relate_schedule(setup: Setup, loop: LoopSummary, use: SchedulerUse | None, finding: Finding) -> Finding:
    """Return a finding on a schedule with the line that steps it, or with the one that creates it beside that."""
    if use is None:
        return finding
    kind = type(use.scheduler).__name__
    lines = get_related_lines(
        (use.line, f"{kind} steps here"),
        (None if use.steps else loop.lines.get("optimizer"), f"the optimizer steps here, and {kind} never does"),
        (creation_line(setup, use.scheduler), f"{kind} is created here"),
    )
    return replace(finding, related=replace(finding, related=lines).related[:1])


def fix_for_undone_changes(use: SchedulerUse, other: SchedulerUse) -> str:
    """Return the fix: one sequence for schedulers that step equally often, else a warm-up that ends."""
    steps_equally = abs(use.steps - other.steps) <= 1 and not isinstance(use.scheduler, ReduceLROnPlateau)
    if steps_equally:
        return (
            "scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[n])   # or "
            "one LambdaLR with the product of both factors"
        )
    text = other.line.text.strip() if other.line else ""
    call = text if text.endswith(".step()") and text.count("(") == 1 else "warm_up.step()"
    return f"if step <= warm_up_steps: {call}   # after that, only {type(use.scheduler).__name__} sets the rate"


def describe_negative_rate(kind: str, loop: LoopSummary) -> tuple[str, str, str]:
    """Message, cause and fix for a schedule that falls below zero."""
    return (
        f"{kind} reduced the rate below zero: the last rate is {loop.rates.final_ratio:.3g} times the highest.",
        "The schedule reaches zero before the training ends, and goes on. Steps at a negative rate increase the loss.",
        "total = epochs * len(train_loader)   # steps of the schedule; and factor = max(0.0, 1 - step / total)",
    )


def describe_fast_schedule(
    kind: str, loop: LoopSummary, use: SchedulerUse, max_slow_share: float, is_per_batch: bool
) -> tuple[str, str, str]:
    """Message, cause and fix for a schedule that reduces the rate too early."""
    has_function = hasattr(use.scheduler, "lr_lambdas") or not type(use.scheduler).__module__.startswith("torch.")
    is_whole = has_function and loop.rates.final_ratio == 0
    return (
        f"{kind} stepped {use.steps} times in {loop.steps} optimizer steps: {loop.rates.low_share:.0%} of them "
        f"ran at less than 1 % of the highest rate (limit {max_slow_share:.0%}).",
        "It steps with every batch, but its parameters are meant for epochs."
        if is_per_batch
        else "Its function returns a factor of exactly 0. A division by //, a rounding or an array of integers does so."
        if is_whole
        else "The factor that its function returns falls too early."
        if has_function
        else "Its steps reduce the rate too much.",
        FIX_PER_EPOCH
        if is_per_batch
        else "lambda step: 1 / (1 + decay * step)   # floating-point factors, without //, round() or integer arrays"
        if is_whole
        else "lambda step: 1 / (1 + decay * step)   # a factor that falls over all steps"
        if has_function
        else _fix_of_fast_schedule(kind, use),
    )


def _fix_of_fast_schedule(kind: str, use: SchedulerUse) -> str:
    """Return the smaller reduction; for an exponential decay, the factor that ends at 1% of the first rate."""
    if kind != "ExponentialLR":
        return "# a factor closer to 1, or fewer reductions"
    return f"# a factor closer to 1: with gamma=0.01 ** (1 / {use.steps}), the rate ends at 1% of the first one"


def describe_plateau_mode(kind: str, loop: LoopSummary, use: SchedulerUse, correct_mode: str) -> tuple[str, str, str]:
    """Message, cause and fix for a plateau scheduler in the wrong mode."""
    configured_mode = "min" if correct_mode == "max" else "max"
    first, last = use.plateau_metrics[0], use.plateau_metrics[-1]
    subject = "a score" if correct_mode == "max" else "a loss"
    return (
        f"{kind} is in mode {configured_mode!r} but gets {subject}, which went from {first:.3g} to {last:.3g} "
        f"in {len(use.plateau_metrics)} calls. Each improvement counts as no progress, and the rate ended at "
        f"{loop.rates.final_ratio:.2g} of its peak.",
        f"The metric is {subject}, but the mode is {configured_mode!r}.",
        f"scheduler = ReduceLROnPlateau(optimizer, mode={correct_mode!r})",
    )


def describe_rate_as_factor(kind: str, use: SchedulerUse, highest: float) -> tuple[str, str, str]:
    """Message, cause and fix for a function that returns rates where the scheduler takes factors."""
    initial = use.scheduler.base_lrs[0]
    return (
        f"The highest factor of {kind} in {use.steps} steps is {highest:.3g}, and the initial rate of its optimizer is "
        f"{initial:.3g}: the highest rate is their product, {highest * initial:.3g}.",
        "The function returns a learning rate, but the scheduler multiplies the initial rate by what it returns.",
        "factor = rate / initial_rate   # return the factor; or create the optimizer with lr=1.0",
    )


def describe_foreign_schedule(kind: str, loop: LoopSummary, use: SchedulerUse) -> tuple[str, str, str]:
    """Message, cause and fix for a scheduler of the optimizer of another model."""
    return (
        f"{kind} made {use.steps} steps, but its optimizer made none. Another optimizer, with parameters of the same "
        f"shapes, made {loop.steps} steps at a rate that the schedule does not change.",
        "The scheduler holds the optimizer of another model, such as the one before a restart or in a loaded state.",
        f"Create the {kind} with the optimizer that steps, and load its numbers with load_state_dict().",
    )


def describe_unfinished_schedule(kind: str, loop: LoopSummary, use: SchedulerUse, length: int) -> tuple[str, str]:
    """Message and cause for a schedule that is planned for batches and steps once per epoch."""
    return (
        f"{kind} is planned for {length} steps but stepped {use.steps} times in {loop.steps} batches: "
        f"it completed {use.steps / length:.1%} of the schedule.",
        "It steps once per epoch, but its length counts batches.",
    )


def describe_unreached_rate(kind: str, loop: LoopSummary, use: SchedulerUse, peak: UnreachedPeak) -> tuple[str, str]:
    """Message and cause for a warm-up that ends long after the training."""
    return (
        f"{kind} stepped {use.steps} times in {loop.steps} batches, so the highest rate was {peak.reached:.2g}. "
        f"The rate reaches {peak.planned:.2g} after {peak.step} steps of the scheduler.",
        "It steps once per epoch, but its warm-up counts batches.",
    )
