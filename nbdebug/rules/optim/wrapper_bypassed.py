"""O521: passes or parameters that DistributedDataParallel does not synchronize."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.distributed.rank_report import RankReports
from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train_as_first_rank
from nbdebug.rules.rank_places import check_reports, get_event_place
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch


@rule("O521", "error")
def wrapper_bypassed(ranks: RankReports) -> Iterator[Finding]:
    """Passes bypass DistributedDataParallel, or parameters were added after it was made.

    ## What it does
    Counts the training passes through the wrapped module that were not calls of the wrapper, and lists the parameters
    that the module did not have when it was wrapped.

    ## Why it matters
    The wrapper averages gradients only after its own call, and only those of the parameters for which it registered
    hooks. All others stay different on each rank, without an error.

    ## How it is measured
    Exactly: by calls, and by the identity of parameters. It is reported if more than half of the passes bypass the
    wrapper.

    ## How to fix
    Call ``model(inputs)``, not ``model.module(inputs)``. Replace or add layers before the model is wrapped.

    ## When to ignore
    When the loop averages these gradients itself.

    ## References
    PyTorch documentation: torch.nn.parallel.DistributedDataParallel, on parameters that change after construction.
    """
    reports = check_reports(ranks)
    for report in reports:
        if names := report.unsynchronized_parameters:
            message = (
                f"DistributedDataParallel does not know {len(names)} parameters of the model: {', '.join(names[:4])}."
            )
            cause = "They were created after the model was wrapped, so that it registered no hook for them."
            fix = "# replace the layers before DistributedDataParallel(model)"
        elif 2 * report.bypassing_passes > report.passes > 0:
            message = f"{report.bypassing_passes} of {report.passes} training passes bypass DistributedDataParallel."
            cause = "The loop calls the module inside the wrapper, after which gradients are not averaged."
            fix = "output = model(inputs)   # the wrapper, not model.module"
        else:
            continue
        yield Finding(
            message=message,
            where=get_event_place(report, "backward"),
            cause=cause,
            fix=fix,
            evidence={"rank": report.rank, "parameters": list(names)[:20], "passes": report.bypassing_passes},
            explains=("O515",),
        )
        return


def bad() -> Setup:
    """A classifier on two ranks."""
    return classifier()


def bad_loop(setup: Setup, watch: Watch) -> None:
    """All passes of the other rank bypass its wrapper."""
    train_as_first_rank(setup, watch, passes=8, bypassing_passes=8)


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup, watch: Watch) -> None:
    """No wrapper is bypassed."""
    train_as_first_rank(setup, watch)
