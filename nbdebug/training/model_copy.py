"""The trained object: a copy of the model with fresh optimizers, or the model itself if it cannot be copied."""

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

from nbdebug.autograd.graph import build_graph
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.setup import optimized_parameters

# What a user writes to initialize the weights again as ``initialize_weights`` does.
RESET_PARAMETERS = 'for module in model.modules():\n    getattr(module, "reset_parameters", lambda: None)()'
# A twenty-fifth of the typical weight: Adam moves each weight by about its learning rate, so within 150 steps a weight
# can change several times over. Learning rates proportional to the weights are those of LAMB (You et al. 2020,
# arXiv:1904.00962); the limits bracket the 0.001 of Adam's own paper (Kingma and Ba 2015, arXiv:1412.6980).
_RATE_TO_WEIGHT_RATIO, _MIN_RATE, _MAX_RATE = 0.04, 3e-4, 2e-2


def ensure_train_mode(setup: Setup) -> None:
    """Set a model in eval mode to train mode; keeps submodules that are individually in eval mode."""
    if not any(module.training for module in setup.eager_model.modules()):
        setup.eager_model.train()


@dataclass
class TrainableSetup:
    """A setup that may be modified; ``copies`` maps the user's tensors to those trained in their place."""

    setup: Setup
    copies: dict[int, Tensor]

    @property
    def trainable(self) -> list[Tensor]:
        """The parameters that require a gradient, including those of the loss."""
        loss = self.setup.loss_fn
        loss_parameters = list(loss.parameters()) if isinstance(loss, nn.Module) else []
        return [p for p in dict.fromkeys([*self.setup.eager_model.parameters(), *loss_parameters]) if p.requires_grad]

    def rebuild_optimizers(self, optimizers: Iterable[Optimizer], has_scheduler: bool) -> list[Optimizer]:
        """Return fresh optimizers of the same classes with the same settings for each group.

        With a scheduler, which is not stepped here, each group gets the highest learning rate that it records.
        """
        return [self.rebuild_optimizer(optimizer, has_scheduler) for optimizer in optimizers]

    def rebuild_optimizer(self, optimizer: Optimizer, has_scheduler: bool) -> Optimizer:
        """Return an optimizer without state for the trained tensors."""
        groups = [self.rebuild_group(param_group, has_scheduler) for param_group in optimizer.param_groups]
        accepted_arguments = inspect.signature(type(optimizer).__init__).parameters
        settings = {name: value for name, value in optimizer.defaults.items() if name in accepted_arguments}
        return type(optimizer)(groups, **settings)

    def rebuild_group(self, group: dict[str, Any], has_scheduler: bool) -> dict[str, Any]:
        """Return a parameter group for the trained tensors."""
        rate_override = {"lr": peak_rate(group)} if has_scheduler and "lr" in group else {}
        return {**group, **rate_override, "params": [self.copies.get(id(p), p) for p in group["params"]]}

    def adam(self) -> Optimizer:
        """Return Adam with a learning rate that fits the weights."""
        weights = [p for p in self.trainable if p.dim() > 1 and p.is_floating_point()] or self.trainable
        count = sum(p.numel() for p in weights)
        mean_square = sum(float(p.detach().float().square().sum()) for p in weights) / max(count, 1)
        learning_rate = min(max(_RATE_TO_WEIGHT_RATIO * mean_square**0.5, _MIN_RATE), _MAX_RATE)
        return torch.optim.Adam(self.trainable, lr=float(f"{learning_rate:.1g}"))


def peak_rate(group: dict[str, Any]) -> float:
    """Return the highest learning rate that a scheduler has stored in a group."""
    return max(float(group[name]) for name in ("lr", "initial_lr", "max_lr") if name in group)


def _copy_setup(setup: Setup) -> TrainableSetup:
    """Return a copy of model and loss; raises any exception of deepcopy."""
    memo: dict[int, Any] = {}
    loss = setup.loss_fn if isinstance(setup.loss_fn, nn.Module) else None
    model, copied_loss = deepcopy((setup.eager_model, loss), memo)
    copies = {id(original): memo[id(original)] for original in _trained_tensors(setup) if id(original) in memo}
    setup_copy = replace(
        setup, model=model, loss_fn=setup.loss_fn if copied_loss is None else copied_loss, optimizers=()
    )
    if isinstance(setup.eager_model, torch.jit.ScriptModule):
        copies |= {
            id(original): copied_parameter
            for original, copied_parameter in zip(setup.eager_model.parameters(), model.parameters(), strict=True)
        }
    return TrainableSetup(setup_copy, copies)


def _trained_tensors(setup: Setup) -> list[Tensor]:
    """Return all tensors that the user trains."""
    loss = setup.loss_fn
    loss_parameters = list(loss.parameters()) if isinstance(loss, nn.Module) else []
    optimized = optimized_parameters(*setup.optimizers)
    return list(dict.fromkeys([*setup.eager_model.parameters(), *loss_parameters, *optimized]))


def copy_obstacle(setup: Setup, batch: Batch) -> str:
    """Return why a copy cannot be trained in place of the model; empty if it can."""
    if setup.step_fn is not None:
        return "step_fn trains its own model"
    try:
        setup_copy = _copy_setup(setup)
    except Exception as error:
        return f"the model cannot be copied ({type(error).__name__})"
    with torch.enable_grad():
        loss = setup_copy.setup.output_and_loss(batch)[1]
    reached_ids = {id(leaf) for node in [build_graph(loss.grad_fn, [])] for leaf in node.leaves}
    own_ids = {id(p) for p in _trained_tensors(setup)}
    return "the loss of the copy reaches the model itself" if reached_ids & own_ids else ""


def initialize_weights(model: nn.Module) -> bool:
    """Initialize all weights again by torch's defaults; return whether there were any."""
    covered: set[int] = set()
    for module in model.modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
            covered |= {id(p) for p in module.parameters(recurse=False)}
    others = [p for p in model.parameters() if id(p) not in covered and p.dim() > 1 and p.is_floating_point()]
    for p in others:
        nn.init.kaiming_uniform_(p, a=5**0.5)
    return bool(covered or others)


@contextmanager
def trainable_setup(setup: Setup, in_place: bool) -> Iterator[TrainableSetup]:
    """Provide the object that one attempt trains: a fresh copy, or the model itself, which is restored afterwards."""
    if not in_place:
        setup_copy = _copy_setup(setup)
        ensure_train_mode(setup_copy.setup)
        yield setup_copy
        return
    with Preserve(*setup.mutable_objects):
        ensure_train_mode(setup)
        yield TrainableSetup(setup, {})
