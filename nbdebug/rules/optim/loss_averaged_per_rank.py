"""O518: each rank averages the loss over its own number of targets, and the ranks have different numbers."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

_MIN_BATCHES = 6
_WEIGHTING_FUNCTIONS = ("MulBackward", "DivBackward", "SumBackward")


@rule("O518", "warning")
def loss_averaged_per_rank(ranks: RankReports, *, ratio: float = 1.5, share: float = 0.25) -> Iterator[Finding]:
    """Each rank averages the loss over its own targets, although the ranks have different numbers of them.

    ## What it does
    Counts the targets of each rank in each step that the loss does not ignore, and reads which function computed the
    loss.

    ## Why it matters
    DistributedDataParallel gives each rank the same weight. A target on a rank with few of them counts more than one
    on a rank with many, so that the gradient is not that of the average over all targets.

    ## How it is measured
    In the first 64 batches. It is reported if the most targets of a rank are ``ratio`` = 1.5 times the fewest in a
    ``share`` of one quarter of the steps, and the loss is not multiplied, divided or summed at last: then the loop
    weights it.

    ## How to fix
    Sum the loss, and divide it by the number of targets on all ranks:
    ``loss_sum * world_size / all_reduce(number of targets)``.

    ## When to ignore
    When each rank is to count the same, whatever the number of its targets.

    ## References
    D. Han and M. Han (2024), Bugs in LLM training: gradient accumulation fix, which has the same cause.
    """
    reports = check_reports(ranks)
    first = reports[0]
    if not any(report.wrapper for report in reports) or first.root_function.startswith(_WEIGHTING_FUNCTIONS):
        return
    steps = list(zip(*(report.batch_targets for report in reports), strict=False))
    if len(steps) < _MIN_BATCHES:
        raise NotChecked(f"{len(steps)} batches were drawn on all ranks; expected at least {_MIN_BATCHES}")
    uneven = [counts for counts in steps if max(counts) >= ratio * max(min(counts), 1)]
    if len(uneven) < share * len(steps):
        return
    example = max(uneven, key=lambda counts: max(counts) / max(min(counts), 1))
    yield Finding(
        message=f"The ranks average the loss over different numbers of targets in {len(uneven)} of {len(steps)} "
        f"steps, for example over {' and '.join(str(count) for count in example)}.",
        where=get_event_place(first, "loss"),
        cause="Each rank has the same weight in the averaged gradient, so that targets on ranks with few of them count "
        "more.",
        fix="Divide the sum of the losses by the number of targets on all ranks, and multiply it by the world size.",
        evidence={"uneven steps": len(uneven), "steps": len(steps), "example": list(example)},
    )


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank has a quarter of the targets."""
    train_as_first_rank(setup, watch, batch_targets=(4,) * 8, wrapper="DistributedDataParallel")


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks have the same number of targets."""
    train_as_first_rank(setup, watch)
