"""A copy of the user's setup that one trial trains, and that a treatment changes first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import LossKind
from nbdebug.setup.setup import optimized_parameters
from nbdebug.training.model_copy import TrainableSetup


@dataclass
class TreatedSetup:
    """A copy of a setup with fresh optimizers; a treatment changes it before the first step.

    ``batches`` are some training batches of the user, from which a treatment may measure statistics.
    ``prediction_of`` converts an output of the treated model to the units of the targets. ``samples_per_step`` is
    relative to the user's batches: 0.25 if a step takes a quarter of their samples. ``schedule(optimizer, steps)``
    returns a scheduler that is stepped after each step; without one the learning rate is constant.
    """

    trainable: TrainableSetup
    optimizers: list[Optimizer]
    batches: list[Batch]
    loss_kind: LossKind
    max_norm: float | None = None
    samples_per_step: float = 1.0
    prediction_of: Callable[[Any], Any] = lambda output: output
    schedule: Callable[[Optimizer, int], Any] | None = None

    @property
    def setup(self) -> Setup:
        """The setup of the copy."""
        return self.trainable.setup

    @property
    def model(self) -> nn.Module:
        """The copied model."""
        return self.setup.eager_model

    @model.setter
    def model(self, model: nn.Module) -> None:
        self.change_setup(model=model)

    @property
    def optimizer(self) -> Optimizer:
        """The first optimizer of the copy."""
        return self.optimizers[0]

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None:
        self.optimizers = [optimizer]

    @property
    def loss_fn(self) -> Any:
        """The loss of the copy."""
        return self.setup.loss_fn

    @loss_fn.setter
    def loss_fn(self, loss_fn: Any) -> None:
        self.change_setup(loss_fn=loss_fn)

    @property
    def train_loader(self) -> Any:
        """The training loader."""
        return self.setup.train_loader

    @train_loader.setter
    def train_loader(self, loader: Any) -> None:
        self.change_setup(train_loader=loader)

    @property
    def val_loader(self) -> Any:
        """The validation loader."""
        return self.setup.val_loader

    @val_loader.setter
    def val_loader(self, loader: Any) -> None:
        self.change_setup(val_loader=loader)

    def train_new_parameters(self, known: Collection[int]) -> None:
        """Let the optimizers train what a change has added to the model, and forget what it has removed.

        ``known`` are the ids of the parameters before the change; of those, the optimizers train the same as before.
        """
        present = {id(p): p for p in self.trainable.trainable}
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["params"] = [p for p in group["params"] if id(p) in present or id(p) not in known]
        held = set(map(id, optimized_parameters(*self.optimizers)))
        added = [p for key, p in present.items() if key not in held and key not in known]
        if added and self.optimizers:
            settings = {name: value for name, value in self.optimizer.param_groups[0].items() if name != "params"}
            self.optimizer.add_param_group({**settings, "params": added})

    def change_setup(self, **changes: Any) -> None:
        """Replace parts of the setup."""
        self.trainable = TrainableSetup(replace(self.setup, **changes), self.trainable.copies)

    def change_loss(self, loss_of: Callable[[Any, Any, Callable[..., Any]], Any]) -> None:
        """Compute the loss by ``loss_of(output, target, loss_fn)``; called for losses of one output and one target."""
        loss_fn: Any = self.setup.loss_fn
        self.change_setup(loss_fn=lambda output, target: loss_of(output, target, loss_fn))

    def change_inputs(self, input_of: Callable[[Tensor, int], Tensor]) -> None:
        """Pass ``input_of(tensor, position)`` to the model instead of each positional input tensor."""
        predict = self.setup.forward

        def forward(model: nn.Module, inputs: Any) -> Any:
            parts = inputs if isinstance(inputs, tuple) else (inputs,)
            changed = tuple(
                input_of(part, position) if isinstance(part, Tensor) else part for position, part in enumerate(parts)
            )
            if predict is not None:
                return predict(model, changed if isinstance(inputs, tuple) else changed[0])
            return model(*changed)

        self.change_setup(forward=forward)

    def change_groups(self, **settings: Any) -> bool:
        """Set settings of all parameter groups that have them; return whether one of them had another value."""
        changed = False
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for name, value in settings.items():
                    if name in group and group[name] != value:
                        group[name], changed = value, True
        return changed
