"""O516: the ranks of a distributed run read the same samples."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReport, RankReports
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

_MIN_SHARED, _MIN_DISTINCT_SHARE = 8, 0.5


@rule("O516", "error")
def same_data_on_every_rank(ranks: RankReports, *, share: float = 0.5) -> Iterator[Finding]:
    """The ranks of a distributed run read the same samples.

    ## What it does
    Compares the samples that the ranks read in the first epoch of a watched loop.

    ## Why it matters
    Several ranks then do the work of one: an epoch takes as long, and the averaged gradient is that of fewer samples.

    ## How it is measured
    By hashes of 64 values of each sample in the first 64 batches. It is reported if a ``share`` of one half of the
    samples of a rank is also read by another one, or if the loader of each rank passes through the whole dataset and
    half as many samples are shared as two random orders share. Ranks with many equal samples are not compared.

    ## How to fix
    Give the loader ``sampler=DistributedSampler(dataset)``, and call its ``set_epoch(epoch)`` before each epoch. Shard
    a stream by the rank.

    ## When to ignore
    When the samples are augmented differently on each rank, and the dataset is small.

    ## References
    PyTorch documentation: torch.utils.data.distributed.DistributedSampler.
    """
    reports = check_reports(ranks)
    first = reports[0]
    for other in reports[1:]:
        shared, read = _count_shared(first, other)
        expected = share * read / first.dataset_samples if first.dataset_samples else 1.0
        reads_whole = _reads_whole_dataset(first) and _reads_whole_dataset(other)
        if read and shared >= max(_MIN_SHARED, (expected if reads_whole else share) * read):
            yield Finding(
                message=f"Rank {other.rank} reads {shared} of the first {read} samples that rank {first.rank} reads.",
                where=get_event_place(first, "batch"),
                cause="The loader of each rank passes through the whole dataset."
                if reads_whole
                else "The samplers of the ranks choose the same samples.",
                fix="sampler=torch.utils.data.distributed.DistributedSampler(dataset)   # of the training loader",
                evidence={"shared": shared, "samples": read, "ranks": [first.rank, other.rank]},
            )
            return


def _count_shared(first: RankReport, other: RankReport) -> tuple[int, int]:
    """Return the number of samples that both ranks read, and that of the first; 0 if many are equal."""
    own, others = set(first.sample_hashes), set(other.sample_hashes)
    if len(own) < max(_MIN_SHARED, _MIN_DISTINCT_SHARE * len(first.sample_hashes)):
        return 0, 0
    return len(own & others), min(len(own), len(others))


def _reads_whole_dataset(report: RankReport) -> bool:
    """Return whether the batches of one epoch hold as many samples as the dataset."""
    rows = max(report.batch_rows, default=0)
    return bool(report.dataset_samples) and report.planned_batches * rows >= report.dataset_samples


def bad() -> Setup:
    """A loader without a sampler for ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank reads the same samples."""
    train_as_first_rank(setup, watch, same_samples=True)


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """The other rank reads other samples."""
    train_as_first_rank(setup, watch)
