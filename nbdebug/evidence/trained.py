"""Whether the model knows its task already, as one that is fine-tuned does."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional as F

from nbdebug.evidence.ledger import measurement
from nbdebug.graph import Graph, Node

WELL_UNDER = 0.7  # of the loss of an answer that knows nothing; a fresh head is at it, or above


@measurement
def is_trained(graph: Graph) -> bool:
    """Whether the errors of the first batch are well under those of a constant: ln C, or the variance of the targets.

    Read from what torch's losses keep in the graph, so that weights and scales of the whole loss do not matter.
    """
    found = [pair for node in graph.nodes if (pair := errors(node)) is not None]
    return bool(found) and all(own < WELL_UNDER * constant for own, constant in found)


def errors(node: Node) -> tuple[float, float] | None:
    """The mean error that a loss node saw, and that of a constant answer; None for other nodes."""
    given, target = node.saved("self"), node.saved("target")
    if not isinstance(given, Tensor) or not isinstance(target, Tensor):
        return None
    given = given.detach().float()
    if node.name in ("NllLoss", "NllLoss2D") and given.dim() > 1:
        skipped = int(node.saved("ignore_index")) - (1 << 64 if int(node.saved("ignore_index")) > 1 << 62 else 0)
        return float(F.nll_loss(given, target, ignore_index=skipped)), math.log(given.shape[1])
    if node.name == "BinaryCrossEntropyWithLogits":
        return float(F.binary_cross_entropy_with_logits(given, target.float())), math.log(2)
    if node.name == "MseLoss" and target.numel() > 1:
        return float(F.mse_loss(given, target.float())), float(target.float().var())
    return None
