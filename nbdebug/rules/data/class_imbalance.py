"""D106: some classes are rare, and nothing accounts for it."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import torch
from torch import Tensor, nn

from nbdebug.evidence.class_counts import ClassCounts
from nbdebug.evidence.class_weights import Weights
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network, program
from nbdebug.setup import Setup


@rule("D106", "warning")
def class_imbalance(
    class_counts: ClassCounts, class_weights: Weights, *, share: float = 0.1, rarer: float = 0.5
) -> Iterator[Finding]:
    """The rarest class comes up less than a tenth as often as the commonest, and nothing accounts for it.

    ## What it does
    Counts the classes of the training samples as the loader draws them, so that a sampler is accounted for, and asks
    your loss whether it makes more of the rare ones.

    ## Why it matters
    A model that never names the rare class is right nearly always. Accuracy looks excellent, and the class that the
    model was made for is missed.

    ## How it is measured
    The rarest class must stay under ``share`` = a tenth of the commonest by three standard errors of its count. The
    loss accounts for it when the gradients that it sends back for two classes, from an answer that knows nothing,
    differ by half or more (class weights, ``pos_weight``), or when the gradient of an answer that is nearly right is
    under half of what cross-entropy leaves (focal loss). Weights that make more of the commonest class than of the
    rarest account for nothing: there the counts are multiplied by those gradients, once the rarest class comes up less
    than ``rarer`` = half as often.

    ## How to fix
    Weigh the classes in the loss, or draw them evenly; and judge by a score for each class.

    ## When to ignore
    When the frequencies are those that predictions are meant for, and probabilities are used rather than a threshold.

    ## References
    M. Buda, A. Maki, M. Mazurowski, A systematic study of the class imbalance problem (2018), arXiv:1710.05381.
    """
    counts = class_counts.drawn
    if len(counts) < 2:
        return
    (common, most), (rare, least) = counts.most_common(1)[0], min(counts.items(), key=lambda pair: pair[1])
    at_most = least + 3 * sqrt(least)
    upside_down = class_weights.favors(common, rare) and at_most < rarer * most
    times = class_weights.pull[common] / class_weights.pull[rare] if upside_down else 1.0
    if at_most >= share * most * times or not (class_weights.equal or upside_down):
        return
    if upside_down:
        yield inverted(class_counts, rare, common, times)
        return
    yield Finding(
        message=f"Class {rare} comes up {least:,} times in {counts.total():,} training samples, class {common} "
        f"{most:,} times ({most / least:.0f} times as often; expected under {1 / share:.0f}), and neither sampler "
        "nor loss makes up for it.",
        cause="Every sample counts the same, so that the common class decides what is learned.",
        fix=fix(class_counts),
        evidence={"counts": dict(sorted(counts.items())[:50]), "pull of each class": class_weights.pull},
        explains=("E702", "E703", "E706", "E709", "T607", "T601"),
    )


def inverted(found: ClassCounts, rare: int, common: int, times: float) -> Finding:
    """Weights that make the rare class rarer still."""
    counts = found.drawn
    return Finding(
        message=f"Class {rare} comes up {counts[rare]:,} times in {counts.total():,} training samples, class {common} "
        f"{counts[common]:,} times, and the loss makes {times:.3g} times as much of a sample of class {common}; "
        f"expected more of one of class {rare}.",
        cause="The weights of the classes are upside down: as their frequencies are, not as the inverse.",
        fix=fix(found),
        evidence={"counts": dict(sorted(counts.items())[:50]), "common over rare": times},
        explains=("E702", "E703", "E706", "E709", "L208", "T607", "T601"),
    )


def fix(found: ClassCounts) -> str:
    """The loss with weights."""
    if found.classes == [0, 1]:
        ratio = found.drawn[0] / max(found.drawn[1], 1)
        binary = f"loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([{ratio:.1f}]))   # for one logit\n"
    else:
        binary = ""
    return (
        f"{binary}weight = 1 / torch.bincount(labels).float()\n"
        "loss_fn = nn.CrossEntropyLoss(weight=weight / weight.mean())"
    )


def rare_class(loss_fn: nn.Module) -> Setup:
    """Four hundred points of which sixteen are of the second class."""
    x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    y: Tensor = (torch.arange(400) % 25 == 0).long()
    return program(network(2), x + 2 * y[:, None], y, loss_fn)


def bad() -> Setup:
    """Plain cross-entropy on one positive in 25."""
    return rare_class(nn.CrossEntropyLoss())


def good() -> Setup:
    """The same with weights."""
    return rare_class(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 24.0])))
