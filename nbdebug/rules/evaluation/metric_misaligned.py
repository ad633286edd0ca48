"""E707: what is optimized and what is reported rank the epochs differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.curves.ranks import FEWEST, Apart, apart, direction, validation_loss
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.record import Record, called
from nbdebug.registry import rule
from nbdebug.rules.judging import clusters
from nbdebug.rules.loops import layers, run, train
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.watching import Watch


@rule("E707", "warning")
def metric_misaligned(record: Record) -> Iterator[Finding]:
    """What is optimized and what is reported rank the epochs differently.

    ## What it does
    Follows the validation loss and the metrics that you log, ``run.log(accuracy=…)``, and compares which epoch is best.
    The score of fixed validation samples, which nobody may report, gives a note.

    ## Why it matters
    Weights that are kept by the loss are not those that the report is about, and lowering the loss further makes the
    metric worse. Often the loss has weights, a margin or a scale that the metric knows nothing of, or a threshold stays
    at one half where the loss has moved it.

    ## How it is measured
    Over six epochs or more. The two best epochs lie three or more apart; between them the ranks of loss and metric run
    against each other (Spearman, -0.5 or less); and from one to the other each gets worse by more than four times its
    noise, which is that of second differences, and by a fifth of all that it moved. Values are means of three
    epochs, so that one lucky epoch is not the best. Whether more is better is told by the name of the metric.

    ## How to fix
    Keep the weights by the metric that you report, or change the loss or the threshold so that they agree.

    ## When to ignore
    When the metric is only logged along.

    ## References
    Guo et al. 2017, arXiv:1706.04599, section 3: accuracy improves while the loss overfits. Spearman 1904,
    doi:10.2307/1412159.
    """
    if validation_loss(record) is None:
        raise NotChecked(f"the validation loss was not measured {FEWEST} times")
    logged = [name for name in record.evaluations.columns if direction(name) or name == "sample_val_score"]
    if max((len(record.series(name)[1]) for name in logged), default=0) < FEWEST:
        raise NotChecked(f"no metric was logged {FEWEST} times; run.log(accuracy=…) does it")
    for one in apart(record):
        yield finding(one)


def finding(one: Apart) -> Finding:
    """One metric that disagrees."""
    later = one.step > one.loss_step
    name = one.metric if one.logged else f"the {called(one.metric)}"
    return Finding(
        message=f"{name} is best at step {one.step} ({one.best:.4g}), the validation loss at step {one.loss_step}, "
        f"where {name} is {one.at_loss:.4g}; in between they run against each other (rank correlation {one.rank:.2f}).",
        where=Where(step=one.loss_step),
        cause="The loss grows by answers that are wrong and too sure, while more answers are right."
        if later
        else "The loss is lowered at the price of the metric: it weighs classes or errors otherwise, or the threshold "
        "does not fit it.",
        fix=f"if {one.metric if one.logged else 'score'} is better than the best so far:   # keep these weights\n"
        "    best = copy.deepcopy(model.state_dict())",
        evidence={
            "metric": name,
            "loss": called(one.loss),
            "best step by metric": one.step,
            "best step by loss": one.loss_step,
            "loss there": one.losses,
            "rank correlation": one.rank,
            "epochs": one.epochs,
        },
        severity=None if one.logged else "note",
    )


def logging(setup: Setup, watch: Watch, epochs: int) -> None:
    """A loop that validates after each epoch."""
    for _ in range(epochs):
        train(setup, 1)
        right = rows = 0
        with torch.no_grad():
            for x, y in setup.val_loader:
                output = setup.model(x)
                assert setup.loss_fn is not None
                setup.loss_fn(output, y)
                right, rows = right + int((output.argmax(1) == y).sum()), rows + len(y)
        watch.log(accuracy=right / rows)


def bad() -> Setup:
    """A rare class that the loss weighs thirty times, and the accuracy as often as it comes."""
    data = [clusters(rows, [(0.0, 0.0), (0.5, 0.0)], [0.85, 0.15], seed) for seed, rows in ((0, 384), (1, 512))]
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 30.0]))
    model = layers(2, 16, 2)
    with torch.no_grad():
        list(model.parameters())[-1].copy_(torch.tensor([3.0, 0.0]))
    return run(model, data[0], data[1], loss, lr=2e-3)


def bad_loop(setup: Setup, watch: Watch) -> None:
    """Twelve epochs."""
    logging(setup, watch, 12)


def good() -> Setup:
    """Loss and accuracy of a task that is learned."""
    data = [clusters(rows, [(0.0, 0.0), (3.0, 0.0)], [0.5, 0.5], seed) for seed, rows in ((0, 384), (1, 512))]
    return run(layers(2, 16, 2), data[0], data[1], torch.nn.CrossEntropyLoss(), lr=5e-3)


def good_loop(setup: Setup, watch: Watch) -> None:
    """Twelve epochs."""
    logging(setup, watch, 12)
