"""L208: the loss before training is far from what an untrained head gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.expected_loss import Expected
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.losses import scores


@rule("L208", "warning")
def initial_loss_off(
    setup: Setup,
    output: Any,
    finite_loss: Tensor,
    expected_loss: Expected,
    are_cosines: bool,
    *,
    excess: float = 1.0,
    ratio: float = 10.0,
    trained: float = 0.7,
    larger: float = 1000.0,
    wide: float = 3.0,
) -> Iterator[Finding]:
    """The loss before training is far from that of a head that knows nothing.

    ## What it does
    Compares the loss of the first batch with your own loss of two constant answers: the same score for every class
    (ln C for cross-entropy, ln 2 for two classes) and the class frequencies (the entropy of the labels); for a
    regression, the mean of the targets (their variance, for squared error). Weights, smoothing, reduction and ignored
    labels are in it, since it is your loss that is asked.

    ## Why it matters
    A fresh head should answer that it does not know. A loss far above says that it is confident and wrong: inputs on a
    large scale, weights drawn too large, targets far from zero. The first epochs are spent on unlearning that.

    ## How it is measured
    One forward pass in the modes the model is in. It speaks from ``excess`` = 1 nat above the uniform answer on, which
    is what logits of variance 2 cost (their expected loss is near ln C + variance / 2), or half of ln C where that is
    more; for a regression from ``ratio`` = 10 times the squared error of the mean on (its root for absolute errors), or
    where the targets spread ``larger`` = 1000 times wider than the outputs are large: weights have to grow as much. It
    names the last layer whose weights are more than ``wide`` = 3 over the root of the fan-in, if there is one.
    A model with frozen weights was trained before, and may be confident in what it knew: a note. A loss under
    ``trained`` times that of the class frequencies is a trained model's, and is not judged; nor are scores that are
    cosines times a scale, which is large on purpose. Errors count as squared where doubling such as a first answer near
    zero makes more than doubles the loss, as of Huber's.

    ## How to fix
    Standardize inputs (and targets of a regression), keep torch's own initialization in the last layer.

    ## When to ignore
    When the last layer is meant to start far from zero.

    ## References
    A. Karpathy, A Recipe for Training Neural Networks (2019): verify loss at init; Stanford CS231n, notes 3.
    """
    found = float(finite_loss.detach())
    if expected_loss.prior > 0 and found < trained * expected_loss.prior:
        raise NotChecked(
            f"the model is trained: its loss {found:.3g} is under that of a constant, {expected_loss.prior:.3g}"
        )
    if are_cosines:
        raise NotChecked("the scores are cosines times a scale that was set by hand")
    if expected_loss.classes:
        nats = math.log(expected_loss.classes)
        far = (found / expected_loss.uniform - 1) * nats > max(excess, nats / 2)
    else:
        far = found > (ratio if expected_loss.squared else math.sqrt(ratio)) * expected_loss.prior
        far |= expected_loss.std > larger * float(scores(output).detach().float().square().mean().sqrt())
    if far:
        before = any(not p.requires_grad for p in setup.eager.parameters())
        where = Where(module=too_wide(setup.eager, wide))
        yield replace(finding(found, expected_loss), where=where, severity="note" if before else None)


def too_wide(model: nn.Module, wide: float) -> str | None:
    """The last layer whose weights are far larger than any usual initialization makes them."""
    layers = [
        (path, one.weight) for path, one in model.named_modules() if isinstance(getattr(one, "weight", None), Tensor)
    ]
    matrices = [(path, weight.detach()) for path, weight in layers if weight.dim() > 1 and weight.is_floating_point()]
    sizes = {path: float(w.float().square().mean().sqrt()) * math.sqrt(w[0].numel()) for path, w in matrices}
    embeddings = {path for path, one in model.named_modules() if isinstance(one, (nn.Embedding, nn.EmbeddingBag))}
    return next((path for path in reversed(sizes) if sizes[path] > wide and path not in embeddings), None)


def finding(found: float, expected: Expected) -> Finding:
    """The loss beside what was expected, and what to do."""
    times = f"{expected.uniform:.4g}, {found / expected.uniform:.1f} times less"
    numbers = {"loss": found, "uniform": expected.uniform, "label prior": expected.prior, "classes": expected.classes}
    if expected.classes:
        return Finding(
            message=f"The loss before training is {found:.4g}; equal scores for all classes give {times}.",
            cause="The untrained output is confident and wrong.",
            fix="x = (x - x.mean(0)) / x.std(0)   # and keep the default initialization of the last layer",
            evidence=numbers,
        )
    return Finding(
        message=f"The loss before training is {found:.4g}; the mean of the targets gives {times}.",
        cause=f"The targets have mean {expected.mean:.4g} and standard deviation {expected.std:.4g}; "
        "the untrained output is elsewhere.",
        fix="y_mean, y_std = y.mean(), y.std()\ny = (y - y_mean) / y_std   # and undo it on the predictions",
        evidence={**numbers, "target mean": expected.mean, "target std": expected.std},
    )


def bad() -> Setup:
    """Inputs a thousand times too large."""
    x, y = points()
    return program(network(3), x * 1000, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """Inputs of unit scale."""
    return classifier()
