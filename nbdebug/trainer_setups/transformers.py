"""The setup inside a Trainer of Transformers."""

from __future__ import annotations

from typing import Any

from nbdebug.preserve import Preserve
from nbdebug.trainer_setups.training_step import find_model_and_loss


def is_transformers_trainer(trainer: Any) -> bool:
    """Return whether an object is a Trainer of Transformers, or has its methods."""
    return hasattr(trainer, "get_train_dataloader") and hasattr(trainer, "compute_loss")


def read_trainer(trainer: Any) -> dict[str, Any]:
    """Return the arguments of a Debugger for a Trainer before training, without changing it.

    The optimizer is like the one that ``train()`` will make.
    """
    prepared, optimizer = list(trainer.accelerator._dataloaders), trainer.optimizer
    with Preserve():
        try:
            train_loader = trainer.get_train_dataloader()
            return read_running_trainer(trainer, train_loader, trainer.create_optimizer(), None)
        finally:
            trainer.accelerator._dataloaders[:], trainer.optimizer = prepared, optimizer


def read_running_trainer(trainer: Any, train_loader: Any, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    """Return the arguments of a Debugger for a Trainer and the objects that it has made for a run."""
    model = trainer.model

    def step(batch: Any) -> Any:
        return trainer.compute_loss(model, dict(batch))  # it may remove the labels

    return {
        **find_model_and_loss(model, step, train_loader),
        "train_loader": train_loader,
        "val_loader": _read_validation_data(trainer),
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


def _read_validation_data(trainer: Any) -> Any:
    """Return a loader of the validation data; None if there is none, or several sets."""
    if trainer.eval_dataset is None or isinstance(trainer.eval_dataset, dict):
        return None
    prepared = list(trainer.accelerator._dataloaders)
    try:
        with Preserve():
            return trainer.get_eval_dataloader()
    finally:
        trainer.accelerator._dataloaders[:] = prepared
