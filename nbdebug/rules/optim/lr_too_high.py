"""O501: the learning rate is too high for this run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loss_curves import RunSummary
from nbdebug.loss_curves.convergence import OPENING_STEPS, RateTooHigh, describe_opening, find_rate_too_high
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.records import Record
from nbdebug.rule_engine.predictions import UNSTABLE_RATE
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import rate_fix, usual_rate
from nbdebug.setup.source_lines import learning_rate_line
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.tools.lr_range import LrRange

_SAFE_UPDATE = 0.01  # of the first steps, relative to the weights: ten times the usual 1e-3
_CONSEQUENCES = (
    *("T601", "T602", "T604", "T605", "T606", "T607", "T610", "T614", "E709", "M306", "M307"),
    *("G401", "G402", "G403", "G404", "G409", "G410", "G411", "G412", "G415", "G416"),
)


@rule("O501", "error", origin="optimizer")
def lr_too_high(
    setup: Setup, record: Record | NotChecked, lr_range: LrRange | NotChecked, *, overwritten: float = 0.15
) -> Iterator[Finding]:
    """The learning rate is too high: the first steps overwrite the weights, or the loss diverges.

    ## What it does
    Reads from your own run how its steps changed the weights, and whether layers were overwritten in part or entirely;
    and how they changed the loss, and whether it jumped or diverged. A range test gives an answer before there is a
    run.

    ## Why it matters
    After such a start units are dead or saturated and the initialization is lost. The loss may decrease again, but
    plateaus where a rate ten times lower would have continued.

    ## How it is measured
    Relative to the start of the same run. Reported for a first step of a typical layer as long as a seventh
    (``overwritten``) of its weights, together with a loss that jumps to 1.5 times its start, stays at nine tenths of
    that of a constant prediction, or plateaus although each of several layers had half of itself overwritten. Also
    reported for a loss that jumps fifteenfold, ends above three times its start, or grows a hundredfold until it is not
    finite. Not reported for a run in which every gradient was zero, since weight decay alone then made its steps. A
    usual step is a thousandth of the weights. A run that ends with a score of 0.97, or with a twentieth of
    the loss, is successful whatever its steps were. In a range test, the rate is too high if most sweeps had diverged
    at it.

    ## How to fix
    Use a tenth of the rate, and less if the first updates then still exceed 1% of the norm of the weights. Or use a
    warm-up.

    ## When to ignore
    When the run was meant to find the highest rate.

    ## References
    CS231n notes: the ratio of updates to weights, about 1e-3. Smith 2017, arXiv:1506.01186: the learning rate range
    test.
    """
    if not isinstance(lr_range, NotChecked):
        yield from _range_test_findings(setup, lr_range)
        return
    if isinstance(record, NotChecked):
        raise record
    run_summary = get_run_summary(record)
    verdict = find_rate_too_high(run_summary, overwritten)
    if verdict is None or _has_no_gradient(record):
        return
    rate = peak_rate(record)
    yield Finding(
        message=f"The learning rate {rate:.3g} is too high: {_effect(verdict, run_summary)}.",
        where=get_location(learning_rate_line(setup, rate)),
        cause="The steps are so long that the gradient no longer predicts how the loss changes.",
        fix=rate_fix(setup, usual_rate(rate, max(verdict.first_update, _SAFE_UPDATE * 1.01), _SAFE_UPDATE)),
        evidence={
            "rate": rate,
            "start": run_summary.start,
            "first": float(run_summary.loss[0]),
            "highest of the first steps": verdict.highest,
            "first steps": OPENING_STEPS,
            "jump": verdict.jump,
            "end": run_summary.end,
            "first step over weights": verdict.first_update,
            "constant guess": run_summary.chance,
            "remaining share": run_summary.remaining_share,
            "floor": run_summary.floor,
        },
        explains=(*_CONSEQUENCES, "T603", "G405", "G406", "T609") if verdict.diverged else _CONSEQUENCES,
    )


def _range_test_findings(setup: Setup, result: LrRange) -> Iterator[Finding]:
    """Judge the current learning rate by a range test."""
    from nbdebug.tools.lr_range.judgement import judge_result

    verdict, rate = judge_result(result), result.current
    if verdict.verdict != "too high" or rate is None or verdict.divergence_value is None:
        return
    recommended_rate = result.suggestion or verdict.divergence_value / 10
    yield Finding(
        message=f"The learning rate {rate:.3g} is too high: in the range test the loss diverged from "
        f"{verdict.divergence_value:.2g} upwards.",
        where=get_location(learning_rate_line(setup, rate)),
        cause="The steps are so long that the gradient no longer predicts how the loss changes.",
        fix=rate_fix(setup, recommended_rate),
        evidence={"rate": rate, "lost from": verdict.divergence_value, "recommended": result.suggestion},
        explains=_CONSEQUENCES,
        predicts=UNSTABLE_RATE.claim,
    )


def _effect(verdict: RateTooHigh, run_summary: RunSummary) -> str:
    """Description of the effect of the steps on weights and loss."""
    if verdict.diverged:
        return f"the loss diverged from {run_summary.start:.4g}"
    weight_change = (
        f"one of the first steps changed the weights of a typical layer by {verdict.first_update:.0%} of their norm"
    )
    opening = describe_opening(run_summary, verdict)
    return (
        f"{f'{weight_change}, ' if verdict.first_update >= 0.05 else ''}{opening} and ended at {run_summary.end_text}"
    )


def _has_no_gradient(record: Record) -> bool:
    """Return whether all gradients were exactly zero from the first steps on: weight decay alone made the steps."""
    steps, norms = record.series("gradient_norm")
    return len(steps) > 0 and int(steps[0]) <= OPENING_STEPS and not norms.any()


def peak_rate(record: Record) -> float:
    """The highest learning rate of the run."""
    rates = record.series("lr")[1]
    return float(f"{float(rates.max()):.6g}") if len(rates) else 0.0


def bad() -> Setup:
    """Adam with a learning rate of 1."""
    return training_setup(mlp(8, 32, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=1.0)


def bad_loop(setup: Setup) -> None:
    """Train for ten epochs."""
    train(setup, 10)


def good() -> Setup:
    """Adam with a learning rate of 0.01."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Train for twenty epochs."""
    train(setup, 20)
