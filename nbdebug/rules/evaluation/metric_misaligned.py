"""E707: the validation loss and the reported metric rank the epochs differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.restored_weights import RestoredWeights
from nbdebug.loss_curves.metric_agreement import (
    MIN_EPOCHS,
    RankDisagreement,
    find_disagreements,
    metric_direction,
    validation_loss,
)
from nbdebug.records import Record, signal_label
from nbdebug.rule_engine.metric_edits import select_lowest
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import gaussian_clusters, mlp, train, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

if TYPE_CHECKING:
    from nbdebug.watching.watch import Watch

_MIN_EVALUATIONS, _MIN_LOSS_RATIO = 4, 1.5


@rule("E707", "warning")
def metric_misaligned(record: Record, loop: LoopSummary | NotChecked) -> Iterator[Finding]:
    """The validation loss and the reported metric rank the epochs differently.

    ## What it does
    Tracks the validation loss and the metrics that you log, ``run.log(accuracy=…)``, and compares which epoch is best.
    The score of fixed validation samples, which may not be reported anywhere, is a note. Also checks which weights a
    loop restores at its end: those with the highest validation loss are the worst that it evaluated.

    ## Why it matters
    Weights that are selected by the loss are not the best by the reported metric, and decreasing the loss further makes
    the metric worse. Often the loss has weights, a margin or a scale that the metric ignores, or the threshold stays at
    one half although the loss has moved the optimum.

    ## How it is measured
    Over at least six epochs. The two best epochs are at least three apart. Between them, loss and metric are negatively
    correlated (Spearman, -0.5 or less). From one to the other, each gets worse by more than four times its noise,
    estimated from second differences, and by a fifth of its range. Values are means over three epochs, so that a single
    lucky epoch is not the best. Restored weights are recognized by their values among those of all evaluations, at
    least four. They are the worst if their validation loss is the highest, 1.5 times the median or more, and the score
    of fixed validation samples does not speak for them. The name of the metric determines whether larger is better.

    ## How to fix
    Select the weights by the metric that you report, or change the loss or the threshold so that they agree.

    ## When to ignore
    When the metric is only logged for information.

    ## References
    Guo et al. 2017, arXiv:1706.04599, section 3: accuracy improves while the loss overfits. Spearman 1904,
    doi:10.2307/1412159.
    """
    if (
        isinstance(loop, LoopSummary)
        and loop.restored_weights
        and (worst := _find_worst(record, loop.restored_weights))
    ):
        yield _restored_finding(loop.restored_weights, *worst)
        return
    if validation_loss(record) is None:
        raise NotChecked(f"the validation loss was measured fewer than {MIN_EPOCHS} times")
    logged = [name for name in record.evaluations.columns if metric_direction(name) or name == "sample_val_score"]
    if max((len(record.series(name)[1]) for name in logged), default=0) < MIN_EPOCHS:
        raise NotChecked(f"no metric was logged at least {MIN_EPOCHS} times; log one with run.log(accuracy=…)")
    for disagreement in find_disagreements(record):
        yield _finding(disagreement)


def _find_worst(record: Record, restored: RestoredWeights) -> tuple[float, float, int, int] | None:
    """Return the loss of restored weights, the lowest one, its step and the number of evaluations.

    None if the loss of the restored weights is not the highest of all by far, or if their score is not poor.
    """
    steps, losses = record.series("eval_loss")
    is_own = steps == restored.step
    if len(losses) < _MIN_EVALUATIONS or restored.step == 0 or not is_own.any() or not np.isfinite(losses).all():
        return None
    loss, median = float(losses[is_own][0]), float(np.median(losses))
    if loss < losses.max() or loss <= max(median, _MIN_LOSS_RATIO * median):
        return None
    score_steps, scores = record.series("sample_val_score")
    if len(scores) and scores[np.abs(score_steps - restored.step).argmin()] > np.median(scores):
        return None
    return loss, float(losses.min()), int(steps[losses.argmin()]), len(losses)


def _restored_finding(restored: RestoredWeights, loss: float, lowest: float, best_step: int, count: int) -> Finding:
    return Finding(
        message=f"The weights that the loop restored at its end are those of step {restored.step}, whose validation "
        f"loss, {loss:.4g}, is the highest of {count} evaluations; the lowest is {lowest:.4g}, at step {best_step}.",
        where=replace(get_location(restored.line), step=restored.step),
        cause="The comparison that selects the weights has the wrong direction: it fits a score, not a loss.",
        fix="if val_loss < best:   # from best = float('inf')\n    best, state = val_loss, "
        "copy.deepcopy(model.state_dict())",
        edits=select_lowest(restored.line),
        evidence={"step": restored.step, "loss": loss, "lowest": lowest, "best step": best_step, "evaluations": count},
        explains=("R904", "E702", "E703", "E704", "E706", "E709", "T606", "T608", "T610", "T614"),
    )


def _finding(disagreement: RankDisagreement) -> Finding:
    metric_peaks_later = disagreement.step > disagreement.loss_step
    name = disagreement.metric if disagreement.logged else f"the {signal_label(disagreement.metric)}"
    return Finding(
        message=f"Averaged over neighboring epochs, {name} is best at step {disagreement.step} "
        f"({disagreement.best:.4g}), but the validation loss is best at step {disagreement.loss_step}, where {name} is "
        f"{disagreement.at_loss:.4g}. Between these steps, the rank correlation of the two is {disagreement.rank:.2f}.",
        where=Location(step=disagreement.loss_step),
        cause="The loss increases because of predictions that are wrong and overconfident, while more are correct."
        if metric_peaks_later
        else "The loss decreases at the expense of the metric: it weights classes or errors differently, or the "
        "threshold does not match it.",
        fix=f"Keep copy.deepcopy(model.state_dict()) whenever {name} is better than before, and restore the best one.",
        evidence={
            "metric": name,
            "loss": signal_label(disagreement.loss),
            "best step by metric": disagreement.step,
            "best step by loss": disagreement.loss_step,
            "metric at both": (disagreement.best, disagreement.at_loss),
            "loss at best metric": disagreement.losses,
            "rank correlation": disagreement.rank,
            "epochs": disagreement.epochs,
        },
        severity=None if disagreement.logged else "note",
    )


def _train_and_log(setup: Setup, watch: Watch, epochs: int) -> None:
    """Train for ``epochs`` epochs and log the validation accuracy after each."""
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
    """A rare class with a weight of thirty in the loss, while the accuracy weights it by its frequency."""
    data = [
        gaussian_clusters(rows, [(0.0, 0.0), (0.5, 0.0)], [0.85, 0.15], seed) for seed, rows in ((0, 384), (1, 512))
    ]
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 30.0]))
    model = mlp(2, 16, 2)
    with torch.no_grad():
        list(model.parameters())[-1].copy_(torch.tensor([3.0, 0.0]))
    return training_setup(model, data[0], data[1], loss, lr=2e-3)


def bad_loop(setup: Setup, watch: Watch) -> None:
    """Twelve epochs."""
    _train_and_log(setup, watch, 12)


def good() -> Setup:
    """Loss and accuracy of a task that the model learns."""
    data = [gaussian_clusters(rows, [(0.0, 0.0), (3.0, 0.0)], [0.5, 0.5], seed) for seed, rows in ((0, 384), (1, 512))]
    return training_setup(mlp(2, 16, 2), data[0], data[1], torch.nn.CrossEntropyLoss(), lr=5e-3)


def good_loop(setup: Setup, watch: Watch) -> None:
    """Twelve epochs."""
    _train_and_log(setup, watch, 12)
