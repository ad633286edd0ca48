"""R909: all ranks draw the same random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import nn

from nbdebug.distributed.rank_report import RankReport, RankReports
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

_MIN_PASSES = 2


@rule("R909", "warning")
def equal_rank_seeds(ranks: RankReports) -> Iterator[Finding]:
    """All ranks of a distributed run draw the same random numbers.

    ## What it does
    Compares the states of the generators of torch, NumPy and Python between ranks, before the first training passes.

    ## Why it matters
    Dropout drops the same units, and augmentation draws the same crops, on each rank. The noise of the ranks does not
    average out, so that several ranks regularize less than one rank with as large a batch.

    ## How it is measured
    Exactly, before the first three passes. It is reported if a generator has
    the same states on all ranks and these change from pass
    to pass, so that a pass or the data draws random numbers.

    ## How to fix
    Seed all ranks equally to create the model, then ``torch.manual_seed(seed + rank)`` after it is wrapped. Do the
    same for NumPy and ``random`` if the data uses them.

    ## When to ignore
    When the ranks must draw alike, as tensor-parallel ones must for dropout of replicated activations.

    ## References
    PyTorch notes: Reproducibility. Shoeybi et al. 2019, Megatron-LM, arXiv:1909.08053, on random numbers of ranks.
    """
    reports = check_reports(ranks)
    first = reports[0]
    names = [name for name in first.random_states if _is_drawn_alike(name, reports)]
    if not names:
        return
    yield Finding(
        message=f"The {len(reports)} ranks draw the same random numbers from {' and '.join(names)} in their first "
        f"{len(first.random_states[names[0]])} passes.",
        where=get_event_place(first, "batch"),
        cause="All ranks set the same seed, and dropout or augmentation draws from it.",
        fix="torch.manual_seed(seed + torch.distributed.get_rank())   # after the model is wrapped",
        evidence={
            "ranks": [report.rank for report in reports],
            "generators": names,
            "passes": len(first.random_states[names[0]]),
        },
    )


def _is_drawn_alike(name: str, reports: Sequence[RankReport]) -> bool:
    """Return whether a generator has the same states on all ranks, which change from pass to pass."""
    states = {tuple(report.random_states.get(name, ())) for report in reports}
    first = next(iter(states))
    return len(states) == 1 and len(first) >= _MIN_PASSES and len(set(first)) > 1


def bad() -> Setup:
    """A classifier with dropout on two ranks."""
    return classifier(nn.Dropout(0.1))


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank draws the same random numbers."""
    train_as_first_rank(setup, watch, same_random_states=True)


def good() -> Setup:
    """The same classifier."""
    return classifier(nn.Dropout(0.1))


def good_loop(setup: Setup, watch: Watch) -> None:
    """The ranks draw other random numbers."""
    train_as_first_rank(setup, watch)
