"""L206: softmax runs over the batch, or over an axis of size one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nbdebug.evidence.attention_axes import Crossed
from nbdebug.evidence.first_pass import Pass, extra_axes
from nbdebug.finding import Finding
from nbdebug.graph import HARMLESS, Graph, Node, Pattern
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup, losses
from nbdebug.setup.losses import scores

SOFTMAXES = frozenset({"Softmax", "LogSoftmax"})
INTO_LOSS = Pattern(SOFTMAXES, frozenset({"NllLoss", "NllLoss2D", "BinaryCrossEntropy", "MseLoss", "Log"}))
LAST = Pattern(SOFTMAXES, frozenset())
LINEAR = Pattern(frozenset({"Addmm", "Mm"}), frozenset(), HARMLESS | {"Add"})
CONSEQUENCES = (
    *(
        "L201",
        "L203",
        "L204",
        "L207",
        "L208",
        "D102",
        "M304",
        "M305",
        "M306",
        "M307",
        "G402",
        "G403",
        "G409",
        "G411",
        "G414",
    ),
    *("G415", "G416", "T601", "T606", "T607", "T608", "T610", "E702", "E703", "E706", "E709"),
)


@rule("L206", "error")
def softmax_wrong_axis(setup: Setup, first_pass: Pass, graph: Graph, crossed_axes: list[Crossed]) -> Iterator[Finding]:
    """Softmax runs over the batch, or over an axis of size one.

    ## What it does
    Reads from each softmax the axis that it ran over. It speaks when that is the axis of the samples, when a softmax
    that ends the output runs over another axis than that of the classes (time, height, width), and when such a softmax,
    the one inside cross-entropy, or one over the results of a single unit has a single value to share. It warns when
    scores of attention are shared out along another axis than the one that the product with the values sums over.

    ## Why it matters
    Over the batch, a sample is scored against the other samples: what it gets depends on its company, and nothing is
    left for a batch of one. Over a single value softmax is always 1: the loss is constant and every gradient is zero.

    ## How it is measured
    On the autograd graph of the first batch. The axis of the classes is the one that the loss is defined for, the one
    that class numbers lack, or the one along which one-hot targets sum to 1. A square of samples by samples, as
    contrastive losses make it, is left alone.

    ## How to fix
    Give the axis of the classes, ``dim=1`` or ``dim=-1``. For a single output use a sigmoid and binary cross-entropy.

    ## When to ignore
    When samples are meant to compete with each other.

    ## References
    Documentation of torch.nn.functional.softmax, which warns when ``dim`` is left out and guesses 0 for 1-D and 3-D.
    """
    ends = final(first_pass, graph)
    size = first_pass.batch.size
    for node in graph.named(*SOFTMAXES):
        shape, axis = ran_over(node)
        if axis is None:
            continue
        if shape[axis] == 1 and (node in ends or (len(shape) > 2 and of_one_unit(node))) and size > 1:
            yield finding(node, shape, axis, "a single value: it is always 1 and has no gradient", SINGLE)
        elif axis == 0 and shape[0] == size > 1 and len(shape) > 1 and size not in shape[1:]:
            yield finding(node, shape, axis, f"the {size} samples of the batch, not over their classes", BATCH)
        elif node in ends and (right := axis_of_classes(setup, first_pass, node)) not in (None, axis):
            yield finding(node, shape, axis, f"something else than the classes, which lie along axis {right}", OTHER)
    for one in crossed_axes:
        what = f"one axis, and the weighted sum over axis {one.summed}: the weights of a sum do not add up to 1"
        found = finding(one.node, one.shape, one.axis, what, CROSSED)
        yield replace(found, severity="warning", explains=("M305", "G402", "T606", "T610"))


SINGLE = (
    "One output is too few for softmax: it shares out 1 among all outputs of a sample.",
    "# one output, yes or no: take the softmax out, and use\nloss_fn = nn.BCEWithLogitsLoss()",
)
OTHER = (
    "The axis of the classes is another one: each class is scored against itself at other places.",
    "# over the classes at each place:\nsoftmax(x, dim=1)   # of (N, C, H, W); dim=-1 of (N, T, C)",
)
CROSSED = (
    "Attention is to share out 1 among what it reads; here the readers share it, whatever they read.",
    "# over the keys, which the product with the values sums over:\nweights = scores.softmax(dim=-1)",
)
BATCH = (
    "Axis 0 is that of the samples.",
    "# over the classes of each sample:\nsoftmax(x, dim=-1)",
)


def final(first_pass: Pass, graph: Graph) -> set[Node]:
    """The softmaxes that end the output, whose result the loss takes as it is, or that the loss itself applies."""
    found = {producer for producer, _ in INTO_LOSS.matches(graph)}
    output: Any = scores(first_pass.output)
    if not isinstance(output, Tensor):
        return found
    behind = first_pass.trace.graph(output)
    last = {node.function for node in LAST.behind([behind.root] if behind.root else [])}
    earlier = {node.function for node in behind.nodes} - last
    return found | {node for node in graph.named(*SOFTMAXES) if node.function not in earlier}


def of_one_unit(node: Node) -> bool:
    """Whether what a softmax shares out comes from a linear layer as it is, so that it is one value in any batch."""
    return any(LINEAR.behind(node.inputs))


def axis_of_classes(setup: Setup, first_pass: Pass, node: Node) -> int | None:
    """The axis of the classes of an output that a softmax gives or is given as it is; None where it is not known."""
    output, target = scores(first_pass.output), first_pass.batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.dim() < 3:
        return None
    if not is_of_output(node, output):
        return None
    if target.shape == output.shape and target.is_floating_point():
        sums = [axis for axis in range(output.dim()) if bool((target.sum(axis) - 1).abs().lt(1e-4).all())]
        return sums[0] if len(sums) == 1 else None
    named = losses.named(setup.loss_fn) in ("cross-entropy", "nll")
    return 1 if named else next(iter(extra_axes(output, target)), None)


def is_of_output(node: Node, output: Tensor) -> bool:
    """Whether a softmax gives the output, or is given it, with all axes where they were."""
    return any(one.function is output.grad_fn for one in (node, *node.inputs))


def ran_over(node: Node) -> tuple[tuple[int, ...], int | None]:
    """The shape of what a softmax gave, and the axis it ran over, where torch kept both."""
    result, axis = node.saved("result"), node.saved("dim")
    if not isinstance(result, Tensor) or not isinstance(axis, int) or not result.dim():
        return (), None
    return tuple(result.shape), axis % result.dim()


def finding(node: Node, shape: tuple[int, ...], axis: int, what: str, why: tuple[str, str]) -> Finding:
    """One softmax with its axis."""
    cause, fix = why
    call = "log_softmax" if node.name == "LogSoftmax" else "softmax"
    return Finding(
        message=f"{call} over axis {axis} of {shape} runs over {what}.",
        where=node.where,
        cause=cause,
        fix=fix,
        evidence={"shape": list(shape), "axis": axis},
        explains=CONSEQUENCES,
    )


def bad() -> Setup:
    """A softmax over a single output."""
    x, y = points(2)
    return program(network(1, nn.Softmax(dim=1)), x, y.float().unsqueeze(1), nn.BCELoss())


def good() -> Setup:
    """A softmax over two outputs."""
    x, y = points(2)
    return program(network(2, nn.LogSoftmax(dim=1)), x, y, nn.NLLLoss())
