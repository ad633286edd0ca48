"""A watched loop that trains another model than the one that is watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from nbdebug.hooks.training_events import observe_all_steps
from nbdebug.setup.notebook_names import RebindingNotice
from nbdebug.setup.setup import optimized_parameters


class OptimizedModels:
    """Whether the optimizers of a loop update the watched model, or only other parameters."""

    def __init__(self, model: nn.Module, notice: RebindingNotice | None = None) -> None:
        self.notice = notice
        self.own_parameters = {id(parameter) for parameter in model.parameters()}
        self.own_shapes = Counter(parameter.shape for parameter in model.parameters())
        self.name = type(model).__name__
        self.known_optimizers: WeakSet[torch.optim.Optimizer] = WeakSet()
        self.updates_own = self.updates_other = self.has_same_shapes = False

    def hook(self, guarded: Callable[[Callable[..., None]], Callable[..., None]]) -> AbstractContextManager[None]:
        """Return the hook on the optimizer steps of the loop."""
        return observe_all_steps(lambda *_: None, guarded(self.on_step))

    def on_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Note which parameters an optimizer updates, at its first step."""
        if optimizer in self.known_optimizers:
            return
        self.known_optimizers.add(optimizer)
        parameters = optimized_parameters(optimizer)
        is_own = any(id(parameter) in self.own_parameters for parameter in parameters)
        self.updates_own, self.updates_other = self.updates_own or is_own, self.updates_other or not is_own
        self.has_same_shapes |= Counter(parameter.shape for parameter in parameters) == self.own_shapes

    def describe_other(self, has_reached_model: bool) -> str:
        """Return a sentence if the loop trained only another model; "" if it concerned the watched one."""
        is_made_again = self.notice is not None and not self.notice.names.keys().isdisjoint({"model", "module"})
        is_other_trained = (self.updates_other and not self.updates_own) or (self.updates_own and is_made_again)
        if has_reached_model or not is_other_trained:
            return ""
        other = f"another {self.name}" if self.has_same_shapes else "another model"
        remedy = self.notice.remedy if self.notice is not None else "Pass the model of this loop to the Debugger."
        return f"The loop trained {other} than the one that is watched, so nothing was recorded or judged. {remedy}"
