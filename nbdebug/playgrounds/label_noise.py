"""Label noise: right labels are learned first, wrong ones memorized later; the loss tells them apart in between."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.playgrounds.playground import Control, Playground, PlayPicture, Tone
from nbdebug.playgrounds.small_networks import perceptron, spirals, train
from nbdebug.views.line_chart import LineChart

_STEPS, _EVERY, _RATE = 800, 20, 0.01
_MEMORIZED, _NOTICEABLE = 0.5, 0.03  # accuracy on wrong labels; loss of accuracy on the validation samples

_Series = dict[str, list[tuple[float, float]]]


def _compute(share: float, kind: str, width: int, samples: int, decay: float) -> PlayPicture:
    """Return loss and accuracy on right and wrong labels by step, and how well the loss finds the wrong ones."""
    data = spirals(samples)
    right = data.targets.clone()
    picked = torch.rand(samples) < share
    data.targets[picked] = 1 - right[picked] if kind == "both classes" else 1
    is_wrong = data.targets != right
    model = perceptron(2, width, 2)
    loss_lines: _Series = {"right labels": [], **({"wrong labels": []} if is_wrong.any() else {})}
    accuracy: _Series = {"validation, right labels": [], **({"wrong labels, learned": []} if is_wrong.any() else {})}
    precision: _Series = {"loss": [], "chance": []}

    def measure(step: int) -> None:
        if step % _EVERY:
            return
        losses, hits = _losses(model, data.inputs, data.targets)
        accuracy["validation, right labels"].append((step, _accuracy(model, data.val_inputs, data.val_targets)))
        loss_lines["right labels"].append((step, float(losses[~is_wrong].mean())))
        if is_wrong.any():
            loss_lines["wrong labels"].append((step, float(losses[is_wrong].mean())))
            accuracy["wrong labels, learned"].append((step, float(hits[is_wrong].mean())))
            suspects = losses.topk(int(is_wrong.sum())).indices
            precision["loss"].append((step, float(is_wrong[suspects].float().mean())))
            precision["chance"].append((step, float(is_wrong.float().mean())))

    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=decay)
    train(model, data, optimizer, steps=_STEPS + 1, batch=32, before_step=measure)
    charts = [LineChart("Training loss", series=loss_lines, log=True), LineChart("Accuracy", series=accuracy)]
    if precision["loss"]:
        charts.append(LineChart("Wrong labels among the samples of highest loss", series=precision))
    tone, headline, explanation = _judge(accuracy, precision["loss"])
    return PlayPicture(tuple(charts), tone, headline, explanation)


def _losses(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of each sample, and 1 where the prediction agrees with its label, else 0."""
    with torch.no_grad():
        outputs = model(inputs)
    return F.cross_entropy(outputs, targets, reduction="none"), (outputs.argmax(1) == targets).float()


def _accuracy(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    return float(_losses(model, inputs, targets)[1].mean())


def _judge(accuracy: _Series, found: list[tuple[float, float]]) -> tuple[Tone, str, str]:
    validation = accuracy["validation, right labels"]
    best_step, best = max(validation, key=lambda point: point[1])
    last = validation[-1][1]
    text = f"The validation accuracy ends at {last:.1%}, after {best:.1%} at step {best_step:.0f}"
    if not found:
        return "good", f"{text}. No label is wrong.", "Compare with some wrong labels: move the first slider."
    step, precision = max(found, key=lambda point: point[1])
    learned = accuracy["wrong labels, learned"][-1][1]
    text += f"; {learned:.0%} of the wrong labels are memorized."
    ranking = (
        f"At step {step:.0f}, {precision:.0%} of the samples of highest loss have a wrong label; "
        f"{found[-1][1]:.0%} at the end."
    )
    if learned > _MEMORIZED:
        reason = (
            "Right labels agree with each other and are learned first; later, the network bends around single samples."
        )
        return (
            "error",
            text,
            f"{reason} {ranking} Stop earlier, use weight decay or a smaller network, or correct them.",
        )
    if best - last > _NOTICEABLE:
        reason = "Around the wrong labels that are memorized, unseen samples are predicted wrong too."
        return "warning", text, f"{reason} {ranking} Stop earlier, or correct the samples of highest loss."
    return (
        "good",
        text,
        f"The right labels outvote the wrong ones: this network cannot bend around each of them. {ranking}",
    )


PLAYGROUND = Playground(
    name="label-noise",
    title="Label noise",
    question="What do wrong labels do, and when does the loss find them?",
    controls=(
        Control("share", "Labels drawn wrong", (0.0, 0.05, 0.1, 0.2, 0.3, 0.4), 0.2),
        Control("kind", "Wrong in", ("both classes", "one class"), "both classes"),
        Control("width", "Width", (4, 8, 16, 32, 64, 128, 256), 128),
        Control("samples", "Samples", (64, 128, 256, 512, 1024), 128),
        Control("decay", "Weight decay", (0.0, 0.1, 0.3, 1.0, 3.0), 0.0),
    ),
    compute=_compute,
)
