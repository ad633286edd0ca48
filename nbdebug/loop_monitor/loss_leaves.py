"""What the loss of the first step depends on: trainable tensors that no module holds, and gradients without a graph."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.loop_monitor.gradient_terms import ConstantGradientTerm, find_constant_gradient_term
from nbdebug.setup import Batch, Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.references import find_names
from nbdebug.tensors.memory import share_memory
from nbdebug.tensors.pytree import tree_tensors

_MAX_LEAVES = 8  # of more, the loss contains another network
_MAX_VALUES = 4096


@dataclass(frozen=True)
class _LossLeaf:
    """A tensor by its name in the user's code, and its values before the first step."""

    name: str
    tensor: weakref.ref[Tensor]
    initial: Tensor


class LossLeafMonitor:
    """Remembers the tensors without an owner that the loss of the first step depends on, until the loop has ended."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.leaves = setup, list[_LossLeaf]()
        self.gradient_term: ConstantGradientTerm | None = None

    def on_gradients(self, graph: Graph, calls: Sequence[TorchCall], loss: Tensor) -> None:
        """Find a term that is computed from gradients without a graph."""
        self.gradient_term = find_constant_gradient_term(graph, calls, loss)

    def on_loss(self, graph: Graph, batch: Batch, calls: Sequence[TorchCall], frame: FrameType | None) -> None:
        """Find the tensors in the graph of the first loss; ``calls`` are those of torch after the pass of the model.

        A tensor with respect to which the loop computes a gradient, as for a penalty, is none of them.
        """
        known = [*self.setup.eager_model.parameters(), *optimized_parameters(*self.setup.optimizers)]
        known += [tensor for call in calls if call.name == "grad" for tensor in tree_tensors((call.args, call.kwargs))]
        known_ids, of_batch = set(map(id, known)), tree_tensors((batch.args, batch.kwargs, batch.targets, batch.raw))
        leaves = [leaf for leaf in graph.leaves if leaf.requires_grad and id(leaf) not in known_ids]
        if len(leaves) > _MAX_LEAVES:
            return
        for leaf in leaves:
            is_of_batch = any(share_memory(leaf, tensor) for tensor in of_batch)
            if leaf.numel() > _MAX_VALUES or is_of_batch or _is_owned(leaf, self.setup.eager_model):
                continue
            if names := find_names(leaf, frame):
                self.leaves.append(_LossLeaf(min(names, key=len), weakref.ref(leaf), leaf.detach().clone()))

    def unchanged(self) -> dict[str, Tensor]:
        """Return the tensors by name that still exist, have a gradient, and have kept their values."""
        tensors = {leaf.name: (leaf.tensor(), leaf.initial) for leaf in self.leaves}
        return {
            name: tensor
            for name, (tensor, initial) in tensors.items()
            if tensor is not None and tensor.grad is not None and torch.equal(tensor.detach(), initial)
        }


def _is_owned(leaf: Tensor, model: nn.Module) -> bool:
    """Return whether a module holds a tensor, as a parameter or, in the model, as an attribute."""
    if any(value is leaf for module in model.modules() for value in vars(module).values()):
        return True
    holders = [holder for holder in gc.get_referrers(leaf) if isinstance(holder, dict)]
    owners = (owner for holder in holders for owner in gc.get_referrers(holder))
    return any(isinstance(owner, dict) and any(owner.get("_parameters") is h for h in holders) for owner in owners)
