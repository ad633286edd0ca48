"""The setup inside a Learner of fastai."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from nbdebug.setup.setup import unwrap_optimizer
from nbdebug.trainer_setups.training_step import find_model_and_loss

_TORCH_NAMES = {"lr": "lr", "mom": "momentum", "wd": "weight_decay", "eps": "eps"}


def read_learner(learner: Any) -> dict[str, Any]:
    """Return the arguments of a Debugger for a Learner that is about to fit."""
    train_loader = _as_torch_loader(learner.dls.train)

    def step(batch: Any) -> Any:
        inputs = getattr(learner.dls, "n_inp", max(len(batch) - 1, 1))
        return learner.loss_func(learner.model(*batch[:inputs]), *batch[inputs:])

    arguments = find_model_and_loss(learner.model, step, train_loader)
    if arguments.pop("step_fn", None) is not None:  # a loss that flattens its operands
        arguments["loss_fn"] = learner.loss_func
    optimizer = learner.opt if unwrap_optimizer(learner.opt) else ObservableOptimizer(learner.opt)
    val_loader = _as_torch_loader(learner.dls.valid) if len(learner.dls.loaders) > 1 else None
    return {**arguments, "train_loader": train_loader, "val_loader": val_loader, "optimizer": optimizer}


def _as_torch_loader(loader: Any) -> Any:
    """Return a DataLoader of torch with the batches of one of fastai; any other loader as it is.

    Its samples have indices, and reading it leaves the generator of fastai alone.
    """
    if isinstance(loader, DataLoader) or not loader.indexed or loader.bs is None:
        return loader

    def collate(samples: list[Any]) -> Any:
        batch = loader.do_batch([loader.after_item(sample) for sample in samples])
        return loader.after_batch(batch)

    options = {"batch_size": loader.bs, "shuffle": loader.shuffle, "drop_last": loader.drop_last}
    torch_loader = DataLoader(loader.dataset, collate_fn=collate, **options)
    torch_loader.iterated_loader = loader.fake_l  # the loop draws its batches from this
    return torch_loader


class ObservableOptimizer(torch.optim.Optimizer):
    """Stands for an optimizer of fastai's own, whose steps the hooks of torch do not see.

    Between ``open`` and ``close``, the steps of the fastai optimizer pass through this one.
    """

    def __init__(self, original: Any) -> None:
        self.original = original
        super().__init__(self._read_groups(), {})
        self.state = original.state

    def _read_groups(self) -> list[dict[str, Any]]:
        """Return the parameter groups with the names of torch."""
        groups: list[dict[str, Any]] = []
        for parameters, hypers in zip(self.original.param_lists, self.original.hypers, strict=True):
            options = {_TORCH_NAMES[name]: value for name, value in hypers.items() if name in _TORCH_NAMES}
            groups.append({"params": list(parameters), **options})
        return groups

    def open(self) -> None:
        """Let the steps of the original pass through this optimizer."""
        self.original.step, self.original.zero_grad = self.step, self._clear_gradients

    def close(self) -> None:
        """Give the original its own methods back."""
        vars(self.original).pop("step", None)
        vars(self.original).pop("zero_grad", None)

    def step(self, closure: Any = None) -> Tensor | None:  # type: ignore[override]
        """Step the original, whose hyperparameters may have been scheduled."""
        type(self.original).step(self.original, closure)
        return None

    def update_groups(self) -> None:
        """Take the present hyperparameters of the original."""
        for group, present in zip(self.param_groups, self._read_groups(), strict=True):
            group.update({name: value for name, value in present.items() if name != "params"})

    def _clear_gradients(self) -> None:
        self.zero_grad(set_to_none=False)
