"""The weight with which the losses of a batch enter a backward pass, measured by the gradients that reach them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd import Graph, Node
from nbdebug.setup.losses import NODE_KINDS

_TRANSPARENT_NODES = (
    "AddBackward",
    "SubBackward",
    "ToCopyBackward",
    "CloneBackward",
    "SqueezeBackward",
    "ViewBackward",
)
_SUM_REDUCTION = 2
_MAX_LOSS_NODES = 32
_MEAN_WEIGHTS = (0.9, 1.1)  # one, with room for a label weighting; a loss divided by two has 0.5


class LossWeights:
    """The weights of torch's own losses in a backward pass.

    The gradient that reaches a loss is the factor between it and the root, whatever operations stand between them. The
    weight is that factor times the number of values for a sum, and its sum for a loss without reduction: 1 for the
    mean over a batch, however it is written, and 1 / k for a k-th of it.
    """

    def __init__(self, graph: Graph, roots: Sequence[Tensor], scale: Tensor | None) -> None:
        self.scale, self.weights = scale, list[Tensor]()
        self.weights_of_single_rows = list[Tensor]()
        self.root_factor = _root_factor(roots[0]) if len(roots) == 1 else 1.0
        self.reads_as_undivided = not any(_is_divided(root, scale is not None) for root in roots)
        for node in graph.nodes:
            if node.name in NODE_KINDS:
                self._observe(node)

    def _observe(self, node: Node) -> None:
        """Record the weight of a loss when the gradient reaches it."""
        target, reduction = node.get_saved("target"), node.get_saved("reduction")
        count = target.numel() if isinstance(target, Tensor) else 1
        factor = count if reduction == _SUM_REDUCTION else 1
        weights = self.weights_of_single_rows if count == 1 else self.weights

        def record(gradients: tuple[Tensor | None, ...]) -> None:
            if gradients[0] is not None:
                weights.append(gradients[0].detach().double().sum() * factor)

        node.function.register_prehook(record)

    def loss_factor(self) -> float:
        """Return the factor between the loss and the root; synchronizes the device.

        Measured if the loss is one of torch's. Otherwise, it is the number that the root itself was multiplied by.
        """
        return float(self.weights[-1]) if self.weights else self.root_factor

    def is_undivided(self) -> bool:
        """Check whether a mean over the batch enters with weight 1; synchronizes the device.

        Losses of single rows count as one loss. Unless the loss is one of torch's, its graph decides.
        """
        if not (weights := self.values()):
            return self.reads_as_undivided
        lowest, highest = _MEAN_WEIGHTS
        return any(lowest <= weight <= highest for weight in weights)

    def values(self) -> list[float]:
        """Return the weights of all losses, without the factor of a GradScaler; synchronizes the device."""
        weights = list(self.weights)
        if self.weights_of_single_rows:
            weights.append(torch.stack(self.weights_of_single_rows).sum())
        scale = float(self.scale) if self.scale is not None else 1.0
        return [float(weight) / scale for weight in weights]


def _root_factor(root: Tensor) -> float:
    """Return the number by which a loss was multiplied as the last operation; 1 if it was none."""
    node: Any = root.grad_fn
    if node is None or not node.name().startswith("MulBackward"):
        return 1.0
    # Autograd saves only the operand that the gradient of the other one needs.
    saved = [getattr(node, name, None) for name in ("_saved_self", "_saved_other")]
    factors = [value for value in saved if isinstance(value, Tensor)]
    return float(factors[0]) if len(factors) == 1 and not factors[0].dim() else 1.0


def _is_divided(root: Tensor, is_scaled: bool) -> bool:
    """Check whether a loss was multiplied or divided on its way to the root, or is a sum over samples.

    Reads the graph through sums of scalars up to the first operation on more than a scalar. The factor of a GradScaler,
    which is the outermost if the loss is ``is_scaled``, is skipped.
    """
    pending: list[Any] = [root.grad_fn]
    if is_scaled and root.grad_fn is not None:
        pending = [next_node for next_node, _ in root.grad_fn.next_functions][:1]
    for _ in range(_MAX_LOSS_NODES):
        if not pending:
            return False
        node = pending.pop()
        name = node.name() if node is not None else ""
        if name.startswith(("DivBackward", "MulBackward", "SumBackward")) or _has_sum_reduction(node):
            return True
        if name.startswith(_TRANSPARENT_NODES):
            pending += [next_node for next_node, _ in node.next_functions]
    return True


def _has_sum_reduction(node: Any) -> bool:
    return getattr(node, "_saved_reduction", None) == _SUM_REDUCTION
