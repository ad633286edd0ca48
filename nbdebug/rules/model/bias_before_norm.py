"""M313: a bias is canceled by the normalization that follows it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.autograd.graph import Node
from nbdebug.autograd.patterns import Pattern
from nbdebug.finding import Finding, format_module
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

_BIAS_INTO_NORM = Pattern(
    producer=frozenset({"Addmm", "Convolution", "Add"}),
    consumer=frozenset({"NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"}),
    through=frozenset({"Transpose", "Permute", "View", "UnsafeView", "Squeeze", "Unsqueeze", "Clone", "ToCopy"}),
)


@rule("M313", "note")
def bias_before_norm(graph: Graph, parameters: list[ParameterEntry]) -> Iterator[Finding]:
    """A bias is canceled by the normalization that follows it.

    ## What it does
    Finds layers whose bias goes directly into a batch or instance normalization with the same number of channels.

    ## Why it matters
    The normalization subtracts the mean of each channel, which includes the bias: the bias has no influence, its
    gradient is rounding noise, and Adam turns that noise into steps. The shift of the normalization takes its role.

    ## How it is measured
    In the autograd graph: a one-dimensional bias that is added, then only moved or reshaped, then normalized per
    channel with batch statistics. In eval mode the running mean is subtracted instead, and nothing is reported.

    ## How to fix
    Create the layer with ``bias=False``.

    ## When to ignore
    When you load the weights of an existing model, which include the bias.

    ## References
    Ioffe and Szegedy 2015, arXiv:1502.03167, section 3.2: the bias is subsumed by the shift of the normalization.
    """
    entries = {id(entry.parameter): entry for entry in parameters}
    reported_biases: set[int] = set()
    for layer, norm in _BIAS_INTO_NORM.find_matches(graph):
        bias = _added_bias(layer)
        mean = norm.get_saved("result1")
        if (
            bias is None
            or id(bias) in reported_biases
            or id(bias) not in entries
            or not _cancels_bias(norm, mean, bias)
        ):
            continue
        reported_biases.add(id(bias))
        yield _finding(entries[id(bias)], layer, norm)


def _added_bias(layer: Node) -> Tensor | None:
    variables = (node.variable for node in layer.inputs)
    return next((leaf for leaf in variables if leaf is not None and leaf.dim() == 1), None)


def _cancels_bias(norm: Node, mean: Tensor | None, bias: Tensor) -> bool:
    """Return whether the batch mean is computed for each value of the bias, over the batch or per sample."""
    return bool(norm.get_saved("training")) and mean is not None and mean.numel() % bias.numel() == 0


def _finding(entry: ParameterEntry, layer: Node, norm: Node) -> Finding:
    size = entry.parameter.numel()
    return Finding(
        message=f"{entry.name} ({size} values) has no influence: {format_module(norm.module or 'a normalization')} "
        "subtracts the mean of each channel directly after it.",
        where=get_location(layer.line, entry.module, entry.name),
        cause="The normalization removes every constant, and adds its own bias afterwards.",
        fix="Create the layer before the normalization with bias=False.",
        evidence={"bias": entry.name, "values": size, "normalization": norm.module},
    )


def _batchnorm_setup(bias: bool) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8, bias=bias), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A layer with a bias before batch normalization."""
    return _batchnorm_setup(bias=True)


def good() -> Setup:
    """The same model without the bias."""
    return _batchnorm_setup(bias=False)
