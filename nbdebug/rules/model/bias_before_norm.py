"""M313: a bias that the following normalization cancels."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from nbdebug.evidence.parameters import Entry, listed
from nbdebug.finding import Finding, Where
from nbdebug.graph import Graph
from nbdebug.graph.node import Node
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

NORMS = ("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm")
BIASED = ("Convolution", "Addmm", "MkldnnConvolution")


@rule("M313", "note")
def bias_before_norm(graph: Graph, parameters: list[Entry]) -> Iterator[Finding]:
    """A bias stands right in front of a batch normalization, which cancels it.

    ## What it does
    Lists the biases of linear layers and convolutions whose result goes into a batch normalization and nowhere else.

    ## Why it matters
    The normalization subtracts the mean, and the bias with it: its gradient is rounding noise, which Adam turns into
    steps of full size. It does no harm and no good, costs memory, and the bias of the normalization does its work.

    ## How it is measured
    In the autograd graph of the first loss: a convolution or linear operation with a bias among its inputs, whose only
    user is a batch normalization by the statistics of the batch. Layer and group normalization, which take one mean
    over several channels, do not cancel a bias of each channel and are left alone.

    ## How to fix
    Make the layer with ``bias=False``.

    ## When to ignore
    When weights are loaded that have the bias.

    ## References
    Ioffe and Szegedy 2015, arXiv:1502.03167, section 3.2: the bias can be ignored, as its effect is canceled.
    """
    entries = {id(one.parameter): one for one in parameters}
    canceled = [entry for node in graph.named(*NORMS) for entry in biases(node, entries)]
    if not canceled:
        return
    first = canceled[0]
    values = sum(one.parameter.numel() for one in canceled)
    yield Finding(
        message=f"The batch normalization behind them cancels {len(canceled)} biases ({values:,} values): "
        f"{listed(canceled)}.",
        where=Where(first.module or None, first.name),
        cause="Subtracting the mean takes the bias away again.",
        fix=f"# where {first.module or 'the layer'} is made: bias=False",
        evidence={"parameters": [one.name for one in canceled], "values": values},
    )


def biases(norm: Node, entries: dict[int, Entry]) -> Iterator[Entry]:
    """The bias of the operation whose result one normalization takes, if nothing else takes it."""
    before = norm.inputs[0] if norm.inputs else None
    by_batch = norm.saved("training") is not False
    if not by_batch or before is None or before.name not in BIASED or len(before.users) != 1:
        return
    for leaf in before.inputs:
        entry = entries.get(id(leaf.variable))
        if entry is not None and entry.parameter.dim() == 1:
            yield entry


def bad() -> Setup:
    """A linear layer with a bias in front of a batch normalization."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return program(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A network without normalization."""
    return classifier()
