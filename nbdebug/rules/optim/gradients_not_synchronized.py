"""O515: the ranks of a distributed run hold different weights."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReport, RankReports, name_ranks
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch


@rule("O515", "error")
def gradients_not_synchronized(ranks: RankReports) -> Iterator[Finding]:
    """The ranks of a distributed run hold different weights, since their gradients are not averaged.

    ## What it does
    Compares the weights of all ranks at the end of a watched loop.

    ## Why it matters
    Each rank trains a model of its own on its part of the data. The saved one has seen a fraction of the samples, and
    no error is raised.

    ## How it is measured
    Exactly: by hashes of up to 1,024 values of each parameter. Ranks that have made the same number of steps with
    averaged gradients hold the same bits. Sharded parameters, of which each rank holds another part, are not compared.

    ## How to fix
    Wrap the model in DistributedDataParallel, and call the wrapper. Run the last backward pass before each step outside
    of ``no_sync()``. In a loop of your own, average every gradient with ``all_reduce`` before the step.

    ## When to ignore
    When ranks train different models on purpose, such as trials of a search, tensor-parallel parts or local SGD.

    ## References
    Li et al. 2020, PyTorch Distributed, arXiv:2006.15704.
    """
    reports = check_reports(ranks)
    if len({report.steps for report in reports}) > 1 or any(report.error for report in reports):
        raise NotChecked("a loop has ended by an exception, or the ranks made different numbers of steps")
    differing = ranks.differing_names("final_weights")
    if not differing:
        return
    first, (name, apart) = reports[0], next(iter(differing.items()))
    yield Finding(
        message=f"After {first.steps} steps, {len(differing)} of {len(first.final_weights)} parameters differ between "
        f"the ranks: {name} on {name_ranks(apart)} is not that of rank {first.rank}.",
        where=get_event_place(first, "backward"),
        cause=_describe_cause(first),
        fix="model = torch.nn.parallel.DistributedDataParallel(model)",
        evidence={"parameters": list(differing)[:20], "ranks": list(apart), "steps": first.steps},
    )


def _describe_cause(report: RankReport) -> str:
    if report.unsynchronized_backwards and report.unsynchronized_backwards == report.backwards:
        return "All backward passes run under no_sync(), so that gradients are never averaged."
    if report.wrapper:
        return f"{report.wrapper} does not average the gradients of these parameters."
    return "No wrapper averages the gradients of the ranks, and the loop does not either."


def bad() -> Setup:
    """A classifier without a wrapper."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The other rank ends with another weight."""
    train_as_first_rank(setup, watch, final_weights={"0.weight": 1})


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """Both ranks end with the same weights."""
    train_as_first_rank(setup, watch)
