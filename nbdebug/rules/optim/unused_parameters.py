"""O519: the wrapper waits for gradients of parameters that the loss does not use."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports
from nbdebug.finding import Finding, Location
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch

_MESSAGE_START = "Expected to have finished reduction"


@rule("O519", "error")
def unused_parameters(ranks: RankReports) -> Iterator[Finding]:
    """DistributedDataParallel waits for the gradients of parameters that the loss does not use.

    ## What it does
    Lists the parameters without a gradient after the first backward passes, when the wrapper has refused a pass.

    ## Why it matters
    The wrapper averages gradients in groups, and a group is complete when all its gradients are there. It raises at the
    next pass, with indices of parameters in place of names.

    ## How it is measured
    Exactly: by the exception that ended the loop, and the gradients of the first two steps.

    ## How to fix
    Use the output of these layers in the loss, remove them, or freeze them before the model is wrapped. If other layers
    are unused in other steps: ``DistributedDataParallel(model, find_unused_parameters=True)``, which searches the graph
    at each step.

    ## When to ignore
    Never: the run has ended.

    ## References
    PyTorch notes: Distributed Data Parallel, internal design.
    """
    failed = [report for report in ranks.reports if _MESSAGE_START in report.error]
    if not failed:
        return
    first = failed[0]
    names = first.without_gradient
    listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    yield Finding(
        message=f"DistributedDataParallel refused step {first.steps + 1}."
        + (f" {len(names)} of {len(first.initial_weights)} parameters had no gradient: {listed}." if names else ""),
        where=Location(parameter=names[0] if names else None),
        cause="The loss does not use the output of these layers, and the wrapper waits for their gradients.",
        fix="# remove the layers, use their output in the loss, or pass find_unused_parameters=True",
        evidence={"step": first.steps + 1, "parameters": list(names)[:20], "ranks": [report.rank for report in failed]},
        explains=("X1099", "M301", "M302"),
    )


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """The wrapper of the other rank has refused a pass."""
    train_as_first_rank(
        setup,
        watch,
        error="RuntimeError: Expected to have finished reduction in the prior iteration",
        without_gradient=("0.bias",),
    )


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """No pass is refused."""
    train_as_first_rank(setup, watch)
