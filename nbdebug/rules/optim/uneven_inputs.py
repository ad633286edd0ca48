"""O520: the ranks have different numbers of batches."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports, name_ranks
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch


@rule("O520", "error")
def uneven_inputs(ranks: RankReports) -> Iterator[Finding]:
    """The ranks of a distributed run have different numbers of batches in an epoch.

    ## What it does
    Compares the length of the training loader, and the batches drawn in each complete epoch, between ranks.

    ## Why it matters
    Each backward pass waits for all ranks. A rank with more batches than another one waits for ever in the first step
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
    reports = check_reports(ranks, 0)
    if any(report.joins for report in reports):
        return
    planned = [report.planned_batches for report in reports]
    drawn = list(zip(*(report.epoch_batches[:-1] for report in reports), strict=False))
    uneven = next((counts for counts in drawn if len(set(counts)) > 1), None)
    counts = planned if len(set(planned)) > 1 and min(planned) else list(uneven or ())
    if not counts:
        return
    texts = (f"rank {report.rank} has {count}" for report, count in zip(reports, counts, strict=True))
    yield Finding(
        message=f"The ranks have different numbers of batches in an epoch: {', '.join(texts)}.",
        where=get_event_place(reports[0], "batch"),
        cause=f"After {min(counts)} batches, {name_ranks(ranks.with_value(counts, min(counts)))} makes no further step "
        "for which the others wait.",
        fix="# with model.join():   # around the loop, or DistributedSampler(dataset) in the loader",
        evidence={"batches": {str(report.rank): count for report, count in zip(reports, counts, strict=True)}},
        explains=("P809", "P807", "O518"),
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
