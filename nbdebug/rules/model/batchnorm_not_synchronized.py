"""M325: BatchNorm normalizes with the few samples of one rank."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from nbdebug.distributed.rank_report import RankReports, median_or_zero
from nbdebug.finding import Finding, Location
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

_MAX_ROWS = 8


@rule("M325", "warning")
def batchnorm_not_synchronized(ranks: RankReports, *, rows: int = _MAX_ROWS) -> Iterator[Finding]:
    """BatchNorm normalizes with the few samples of one rank, or its running statistics differ between ranks.

    ## What it does
    Lists the BatchNorm layers that are not SyncBatchNorm, the samples in the batches of each rank, and whether the
    running statistics of the ranks are kept equal.

    ## Why it matters
    The batch of a rank is a part of the whole batch. Statistics of a few samples are noisy, so that the same model
    trains worse on several ranks than on one. Running statistics that differ between ranks make each rank evaluate
    another model, and the saved one is that of a single rank.

    ## How it is measured
    By the median number of samples in the first 64 batches of each rank: it is reported if this is at most ``rows`` =
    8. Running means are compared by their hashes if the wrapper does not broadcast buffers.

    ## How to fix
    ``model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)`` before the model is wrapped, or GroupNorm, which
    does not use the batch. Leave ``broadcast_buffers`` at True.

    ## When to ignore
    When the running statistics are fixed, or the small batches are intended.

    ## References
    Peng et al. 2018, MegDet, arXiv:1711.07240, section 3. Wu and He 2018, Group Normalization, arXiv:1803.08494.
    """
    reports = check_reports(ranks)
    first = reports[0]
    layers = first.local_batch_norms
    if not layers:
        return
    samples = median_or_zero(median_or_zero(report.batch_rows) for report in reports)
    differing = ranks.differing_names("batch_statistics")
    if differing and not (first.wrapper and first.broadcasts_buffers):
        message = (
            f"The running means of {len(differing)} of {len(first.batch_statistics)} normalization layers differ "
            "between the ranks."
        )
        cause = "Buffers are not broadcast, so that each rank evaluates with the statistics of its own samples."
    elif 0 < samples <= rows:
        message = (
            f"{len(layers)} BatchNorm layer{'s' * (len(layers) > 1)} normalize{'s' * (len(layers) == 1)} with "
            f"{samples:.0f} samples of one rank, where {ranks.size} ranks have {samples * ranks.size:.0f}."
        )
        cause = "BatchNorm does not synchronize its statistics between ranks."
    else:
        return
    yield Finding(
        message=message,
        where=Location(module=layers[0]),
        cause=cause,
        fix="model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)   # before DistributedDataParallel",
        evidence={"layers": list(layers)[:20], "samples": samples, "ranks": ranks.size},
    )


def bad() -> Setup:
    """A classifier with BatchNorm."""
    return classifier(nn.BatchNorm1d(3))


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank keeps other running statistics, without a wrapper."""
    train_as_first_rank(setup, watch, batch_statistics={"3": 1})


def good() -> Setup:
    """The same classifier."""
    return classifier(nn.BatchNorm1d(3))


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks keep the same statistics."""
    train_as_first_rank(setup, watch)
