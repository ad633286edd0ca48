"""The setup inside a LightningModule and the data that it is fitted to."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup.unpacking import call_signature
from nbdebug.trainer_setups.training_step import find_model_and_loss


def read_lightning(module: Any, train_dataloaders: Any, val_dataloaders: Any, datamodule: Any) -> dict[str, Any]:
    """Return the arguments of a Debugger for what ``Trainer.fit`` gets, without changing it.

    The optimizers are those that ``configure_optimizers`` returns; there are none if it needs a trainer. Raises
    SetupError without training data.
    """
    if hasattr(train_dataloaders, "train_dataloader"):
        train_dataloaders, datamodule = None, train_dataloaders
    with Preserve():  # random splits of the data are made again by the trainer
        if train_dataloaders is None:
            train_dataloaders, val_dataloaders = _read_data(module, datamodule)
        optimizers, schedulers = _read_optimizers(module)
    return read_running_module(module, train_dataloaders, val_dataloaders, optimizers, schedulers)


def read_running_module(
    module: Any, train_dataloaders: Any, val_dataloaders: Any, optimizers: Any, schedulers: Any
) -> dict[str, Any]:
    """Return the arguments of a Debugger for a module and the loaders and optimizers of its trainer."""
    train_loader, val_loader = _first_loader(train_dataloaders), _first_loader(val_dataloaders)
    model_and_loss = {"model": module}
    if train_loader is not None and module.automatic_optimization:
        with _silent_logs(module):
            model_and_loss = find_model_and_loss(module, _training_step(module), train_loader)
    return {
        **model_and_loss,
        "train_loader": () if train_loader is None else train_loader,
        "val_loader": val_loader,
        "optimizer": optimizers or None,
        "scheduler": schedulers or None,
    }


def _read_data(module: Any, datamodule: Any) -> tuple[Any, Any]:
    """Return the loaders of a data module, of which a copy is set up, or of the module itself."""
    if datamodule is None:
        source = module
    else:
        source = copy.copy(datamodule)
        source.prepare_data()
        source.setup("fit")
    try:
        loaders = source.train_dataloader(), source.val_dataloader()
    except Exception as error:
        raise SetupError(
            f"the training data is missing ({type(error).__name__}: {error}); expected loaders or a data module. "
            f"Pass what you pass to Trainer.fit."
        ) from error
    return loaders


def _first_loader(dataloaders: Any) -> Any:
    """Return a loader, the first one of a list, or None for any other collection, whose batches are combined."""
    if isinstance(dataloaders, (list, tuple)):
        return dataloaders[0] if dataloaders else None
    return dataloaders if isinstance(dataloaders, Iterable) and not isinstance(dataloaders, dict) else None


def _read_optimizers(module: Any) -> tuple[list[Any], list[Any]]:
    """Return the optimizers and schedulers in one of the forms that ``configure_optimizers`` may return."""
    try:
        configuration = module.configure_optimizers()
    except Exception:  # it may need a trainer, which is not attached yet
        return [], []
    if isinstance(configuration, tuple) and len(configuration) == 2 and isinstance(configuration[0], (list, tuple)):
        optimizers, schedulers = list(configuration[0]), configuration[1]
        schedulers = schedulers if isinstance(schedulers, (list, tuple)) else [schedulers]
    else:
        items = list(configuration) if isinstance(configuration, (list, tuple)) else [configuration]
        entries = [item if isinstance(item, dict) else {"optimizer": item} for item in items if item is not None]
        optimizers = [entry["optimizer"] for entry in entries]
        schedulers = [entry["lr_scheduler"] for entry in entries if "lr_scheduler" in entry]
    return optimizers, [item["scheduler"] if isinstance(item, dict) else item for item in schedulers]


def _training_step(module: Any) -> Any:
    """Return the training step as a function of a batch."""
    _, argument_count, _ = call_signature(module.training_step)
    return lambda batch: module.training_step(*(batch, 0)[:argument_count])


@contextmanager
def _silent_logs(module: Any) -> Iterator[None]:
    """Drop what a module logs within the block: Lightning refuses it outside of its own loop."""
    names = [name for name in ("log", "log_dict") if name not in vars(module)]
    for name in names:
        setattr(module, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name in names:
            delattr(module, name)
