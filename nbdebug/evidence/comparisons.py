"""What the loss compares with what, value by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.graph import Graph, Node
from nbdebug.setup import Setup
from nbdebug.setup.losses import scores

LOSSES = ("MseLoss", "SmoothL1Loss", "HuberLoss")
CLOSE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """A ``target`` and the ``nodes`` that hand over the values that are to come close to it."""

    nodes: tuple[Node, ...]
    target: Tensor


@measurement
def comparisons(setup: Setup, first_pass: Pass, output: Any, graph: Graph, loss: Tensor) -> list[Comparison]:
    """The comparisons of a squared, absolute or Huber error, torch's own or written by hand, or of one like them."""
    found = [Comparison(tuple(node.inputs), node.saved("target")) for node in graph.named(*LOSSES)]
    known = [one for one in found if isinstance(one.target, Tensor)]
    return known or by_value(setup, first_pass, scores(output), loss)


def by_value(setup: Setup, first_pass: Pass, output: Any, loss: Tensor) -> list[Comparison]:
    """Output and target of the batch, where the loss is their mean squared or absolute difference, or least at none."""
    target = first_pass.batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape != target.shape:
        return []
    error = (output - target).detach().float()
    means = torch.stack([error.square().mean(), error.abs().mean(), error.square().mean() / 2, error.square().sum()])
    root = first_pass.trace.graph(output).root
    written = bool(torch.isclose(means, loss.detach().float(), rtol=CLOSE, atol=0).any())
    return [Comparison((root,), target)] if root and (written or is_distance(setup, first_pass, output, target)) else []


def is_distance(setup: Setup, first_pass: Pass, output: Tensor, target: Tensor) -> bool:
    """Whether the loss of real targets is least where the output is the target, and grows on both sides of it."""
    whole = isinstance(first_pass.output, Tensor) and setup.loss_fn is not None and target.is_floating_point()
    if not whole or target.numel() < 2 or bool(((target == 0) | (target == 1)).all()):
        return False
    spread = float(target.std())

    def of(step: float) -> float:
        return loss_on(setup, (target + step * spread).to(output), first_pass.batch)

    try:
        return of(0) < of(0.1) < of(1) and of(0) < of(-0.1) < of(-1)
    except NotChecked:
        return False
