"""What is trained: a copy of the model with fresh optimizers, or the model itself where no copy can stand for it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nbdebug.graph.reader import read
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.tools.overfit.examples import to_train_mode

# A twenty-fifth of the typical weight: Adam moves each weight by about its rate, so within 150 steps a weight can turn
# over several times. Rates in proportion to the weights are LAMB's (You et al. 2020, arXiv:1904.00962); the limits
# bracket the 0.001 of Adam's own paper (Kingma and Ba 2015, arXiv:1412.6980).
SHARE_OF_WEIGHT, LEAST_RATE, MOST_RATE = 0.04, 3e-4, 2e-2


@dataclass
class Trainee:
    """A set-up that may be trained to pieces; ``twins`` maps the user's tensors to those trained in their place."""

    setup: Setup
    twins: dict[int, Tensor]

    @property
    def trainable(self) -> list[Tensor]:
        """The parameters that require a gradient, those of the loss among them."""
        loss = self.setup.loss_fn
        own = list(loss.parameters()) if isinstance(loss, nn.Module) else []
        return [p for p in dict.fromkeys([*self.setup.eager.parameters(), *own]) if p.requires_grad]

    def users_optimizers(self, given: Iterable[Optimizer], scheduled: bool) -> list[Optimizer]:
        """Fresh optimizers of the same classes with the same settings for each group.

        Under a schedule, which is not stepped here, each group has the highest rate that the schedule names.
        """
        return [self.fresh(one, scheduled) for one in given]

    def fresh(self, optimizer: Optimizer, scheduled: bool) -> Optimizer:
        """One optimizer without state over the trained tensors."""
        groups = [self.group(one, scheduled) for one in optimizer.param_groups]
        known = inspect.signature(type(optimizer).__init__).parameters
        settings = {name: value for name, value in optimizer.defaults.items() if name in known}
        return type(optimizer)(groups, **settings)

    def group(self, group: dict[str, Any], scheduled: bool) -> dict[str, Any]:
        """One group over the trained tensors."""
        rate = {"lr": peak(group)} if scheduled and "lr" in group else {}
        return {**group, **rate, "params": [self.twins.get(id(p), p) for p in group["params"]]}

    def adam(self) -> Optimizer:
        """Adam at a rate that suits the weights."""
        weights = [p for p in self.trainable if p.dim() > 1 and p.is_floating_point()] or self.trainable
        count = sum(p.numel() for p in weights)
        mean_square = sum(float(p.detach().float().square().sum()) for p in weights) / max(count, 1)
        rate = min(max(SHARE_OF_WEIGHT * mean_square**0.5, LEAST_RATE), MOST_RATE)
        return torch.optim.Adam(self.trainable, lr=float(f"{rate:.1g}"))


def peak(group: dict[str, Any]) -> float:
    """The highest learning rate that a schedule has written into a group."""
    return max(float(group[name]) for name in ("lr", "initial_lr", "max_lr") if name in group)


def copied(setup: Setup) -> Trainee:
    """A copy of model and loss; raises whatever deepcopy raises."""
    memo: dict[int, Any] = {}
    loss = setup.loss_fn if isinstance(setup.loss_fn, nn.Module) else None
    model, own = deepcopy((setup.eager, loss), memo)
    twins = {id(p): memo[id(p)] for p in owned_by(setup) if id(p) in memo}
    copy = replace(setup, model=model, loss_fn=setup.loss_fn if own is None else own, optimizers=())
    if isinstance(setup.eager, torch.jit.ScriptModule):
        twins |= {id(p): q for p, q in zip(setup.eager.parameters(), model.parameters(), strict=True)}
    return Trainee(copy, twins)


def owned_by(setup: Setup) -> list[Tensor]:
    """All tensors that the user trains."""
    loss = setup.loss_fn
    own = list(loss.parameters()) if isinstance(loss, nn.Module) else []
    held = [p for one in setup.optimizers for group in one.param_groups for p in group["params"]]
    return list(dict.fromkeys([*setup.eager.parameters(), *own, *held]))


def obstacle(setup: Setup, batch: Batch) -> str:
    """Why a copy cannot be trained in place of the model; empty where it can."""
    if setup.step_fn is not None:
        return "step_fn trains the model it knows"
    try:
        copy = copied(setup)
    except Exception as error:
        return f"the model cannot be copied ({type(error).__name__})"
    with torch.enable_grad():
        loss = copy.setup.run(batch)[1]
    reached = {id(leaf) for node in [read(loss.grad_fn, [])] for leaf in node.leaves}
    own = {id(p) for p in owned_by(setup)}
    return "the loss reaches the model itself from outside it" if reached & own else ""


@contextmanager
def trainee(setup: Setup, in_place: bool) -> Iterator[Trainee]:
    """What one attempt trains: a fresh copy, or the model itself, which is put back afterwards."""
    if not in_place:
        found = copied(setup)
        to_train_mode(found.setup)
        yield found
        return
    with Preserve(*setup.owned):
        to_train_mode(setup)
        yield Trainee(setup, {})
