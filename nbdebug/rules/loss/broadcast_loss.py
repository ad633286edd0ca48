"""L205: prediction and target broadcast against each other."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from nbdebug.finding import Finding
from nbdebug.graph.broadcasts import Broadcast
from nbdebug.graph.source import where_of
from nbdebug.loop.disproved import OPERANDS
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program, regressor
from nbdebug.setup import Setup


@rule("L205", "error")
def broadcast_loss(broadcasts: list[Broadcast]) -> Iterator[Finding]:
    """Prediction and target have different shapes, and the loss stretches one over the other.

    ## What it does
    Follows output and target through the loss, and looks at each call that joins them element by element. It speaks
    when the joined shape is larger than both, as (N, 1) with (N,), which gives N x N, and when one of torch's own
    losses is given two shapes.

    ## Why it matters
    Every prediction is compared with the targets of all samples. The best answer to that is the mean of the targets for
    everyone: the loss settles at their variance, and no error is raised.

    ## How it is measured
    By running the loss once on the output of the first batch, and reading the shapes of its operands.

    ## How to fix
    Give both the same shape: ``output.squeeze(-1)``, or ``target.unsqueeze(1)``.

    ## When to ignore
    Losses of your own that stretch one side on purpose, for all pairs, for quantiles or for weights, are left alone.

    ## References
    Documentation of torch.nn.functional.mse_loss, which warns of differing sizes; PyTorch broadcasting semantics.
    """
    for one in broadcasts[:1]:
        yield Finding(
            message=f"{one.call} stretches an output {one.output} and a target {one.target} to {one.result}.",
            where=where_of(one.line),
            cause="Each prediction is compared with the targets of other samples or outputs.",
            fix=repair(one),
            evidence={"output": one.output, "target": one.target, "result": one.result, "call": one.call},
            explains=("L208", "L214", "T601", "T606", "T607", "T608", "T610", "E709", "M307", "G409", "G415"),
            assumes=(OPERANDS,),
        )


def repair(one: Broadcast) -> str:
    """The line that makes both shapes equal."""
    if one.output[-1] == 1 and len(one.output) == len(one.target) + 1:
        return "loss = loss_fn(output.squeeze(-1), target)"
    if one.target[-1] == 1 and len(one.target) == len(one.output) + 1:
        return "loss = loss_fn(output, target.squeeze(-1))"
    return f"# give the model's output the shape of its target, {one.target}"


def bad() -> Setup:
    """An output (N, 1) and a target (N,)."""
    x, _ = points()
    return program(network(1), x, x.sum(1), nn.MSELoss())


def good() -> Setup:
    """An output (N, 1) and a target (N, 1)."""
    return regressor()
