"""Gradient clipping: what a threshold saves when outliers come, and what it costs when none do."""

from __future__ import annotations

import math
import statistics
from functools import cache

import torch
from torch import nn

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import MAX_LOSS, Losses, Samples, perceptron, spirals, train
from nbdebug.preserve import seed_all
from nbdebug.views.line_chart import LineChart

_THRESHOLDS: tuple[float | str, ...] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, "none")
_STEPS, _BATCH, _OUTLIER_FACTOR = 200, 32, 100.0
_OFTEN, _BETTER = 0.5, 0.8  # share of steps that are clipped; ratio of losses that counts as a gain
_LAST = 5  # validation losses that the end of a run averages

_OUTLIERS = "A few samples far outside give gradients of that size, and each of them undoes many good steps."
_Runs = dict[float | str, tuple[Losses, list[tuple[float, float]]]]


def _compute(threshold: float | str, outliers: int, rate: float) -> PlayPicture:
    """Return the loss with and without clipping, the norms of the gradient, and the end by threshold."""
    runs = _sweep(outliers, rate)
    losses, norms = runs[threshold]
    ends = {each: statistics.fmean(loss for _, loss in run.validation[-_LAST:]) for each, (run, _) in runs.items()}
    by_threshold = [(each, end) for each, end in ends.items() if not isinstance(each, str)]
    limits = [] if isinstance(threshold, str) else [(threshold, "threshold")]
    charts = (
        LineChart(
            "Validation loss",
            series={"with your threshold": losses.validation, "without clipping": runs["none"][0].validation},
        ),
        LineChart("Norm of the gradient before clipping", series={"norm": norms}, log=True, limits=limits),
        LineChart(
            "Validation loss at the end, by threshold",
            "threshold",
            series={"clipped": by_threshold},
            log=True,
            log_x=True,
            marks=[(at, "your threshold") for at, _ in limits],
            limits=[(ends["none"], "without clipping")],
        ),
    )
    tone, headline, explanation = _judge(threshold, [norm for _, norm in norms], ends)
    return PlayPicture(charts, tone, headline, explanation)


@cache
def _sweep(outliers: int, rate: float) -> _Runs:
    """Return the losses and the norm of the gradient by step for each threshold, from the same weights and batches."""
    seed_all(0)
    data, start = spirals(), perceptron(2, 32, 2)
    rows = torch.randperm(len(data.targets))[:outliers]
    data.inputs[rows] *= _OUTLIER_FACTOR
    data.targets[rows] = 1 - data.targets[rows]
    return {threshold: _run(start, data, threshold, rate) for threshold in _THRESHOLDS}


def _run(
    start: nn.Module, data: Samples, threshold: float | str, rate: float
) -> tuple[Losses, list[tuple[float, float]]]:
    model, norms = perceptron(2, 32, 2), list[tuple[float, float]]()
    model.load_state_dict(start.state_dict())
    limit = math.inf if isinstance(threshold, str) else threshold

    def clip() -> None:
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), limit))
        norms.append((len(norms), min(norm, MAX_LOSS) if math.isfinite(norm) else MAX_LOSS))

    seed_all(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    return train(model, data, optimizer, steps=_STEPS, batch=_BATCH, before_update=clip), norms


def _judge(threshold: float | str, norms: list[float], ends: dict[float | str, float]) -> tuple[Tone, str, str]:
    free = ends["none"]
    ratio = f"The largest gradient is {max(norms) / statistics.median(norms):.3g} times the median one."
    if isinstance(threshold, str):
        best = min(ends, key=ends.__getitem__)
        text = f"Nothing is clipped. The validation loss ends at {free:.3g}"
        if ends[best] < _BETTER * free:
            return "warning", f"{text}; with a threshold of {best}, at {ends[best]:.3g}.", f"{ratio} {_OUTLIERS}"
        return "good", f"{text}, and no threshold ends much lower.", ratio
    clipped = sum(norm > threshold for norm in norms)
    text = (
        f"The validation loss ends at {ends[threshold]:.3g}, and at {free:.3g} without clipping; "
        f"{clipped} of {len(norms)} steps are clipped."
    )
    if clipped > _OFTEN * len(norms):
        reason = (
            "Clipping most steps sets the length of each step to rate × threshold, whatever the gradient: it acts as "
            "another learning rate. Set the threshold above the usual norm."
        )
        return "warning", text, f"{reason} {ratio}"
    if ends[threshold] < _BETTER * free:
        return "good", text, f"The large gradients keep their direction, and lose their power over the weights. {ratio}"
    return "note", text, f"The threshold changes little here. {ratio}"


PLAYGROUND = Playground(
    name="clipping",
    title="Gradient clipping",
    question="Which threshold stops the outliers, and only them?",
    controls=(
        Control("threshold", "Threshold of the norm", _THRESHOLDS, "none"),
        Control("outliers", "Outliers among 256 samples", (0, 1, 2, 4, 8, 16), 8),
        Control("rate", "Learning rate", (0.01, 0.03, 0.1, 0.3), 0.1),
    ),
    compute=_compute,
)
