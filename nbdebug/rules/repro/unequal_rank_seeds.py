"""R910: ranks that must draw the same random numbers do not."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports, name_ranks
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch


@rule("R910", "error")
def unequal_rank_seeds(ranks: RankReports) -> Iterator[Finding]:
    """The ranks start from different weights, or divide the samples in different orders.

    ## What it does
    Compares the weights of all ranks at the start of a watched loop, and the seeds of their DistributedSamplers.

    ## Why it matters
    Averaged gradients keep ranks equal only if they start equal. Samplers with different seeds shuffle differently, so
    that the parts of the ranks overlap, and some samples are never read.

    ## How it is measured
    Exactly: by hashes of up to 1,024 values of each parameter, and by the seeds. DistributedDataParallel sends the
    weights of rank 0 to all ranks when it wraps the model, so that its ranks start equal.

    ## How to fix
    Set the same seed on all ranks before the model is created, or broadcast its weights from rank 0. Leave the seed of
    DistributedSampler equal on all ranks: it chooses the part of each rank by the rank.

    ## When to ignore
    When the ranks train different models on purpose.

    ## References
    PyTorch documentation: torch.utils.data.distributed.DistributedSampler, on its seed.
    """
    reports = check_reports(ranks)
    seeds = {report.rank: report.sampler_seed for report in reports if report.sampler_seed is not None}
    if len(set(seeds.values())) > 1:
        yield Finding(
            message=f"The samplers of the ranks have different seeds: {', '.join(map(str, seeds.values()))}.",
            where=get_event_place(reports[0], "batch"),
            cause="Each rank shuffles the dataset in another order, so that the parts of the ranks overlap.",
            fix="Create the DistributedSampler with the same seed on all ranks.",
            evidence={"seeds": {str(rank): seed for rank, seed in seeds.items()}},
            explains=("O516",),
        )
    if differing := ranks.differing_names("initial_weights"):
        name, apart = next(iter(differing.items()))
        yield Finding(
            message=f"The ranks start from different weights: {len(differing)} of {len(reports[0].initial_weights)} "
            f"parameters differ, such as {name} on {name_ranks(apart)}.",
            where=get_event_place(reports[0], "backward"),
            cause="The ranks set different seeds before the model is created, and nothing broadcasts its weights.",
            fix="Set the same seed on all ranks before the model is created.",
            evidence={"parameters": list(differing)[:20], "ranks": list(apart)},
            explains=("O515",),
        )


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank starts from other weights."""
    train_as_first_rank(setup, watch, initial_weights={"0.weight": 1})


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks start from the same weights."""
    train_as_first_rank(setup, watch)
