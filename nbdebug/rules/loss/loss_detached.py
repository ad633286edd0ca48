"""L212: the loss has no graph behind it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.parameters import Entry
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.graph import Cut
from nbdebug.graph.search import sets
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Setup

CONSEQUENCES = ("M301", "O506", "G409", "G414", "G416", "T601", "T606", "T607", "T608", "T610", "M314", "E709")


@rule("L212", "error")
def loss_detached(
    first_pass: Pass, loss: Tensor, parameters: list[Entry], loop: Loop | NotChecked
) -> Iterator[Finding]:
    """The loss depends on no parameter: there is no graph behind it.

    ## What it does
    Walks the graph of the loss to its leaves. When there is no graph, or when it ends in a tensor that was made on the
    way and in no parameter, it names the call that broke it: item(), detach(), numpy(), no_grad, a fresh tensor.

    ## Why it matters
    backward() has nothing to walk along: it raises, or, when a fresh tensor was made with requires_grad=True, it runs
    and reaches no weight. The loss is flat for ever.

    ## How it is measured
    On the autograd graph of the first batch; each call that took a tensor with a gradient and gave one without is kept.
    In a loop that is watched, on the graphs of its own backward passes, until one reaches the model.

    ## How to fix
    Compute the loss from the output itself. Use .item() for what you print, and only there.

    ## When to ignore
    Never seen.

    ## References
    PyTorch notes on autograd mechanics: only operations on tensors that require a gradient are recorded.
    """
    if isinstance(loop, Loop) and loop.backwards and not loop.reached and not loop.copies:
        yield in_loop(loop)
    trainable = {id(one.parameter) for one in parameters if one.parameter.requires_grad}
    leaves = [loss] if loss.grad_fn is None else first_pass.trace.graph(loss).leaves
    if not trainable or any(id(leaf) in trainable for leaf in leaves):
        return
    fresh = [first_pass.trace.fresh[id(leaf)] for leaf in leaves if id(leaf) in first_pass.trace.fresh]
    cut = next((one for one in reversed(first_pass.trace.cuts) if reaches_parameter(one, trainable)), None)
    line = next((line for _, line in fresh if line), None) or (cut.line if cut else None)
    yield Finding(
        message="The loss has no path back to any parameter: " + what(bool(fresh), cut) + ".",
        where=line.where(cut.module if cut else None) if line else Where(module=cut.module if cut else None),
        cause="The output was turned into plain numbers before the loss was made of it.",
        fix="loss = loss_fn(model(inputs), target)   # of the output itself: no .item(), .detach(), torch.tensor()",
        evidence={
            "cut by": cut.call if cut else None,
            "fresh leaf": bool(fresh),
            "trainable parameters": len(trainable),
        },
        explains=CONSEQUENCES,
    )


def in_loop(loop: Loop) -> Finding:
    """A loss of the user's loop that is made of a fresh tensor."""
    line = loop.line_of(sets("requires_grad", True)) or loop.lines.get("backward")
    return Finding(
        message=f"None of {loop.backwards} backward passes of your loop reached the model: they end in "
        f"{loop.fresh or 'no'} tensors that were made on the way.",
        where=where_of(line),
        cause="The loss was turned into plain numbers and made a tensor again, with a gradient of its own.",
        fix="loss = torch.stack(losses).mean()   # of the losses themselves: no .item(), no torch.tensor()",
        evidence={"backward passes": loop.backwards, "fresh tensors": loop.fresh},
        explains=CONSEQUENCES,
    )


def reaches_parameter(cut: Cut, trainable: set[int]) -> bool:
    """Whether what a call cut off was computed from a trainable parameter."""
    return bool(trainable & {id(leaf) for leaf in cut.leaves()})


def what(fresh: bool, cut: Cut | None) -> str:
    """What broke it, in words."""
    if fresh:
        return "it is made of a fresh tensor, with a gradient of its own that leads nowhere"
    return f"{cut.call} cuts it off" if cut else "it was computed without a graph"


def rebuilt(output: Tensor, target: Tensor) -> Tensor:
    """A cross-entropy of a copy of the output."""
    copy = torch.tensor(output.tolist(), requires_grad=True)
    return nn.functional.cross_entropy(copy, target)


def bad() -> Setup:
    """A loss that copies the output into a fresh tensor."""
    return classifier(loss_fn=rebuilt)


def good() -> Setup:
    """A loss of the output itself."""
    return classifier()
