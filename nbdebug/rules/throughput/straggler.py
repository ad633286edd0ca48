"""P807: one rank is steadily slower than the others, which wait for it at each step."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports, median_or_zero
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

_MIN_STEPS, _MIN_SECONDS = 8, 0.002


@rule("P807", "warning")
def straggler(ranks: RankReports, *, ratio: float = 1.5, share: float = 0.25) -> Iterator[Finding]:
    """One rank of a distributed run is steadily slower than the others.

    ## What it does
    Compares the time that each rank takes before its backward pass, in which ranks wait for each other.

    ## Why it matters
    All ranks wait for the slowest one at each step, so that it sets the speed of the run.

    ## How it is measured
    By the time between the end of a step and the next backward pass, over the last 64 steps. A rank is reported if its
    lower quartile is ``ratio`` = 1.5 times the median of the others, so that it is slower in three of four steps, and
    the difference of the medians takes a ``share`` of a quarter of a step. The line is the one at which samples of its
    stack, taken twice a second, found the rank most often outside of the backward pass.

    ## How to fix
    Read data on each rank from a disk that is equally fast, with the same number of workers; write checkpoints and logs
    less often or in a thread; give each rank as many samples; check the clock and the temperature of a device that is
    always the slow one.

    ## When to ignore
    When the machines are different on purpose.

    ## References
    Lin et al. 2025, Understanding stragglers in large model training, arXiv:2505.05713.
    """
    reports = check_reports(ranks, _MIN_STEPS)
    slowest = max(reports, key=lambda report: report.own_seconds)
    others = median_or_zero(report.own_seconds for report in reports if report is not slowest)
    step = slowest.step_seconds
    lost = slowest.own_seconds - others
    if slowest.least_own_seconds < ratio * others or lost < max(share * step, _MIN_SECONDS):
        return
    yield Finding(
        message=f"Rank {slowest.rank} takes {slowest.own_seconds * 1000:.1f} ms before each backward pass, the others "
        f"{others * 1000:.1f} ms; a step takes {step * 1000:.1f} ms.",
        where=get_place(slowest.busiest_line),
        cause=f"The other ranks wait {lost / max(step, 1e-9):.0%} of each step for rank {slowest.rank}"
        f"{f' on {slowest.host}' if slowest.host else ''}.",
        fix="# give each rank the same work, or move this line out of the step",
        evidence={
            "rank": slowest.rank,
            "ms before the backward pass": slowest.own_seconds * 1000,
            "ms of the others": others * 1000,
            "ms of a step": step * 1000,
        },
    )


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank takes half a second for each step."""
    train_as_first_rank(setup, watch, own_seconds=0.5, least_own_seconds=0.5, step_seconds=0.5)


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks are equally fast."""
    train_as_first_rank(setup, watch)
