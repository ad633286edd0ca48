"""P809: the ranks wait for one that is lost or does something else."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports, name_ranks
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import get_place
from nbdebug.setup import Setup
from nbdebug.watching.heartbeat import Beat, Stall
from nbdebug.watching.watch import Watch


@rule("P809", "error")
def stalled_rank(ranks: RankReports) -> Iterator[Finding]:
    """The ranks of a distributed run wait for one that is lost, or that does something else.

    ## What it does
    Each rank writes a sign of life, its step and its line twice a second, from a thread and without collective
    operations. While a loop stands still, the first rank that is alive prints, on standard error, the ranks for which
    the others wait; this finding repeats it when the loop ends.

    ## Why it matters
    A rank that waits in a collective operation raises nothing until its timeout, 30 minutes by default, and the
    exception then names the rank that waited.

    ## How it is measured
    A rank is lost if it gives no sign of life for 4 seconds. A loop stands still if no rank finishes a step for 5
    seconds, and for four times its longest step, up to a minute. The others wait for the ranks that have left the loop,
    else for those that have made the fewest steps, else for those that are not in the backward pass.

    ## How to fix
    Look at the line of the rank that is named: a collective operation or a step under a condition that holds on some
    ranks only, a loader that waits, or a process that ran out of memory.

    ## When to ignore
    When one rank writes a checkpoint or evaluates while the others wait.

    ## References
    PyTorch documentation: torch.distributed.monitored_barrier and the flight recorder, which serve the same purpose
    for collective operations.
    """
    for stall in ranks.stalls[-1:]:
        has_failed = bool(ranks.silent_ranks) or any(report.error for report in ranks.reports)
        yield Finding(
            message=f"The others waited {stall.seconds:.0f} s for {name_ranks(stall.ranks)}. {stall.description}",
            where=get_place(stall.place),
            cause="The process has ended or stands still." if stall.is_lost else "The other ranks waited in a step.",
            fix="# let all ranks make the same steps and collective operations",
            evidence={"ranks": list(stall.ranks), "seconds": stall.seconds, "state": stall.description},
            explains=("X1099", "P807", "T614"),
            aspect="lost" if stall.is_lost else "stalled",
            severity=None if has_failed else "warning",
        )


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank is lost."""
    train_as_first_rank(setup, watch)
    assert watch.rank_watch is not None
    watch.rank_watch.stalls.append(
        Stall((Beat(0, 1, "running", 8, True, None), Beat(1, 1, "running", 8, False, None)), (1,), 4.0)
    )


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks make their steps."""
    train_as_first_rank(setup, watch)
