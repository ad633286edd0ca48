"""The training set-up under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nbdebug.exceptions import SetupError
from nbdebug.setup import loaders, losses, task, unpack
from nbdebug.setup.batch import Batch


@dataclass
class Setup:
    """What a user trains with: model, loaders, loss, optimizers and schedule, and how a batch goes through them.

    ``forward(model, inputs)`` calls the model, ``unpack(batch)`` gives ``(inputs, target)``, ``step_fn(batch)`` gives
    the loss of a whole batch; each replaces the guess that is made without it. Raises SetupError for what is unusable.
    """

    model: nn.Module
    train_loader: Any
    val_loader: Any = None
    loss_fn: Callable[..., Any] | None = None
    optimizers: tuple[torch.optim.Optimizer, ...] = ()
    scheduler: Any = None
    task: task.Task | None = None
    class_names: list[str] | None = None
    feature_names: list[str] | None = None
    forward: Callable[..., Any] | None = None
    unpack: Callable[[Any], Any] | None = None
    step_fn: Callable[[Any], Any] | None = None
    device: torch.device | None = None
    extra_state: tuple[Any, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Refuses what can never work, at the call that brought it."""
        if not isinstance(self.model, nn.Module):
            raise SetupError(f"model is {kind(self.model)}; expected a torch.nn.Module. Pass the module.")
        if self.loss_fn is not None and (isinstance(self.loss_fn, type) or not callable(self.loss_fn)):
            raise SetupError(f"loss_fn is {kind(self.loss_fn)}; expected what takes output and target. Pass the loss.")
        self.check_parameters()
        self.train_loader = loaders.wrapped(self.train_loader, "train_loader")
        self.val_loader = loaders.wrapped(self.val_loader, "val_loader")
        if self.train_loader is None:
            raise SetupError("train_loader is None; expected an iterable of batches. Pass the loader you train on.")

    def check_parameters(self) -> None:
        """Refuses a model without parameters, with lazy ones, or on a device that holds no data."""
        found = list(self.model.named_parameters())
        if not found:
            raise SetupError("model has 0 parameters; expected at least one. Register its layers as attributes.")
        if lazy := [name for name, p in found if is_lazy(p)]:
            raise SetupError(f"{lazy[0]} has no shape yet; expected one. Run one batch through the model first.")
        homes = {p.device for _, p in found}
        if torch.device("meta") in homes:
            raise SetupError("model is on the meta device; expected one with data. Load its weights first.")
        if self.device is not None and self.device.type not in {home.type for home in homes}:
            where, wanted = homes.pop(), str(self.device)
            raise SetupError(f"model is on {where}; expected {wanted}, as device= says. Call model.to({wanted!r}).")

    @property
    def eager(self) -> nn.Module:
        """The model as Python code: what ``torch.compile`` wrapped, else the model itself."""
        inner = getattr(self.model, "_orig_mod", self.model)
        return inner if isinstance(inner, nn.Module) else self.model

    @property
    def has_data(self) -> bool:
        """Whether there is training data; a model alone comes with an empty tuple."""
        return not (isinstance(self.train_loader, tuple) and not self.train_loader)

    @property
    def home(self) -> torch.device:
        """Where batches go: the given device, else that of the first parameter."""
        return self.device or next(self.model.parameters()).device

    @property
    def owned(self) -> tuple[Any, ...]:
        """All that a run can change, beside the loaders."""
        loss = self.loss_fn if isinstance(self.loss_fn, nn.Module) else None
        return (self.model, loss, *self.optimizers, self.scheduler, *self.extra_state)

    def loader_of(self, dataset: Any) -> Any:
        """The loader that reads this very data set, that of validation before that of training; None for another."""
        given = (self.val_loader, self.train_loader)
        return next((one for one in given if getattr(one, "dataset", None) is dataset), None)

    def batches(self, count: int, split: str = "train") -> Iterator[Batch]:
        """Up to ``count`` batches of a split, on the model's device; the user's loader keeps them all."""
        loader = self.train_loader if split == "train" else self.val_loader
        for raw, indices in loaders.batches(loader, count, f"{split}_loader"):
            yield self.split(raw, indices)

    def split(self, raw: Any, indices: tuple[int, ...] | None = None) -> Batch:
        """A raw batch as inputs and targets, on the model's device."""
        if self.unpack is not None:
            batch = unpack.given(self.unpack(raw))
        else:
            batch = unpack.guess(raw, self.eager, self.loss_fn)
        return replace(batch, indices=indices, raw=raw).to(self.home)

    def predict(self, batch: Batch, model: nn.Module | None = None) -> Any:
        """The output for a batch, of this model or of a copy of it."""
        model = self.eager if model is None else model
        if self.forward is not None:
            return self.forward(model, batch.inputs)
        return model(*batch.args, **batch.kwargs)

    def loss(self, output: Any, batch: Batch) -> Tensor:
        """The user's own loss of an output; raises SetupError where it is no scalar tensor."""
        value = self.loss_of(output, batch)
        if not isinstance(value, Tensor):
            raise SetupError(f"the loss is a {type(value).__name__}; expected a scalar tensor. Drop .item().")
        if value.numel() != 1:
            shape = tuple(value.shape)
            raise SetupError(f"the loss has shape {shape}; expected a scalar. Use reduction='mean', or .mean().")
        return value

    def loss_of(self, output: Any, batch: Batch) -> Any:
        """What the user's loss returns: ``loss_fn``, else the loss that the model computed itself."""
        if self.loss_fn is not None:
            known = losses.named(self.loss_fn)
            given = losses.scores(output) if known != "other" else output
            return self.loss_fn(given, *losses.met(known, given, batch.targets))
        own = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        if own is None and isinstance(output, Tensor) and output.numel() == 1:
            own = output
        if own is None:
            raise SetupError("loss_fn is None and the model returns no loss; expected either. Pass loss_fn=.")
        return own

    def run(self, batch: Batch, model: nn.Module | None = None) -> tuple[Any, Tensor]:
        """Output and loss of one batch; with a ``step_fn`` the output is not seen and is None."""
        if self.step_fn is not None:
            return None, self.loss_value(self.step_fn(batch.raw))
        output = self.predict(batch, model)
        return output, self.loss(output, batch)

    def loss_value(self, value: Any) -> Tensor:
        """A loss that ``step_fn`` gave; raises SetupError where it is no scalar tensor."""
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise SetupError(f"step_fn returned {kind(value)}; expected a scalar tensor. Return the loss of the batch.")
        return value


def kind(value: Any) -> str:
    """What a value is, in words."""
    return f"the class {value.__name__}, not made yet" if isinstance(value, type) else f"a {type(value).__name__}"


def as_optimizers(given: Any) -> tuple[torch.optim.Optimizer, ...]:
    """One optimizer, several, or none, as a tuple; raises SetupError for anything else."""
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, Iterable) else (given,)
    for one in several:
        if not isinstance(one, torch.optim.Optimizer):
            raise SetupError(
                f"optimizer is {kind(one)}; expected a torch.optim.Optimizer or a list of them. "
                f"Pass what you call step() on."
            )
    return several
