"""O520: the ranks have different numbers of batches."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports, name_ranks
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch


@rule("O520", "error")
def uneven_inputs(ranks: RankReports) -> Iterator[Finding]:
    """The ranks of a distributed run have different numbers of batches in an epoch.

    ## What it does
    Compares the length of the training loader, and the batches drawn in each complete epoch, between ranks.

    ## Why it matters
    Each backward pass waits for all ranks. A rank with more batches than another one never leaves the first step
    that the other does not make, or averages its gradient with that of another epoch.

    ## How it is measured
    Exactly. Loops under ``wrapper.join()``, which serves the ranks that have ended, are not reported.

    ## How to fix
    ``DistributedSampler(dataset)`` gives all ranks the same number of samples. Otherwise run the loop within
    ``with model.join():``, or stop all ranks at the smallest number of batches.

    ## When to ignore
    When the ranks do not communicate in the loop.

    ## References
    PyTorch tutorial: Distributed training with uneven inputs using the join context manager.
    """
    if any(report.joins for report in ranks.reports):
        return
    counts = dict(ranks.planned_batches)
    if len(set(counts.values())) < 2 or not min(counts.values()):
        complete = (report.epoch_batches[:-1] for report in ranks.reports)
        uneven = next((drawn for drawn in zip(*complete, strict=False) if len(set(drawn)) > 1), ())
        counts = dict(zip((report.rank for report in ranks.reports), uneven, strict=False))
    if not counts:
        return
    fewest = [rank for rank, count in counts.items() if count == min(counts.values())]
    texts = (f"rank {rank} has {count}" for rank, count in counts.items())
    yield Finding(
        message=f"The ranks have different numbers of batches in an epoch: {', '.join(texts)}.",
        where=get_event_place(ranks.reports[0], "batch"),
        cause=f"After {min(counts.values())} batches, {name_ranks(fewest)} makes no further step, for which the others "
        "wait.",
        fix="Put the loop into a block with model.join(), or pass DistributedSampler(dataset) to the loader.",
        evidence={"batches": {str(rank): count for rank, count in counts.items()}},
        explains=("P809", "P807", "O518", "X1099"),
    )


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank has fewer batches."""
    train_as_first_rank(setup, watch, planned_batches=2)


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks have as many batches."""
    train_as_first_rank(setup, watch)
