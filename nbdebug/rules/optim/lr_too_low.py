"""O502: the learning rate is too low for this run."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

import torch
from torch.optim.lr_scheduler import LambdaLR

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.schedules import unreached_rate
from nbdebug.loss_curves.convergence import USUAL_UPDATE, RateTooLow, find_rate_too_low
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.measurements.reference import Reference, compare_with_reference
from nbdebug.records import Record
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.clip_limits import higher_limit, median_factor
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.rules.optim.lr_too_high import peak_rate
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import rate_fix, usual_rate
from nbdebug.setup.schedule_lines import factor_line
from nbdebug.setup.source_lines import changed_rate_line, learning_rate_line
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.lr_range import LrRange


_MAX_NEAR = 0.5  # the sum of all steps, relative to the weights, up to which these are near their initial values
_NEAR_INITIAL = "The steps are so short that the weights are still near their initial values."
_MIN_FACTOR = 0.1  # of the rate that the optimizer was created with
_MIN_ZERO_STEPS, _USUAL_RATE = 8, 1e-3  # the rate: the default of Adam
_CONSEQUENCES = ("T601", "T606", "T607", "T608", "T610", "T611", "T614", "G409", "G414", "E706", "E709")
_MIN_CLIPPED = 0.5  # the factor by which clipping multiplies half of the gradients; above it, the rate is at fault
_MIN_GAIN = 0.02  # of the reference learner over the network


@rule("O502", "warning", origin="optimizer")
def lr_too_low(
    setup: Setup,
    record: Record | NotChecked,
    lr_range: LrRange | NotChecked,
    reference: Reference | NotChecked,
    loop: LoopSummary | NotChecked,
    *,
    way: float = 0.5,
) -> Iterator[Finding]:
    """The learning rate is too low: the weights hardly change, and the loss decreases slowly.

    ## What it does
    Sums the lengths of all steps of each layer, relative to the norm of its weights, and compares the sum with the
    change of the loss. A range test gives an answer before there is a run.

    ## Why it matters
    A network that is still near its initialization has learned almost nothing. It looks like a hard task, or like a
    bug, and is neither.

    ## How it is measured
    The sum of all step lengths bounds how far a layer can have moved. The rate is too low if this sum is less than half
    (``way``) of the weight norm for three layers in four and exceeds the weight norm for none, with steps below 1/400
    of the norm, and six tenths of the loss of a constant prediction remain. It is also too low if the loss decreases
    along a straight line and is still above eight tenths of the loss of a constant prediction after a hundred steps,
    with steps below 1/1000 of the norm, or below 3/1000 if their sum is less than the norm. The same holds for a loss
    that keeps decreasing with steps below 1/800. Weights that do not change at all have
    another cause (O503, M301, O507), unless the rate was exactly zero in each of at least eight steps, without a
    scheduler: this is an error. In a range test, the rate is too low if it is at most a tenth of the recommended rate
    and the loss had made less than a tenth of its decrease at it. After a run, it is not reported if the network
    predicts its training samples as well as a kernel ridge regression or random trees, which have learned something
    from them, or if a warm-up had not ended since its scheduler steps too seldom (O507). If a limit of the norm
    multiplies half of the gradients of plain gradient descent by less than 0.5, this limit is named as the cause.

    ## How to fix
    Multiply the rate by ten, then by ten again, until the loss decreases within the first epoch. The fix names
    a rate with which a typical update has a thousandth of the norm of the weights, or more in a short run, so that all
    updates together can reach that norm.

    ## When to ignore
    When a pretrained model only needs small adjustments.

    ## References
    CS231n notes: the ratio of updates to weights, about 1e-3, and loss curves by learning rate.
    """
    if not isinstance(lr_range, NotChecked):
        yield from _range_test_findings(setup, lr_range)
        return
    if isinstance(loop, LoopSummary) and _stands_still(loop):
        yield _zero_rate_finding(setup, loop)
        return
    if isinstance(record, NotChecked):
        raise record
    run_summary = settled_run_summary(record)
    if not run_summary.travel.distances:
        raise NotChecked("no step of the weights was recorded")
    if run_summary.step_count < 20:
        raise NotChecked(
            f"{run_summary.step_count} steps are too few to distinguish a low rate from a short run; 20 are needed"
        )
    if (verdict := find_rate_too_low(run_summary, way)) is None:
        return
    comparison = None if isinstance(reference, NotChecked) else compare_with_reference(run_summary, reference)
    if comparison is not None and comparison.is_informative and comparison.gain <= _MIN_GAIN:
        return
    uses, batches = (loop.schedulers, loop.steps) if isinstance(loop, LoopSummary) else ((), 0)
    if any(unreached_rate(use, batches) for use in uses):
        return  # O507 reports the schedule
    rate = peak_rate(record)
    schedule = _reducing_schedule(setup, loop, rate)
    # All steps together must be able to move the weights by their own norm.
    wanted_ratio = max(USUAL_UPDATE, 1 / run_summary.step_count)
    suggested_rate = usual_rate(rate, min(verdict.update_ratio, 0.99 * wanted_ratio), wanted_ratio)
    cause, fix = _cause_and_fix(setup, schedule, rate, suggested_rate, verdict)
    line = factor_line(schedule) if schedule else learning_rate_line(setup, rate)
    if line is not None and line == changed_rate_line(setup, rate):
        cause = (
            f"The optimizer was created with the rate {setup.optimizers[0].defaults['lr']:.3g}; this line changed it."
        )
        fix = rate_fix(setup, setup.optimizers[0].defaults["lr"])
    subject, edits = f"The learning rate {rate:.3g} is too low", tuple[Edit, ...]()
    if isinstance(loop, LoopSummary) and (factor := median_factor(loop.clipping)) < _MIN_CLIPPED:
        subject, line = f"The steps are too short at the learning rate {rate:.3g}", loop.lines.get("clip") or line
        cause = (
            f"Clipping shortens the steps: in the median, it multiplies the gradients by {factor:.2g}, since their "
            f"norm is limited to {median(loop.clipping.limits):.3g} and is {median(loop.clipping.norms):.3g} before."
        )
        fix, edits = higher_limit(loop)
    yield Finding(
        message=f"{subject}: a typical step changes a layer by "
        f"{verdict.update_ratio:.1e} of its norm, and all {run_summary.step_count} steps together by "
        f"{verdict.travel:.2g}; the loss went from {run_summary.start:.4g} to {run_summary.end:.4g}.",
        where=get_location(line),
        cause=cause,
        fix=fix,
        edits=edits,
        evidence={
            "rate": rate,
            "way over weights": verdict.travel,
            "step over weights": verdict.update_ratio,
            "steps": run_summary.step_count,
            "start": run_summary.start,
            "end": run_summary.end,
            "constant guess": run_summary.chance,
        },
        explains=("T601", "T606", "T607", "T608", "T610", "T614", "G409", "E709", "E706"),
    )


def _stands_still(loop: LoopSummary) -> bool:
    """Return whether the rate was zero in all steps, no scheduler set it, and no parameter changed."""
    return loop.rates.is_zero and loop.rates.steps >= _MIN_ZERO_STEPS and not loop.schedulers and not loop.changed


def _zero_rate_finding(setup: Setup, loop: LoopSummary) -> Finding:
    """Report steps that cannot change anything, with the line that set their rate."""
    created_with = float(setup.optimizers[0].defaults.get("lr", 0.0)) if setup.optimizers else 0.0
    return Finding(
        message=f"The learning rate was zero in all {loop.rates.steps} optimizer steps: no parameter changed.",
        where=get_location(learning_rate_line(setup, 0.0)),
        cause=f"The optimizer was created with the rate {created_with:.3g}, and its rate was set to zero before the "
        "loop, as by a saved state of a schedule that had ended."
        if created_with
        else "The optimizer was created with a learning rate of zero.",
        fix=rate_fix(setup, created_with or _USUAL_RATE),
        evidence={"rate": 0.0, "steps": loop.rates.steps, "created with": created_with},
        explains=_CONSEQUENCES,
        severity="error",
    )


def _reducing_schedule(setup: Setup, loop: LoopSummary | NotChecked, rate: float) -> LambdaLR | None:
    """The schedule whose factors kept the rate below a tenth of that of the optimizer; None if there is none."""
    used = [use.scheduler for use in loop.schedulers] if isinstance(loop, LoopSummary) else []
    schedules = (item for item in [*setup.schedulers, *used] if isinstance(item, LambdaLR))
    return next((item for item in schedules if rate < _MIN_FACTOR * float(item.base_lrs[0])), None)


def _cause_and_fix(
    setup: Setup, schedule: LambdaLR | None, rate: float, suggested_rate: float, verdict: RateTooLow
) -> tuple[str, str]:
    """The cause of a low rate and its repair: the rate of the optimizer, or the factors of a schedule."""
    if schedule is None:
        return _describe_steps(verdict), rate_fix(setup, suggested_rate)
    initial = float(schedule.base_lrs[0])
    return (
        f"The function of {type(schedule).__name__} returned factors of at most {rate / initial:.2g}. They "
        f"multiply the rate of the optimizer, {initial:.3g}.",
        "Return a factor from this function, not a rate: 1 keeps the rate of the optimizer.",
    )


def _describe_steps(verdict: RateTooLow) -> str:
    """What short steps did to the weights; only a small sum of all steps bounds the way from the initial values."""
    if verdict.travel < _MAX_NEAR:
        return _NEAR_INITIAL
    if verdict.travel < 1:
        return "The steps are short: in most layers, the sum of all update norms is less than the norm of the weights."
    return f"The steps are short: the ratio of update norm to weight norm is below the usual {USUAL_UPDATE:g}."


def _range_test_findings(setup: Setup, result: LrRange) -> Iterator[Finding]:
    """Judge the current learning rate by a range test."""
    from nbdebug.tools.lr_range.judgement import judge_result

    verdict, rate, recommended_rate = judge_result(result), result.current, result.suggestion
    if verdict.verdict != "too low" or rate is None or recommended_rate is None or verdict.progress is None:
        return
    yield Finding(
        message=f"The learning rate {rate:.3g} is too low: in the range test the loss reached only "
        f"{verdict.progress:.0%} of its total decrease up to this rate; {recommended_rate:.2g} is recommended.",
        where=get_location(learning_rate_line(setup, rate)),
        cause=_NEAR_INITIAL,
        fix=rate_fix(setup, recommended_rate),
        evidence={"rate": rate, "way down": verdict.progress, "recommended": recommended_rate},
        explains=("T601", "T606", "T607", "T608", "T610", "T614", "G409", "E709", "E706"),
        predicts=POOR_TRAINING.claim,
    )


def bad() -> Setup:
    """Adam with a learning rate of 1e-5."""
    return training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=1e-5)


def bad_loop(setup: Setup) -> None:
    """Train for ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """Adam with a learning rate of 1e-2."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Train for twenty epochs."""
    train(setup, 20)
