"""M313: a bias that the following normalization cancels."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.parameters import Entry
from nbdebug.finding import Finding
from nbdebug.graph import Graph
from nbdebug.graph.node import Node
from nbdebug.graph.pattern import Pattern
from nbdebug.graph.source import where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

CANCELED = Pattern(
    producer=frozenset({"Addmm", "Convolution", "Add"}),
    consumer=frozenset({"NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"}),
    through=frozenset({"Transpose", "Permute", "View", "UnsafeView", "Squeeze", "Unsqueeze", "Clone", "ToCopy"}),
)


@rule("M313", "note")
def bias_before_norm(graph: Graph, parameters: list[Entry]) -> Iterator[Finding]:
    """A bias is canceled by the normalization that follows it.

    ## What it does
    Finds layers whose bias goes straight into a batch or instance normalization of as many channels.

    ## Why it matters
    The normalization subtracts the mean of each channel, and a bias is nothing but a part of that mean: it has no
    influence, its gradient is rounding noise, and Adam turns that noise into steps. The shift of the normalization
    does its work.

    ## How it is measured
    In the autograd graph: a bias of one axis that is added, then only moved or reshaped, then normalized per channel
    with statistics of the batch. In eval mode the running mean is subtracted instead, and nothing is said.

    ## How to fix
    Make the layer with ``bias=False``.

    ## When to ignore
    When the weights of an existing model are to be loaded, which have the bias.

    ## References
    Ioffe and Szegedy 2015, arXiv:1502.03167, section 3.2: the bias is subsumed by the shift of the normalization.
    """
    names = {id(one.parameter): one for one in parameters}
    seen: set[int] = set()
    for layer, norm in CANCELED.matches(graph):
        bias = bias_of(layer)
        mean = norm.saved("result1")
        if bias is None or id(bias) in seen or id(bias) not in names or not subtracted(norm, mean, bias):
            continue
        seen.add(id(bias))
        yield finding(names[id(bias)], layer, norm)


def bias_of(layer: Node) -> Tensor | None:
    """The parameter of one axis that an operation adds."""
    added = (node.variable for node in layer.inputs)
    return next((leaf for leaf in added if leaf is not None and leaf.dim() == 1), None)


def subtracted(norm: Node, mean: Tensor | None, bias: Tensor) -> bool:
    """Whether the mean of the batch is taken for each value of the bias, once or once for each sample."""
    return bool(norm.saved("training")) and mean is not None and mean.numel() % bias.numel() == 0


def finding(entry: Entry, layer: Node, norm: Node) -> Finding:
    """The bias and what cancels it."""
    size = entry.parameter.numel()
    return Finding(
        message=f"{entry.name} ({size} values) has no influence: {norm.module or 'a normalization'} subtracts the mean "
        "of each channel right after it; expected 0 values of bias there.",
        where=where_of(layer.line, entry.module, entry.name),
        cause="The shift of the normalization does what the bias was for.",
        fix="nn.Linear(..., bias=False)   # or nn.Conv2d(..., bias=False): the layer before the normalization",
        evidence={"bias": entry.name, "values": size, "normalization": norm.module},
    )


def normalized(bias: bool) -> Setup:
    """Batch normalization behind a layer with or without bias."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8, bias=bias), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return program(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A layer with a bias in front of batch normalization."""
    return normalized(bias=True)


def good() -> Setup:
    """The same without the bias."""
    return normalized(bias=False)
