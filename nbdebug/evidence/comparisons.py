"""What the loss compares with what, value by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph, Node
from nbdebug.setup.losses import scores

LOSSES = ("MseLoss", "SmoothL1Loss", "HuberLoss")
CLOSE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """A ``target`` and the ``nodes`` that hand over the values that are to come close to it."""

    nodes: tuple[Node, ...]
    target: Tensor


@measurement
def comparisons(first_pass: Pass, output: Any, graph: Graph, loss: Tensor) -> list[Comparison]:
    """The comparisons of a squared, absolute or Huber error, torch's own or written by hand."""
    found = [Comparison(tuple(node.inputs), node.saved("target")) for node in graph.named(*LOSSES)]
    known = [one for one in found if isinstance(one.target, Tensor)]
    return known or by_value(first_pass, scores(output), loss)


def by_value(first_pass: Pass, output: Any, loss: Tensor) -> list[Comparison]:
    """Output and target of the batch, where the loss is what their mean squared or absolute difference is."""
    target = first_pass.batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape != target.shape:
        return []
    error = (output - target).detach().float()
    means = torch.stack([error.square().mean(), error.abs().mean(), error.square().mean() / 2, error.square().sum()])
    root = first_pass.trace.graph(output).root
    if root is None or not torch.isclose(means, loss.detach().float(), rtol=CLOSE, atol=0).any():
        return []
    return [Comparison((root,), target)]
