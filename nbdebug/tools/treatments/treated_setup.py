"""A copy of the user's setup that one trial trains, and that a treatment changes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import LossKind
from nbdebug.training.model_copy import TrainableSetup


@dataclass
class TreatedSetup:
    """A copy of a setup with fresh optimizers; a treatment changes it before the first step.

    ``batches`` are some training batches of the user, from which a treatment may measure statistics.
    ``prediction_of`` converts an output of the treated model to the units of the targets. ``samples_per_step`` is
    relative to the user's batches: 0.25 if a step takes a quarter of their samples.
    """

    trainable: TrainableSetup
    optimizers: list[Optimizer]
    batches: list[Batch]
    loss_kind: LossKind
    max_norm: float | None = None
    samples_per_step: float = 1.0
    prediction_of: Callable[[Any], Any] = lambda output: output

    @property
    def setup(self) -> Setup:
        """The setup of the copy."""
        return self.trainable.setup

    @property
    def model(self) -> nn.Module:
        """The copied model."""
        return self.setup.eager_model

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
