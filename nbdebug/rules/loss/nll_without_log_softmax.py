"""L204: the NLL loss is fed something that is no log-probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor, nn

from nbdebug.evidence.calls import Call
from nbdebug.evidence.first_pass import Pass
from nbdebug.finding import Finding, Where
from nbdebug.graph import Graph, Node, Pattern
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup
from nbdebug.setup.losses import scores

PROBABILITIES = Pattern(frozenset({"Softmax", "Sigmoid"}), frozenset({"NllLoss", "NllLoss2D"}))
CONSEQUENCES = ("L208", "L213", "G412", "T602", "T604", "T606", "T608", "T610", "E703", "E709", "O501")


@rule("L204", "error")
def nll_without_log_softmax(
    first_pass: Pass, graph: Graph, divergences: list[Call], *, tolerance: float = 0.02
) -> Iterator[Finding]:
    """The NLL loss is fed something that is no log-probability.

    ## What it does
    Takes what goes into the negative log-likelihood, or first into kl_div, and looks whether its exponentials sum to 1
    over the classes.

    ## Why it matters
    The loss only picks the value of the right class and turns its sign. Of logits it falls for ever as they grow; of
    probabilities it lies between -1 and 0 and hardly tells a bad answer from a good one.

    ## How it is measured
    On the first batch; the mean of the sums may differ from 1 by ``tolerance``, which half precision needs.

    ## How to fix
    Return log_softmax, or hand the logits to cross-entropy, which applies it.

    ## When to ignore
    When scores that are not normalized are meant.

    ## References
    Documentation of torch.nn.NLLLoss: the input is expected to contain log-probabilities.
    """
    fed_softmax = {consumer: producer for producer, consumer in PROBABILITIES.matches(graph)}
    output = scores(first_pass.output)
    last = first_pass.trace.graph(output).root if isinstance(output, Tensor) else None
    for node in graph.named("NllLoss", "NllLoss2D"):
        values = node.saved("self")
        if not isinstance(values, Tensor) or not values.numel():
            continue
        total = float(values.detach().float().exp().sum(1 if values.dim() > 1 else 0).mean())
        if not abs(total - 1) > tolerance:  # as for NaN, which says nothing of what is fed
            continue
        what = "probabilities" if node in fed_softmax else "logits"
        yield Finding(
            message=f"NLL is fed {what}: their exponentials sum to {total:.3g} over the classes, not to 1.",
            where=place(node, fed_softmax.get(node) or last),
            cause="The loss takes log-probabilities, as log_softmax gives them.",
            fix="loss_fn = nn.CrossEntropyLoss()  # on logits"
            if what == "logits"
            else "log_p = F.log_softmax(logits, dim=1)  # in place of softmax",
            evidence={"sum of exponentials": total, "fed": what},
            explains=CONSEQUENCES,
        )
    for one in divergences:
        shares, axes = one.given[0].float().exp(), range(one.given[0].dim())
        sums = [shares.sum(axis) for axis in axes] + [shares.flatten(axis).sum(axis) for axis in axes]
        if sums and not any(float((total - 1).abs().mean()) <= tolerance for total in sums):
            yield divergence(one, float(sums[-1].mean()))


def divergence(one: Call, total: float) -> Finding:
    """A divergence from what is no log-probability."""
    return Finding(
        message=f"kl_div is fed what is no log-probability: its exponentials sum to {total:.3g}, not to 1.",
        where=one.where,
        cause="The first argument is the logarithm of the model's probabilities; the second is probabilities.",
        fix="F.kl_div(F.log_softmax(logits, dim=1), target, reduction='batchmean')",
        evidence={"sum of exponentials": total, "fed": "kl_div"},
        explains=CONSEQUENCES,
    )


def place(node: Node, source: Node | None) -> Where:
    """The softmax, or the module that gives the logits, with the line that takes them where the user wrote it."""
    if source is None or (source.name not in PROBABILITIES.producer and node.line is not None):
        return replace(node.where, module=source.module if source else None)
    return source.where


def bad() -> Setup:
    """Logits into NLL."""
    return classifier(loss_fn=nn.NLLLoss())


def good() -> Setup:
    """Log-probabilities into NLL."""
    return classifier(nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss())
