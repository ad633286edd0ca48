"""A callback for the Trainer of Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from lightning.pytorch import Callback

from nbdebug.integrations.trainer_watch import TrainerWatch
from nbdebug.trainer_setups.lightning import read_running_module


class LightningWatch(TrainerWatch, Callback):
    """Watches each ``fit``: ``Trainer(callbacks=[LightningWatch()])``."""

    former_metrics: Mapping[str, Any] = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch."""
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        loaders = trainer.train_dataloader, trainer.val_dataloaders
        arguments = read_running_module(pl_module, *loaders, trainer.optimizers, schedulers)
        self.begin_run(arguments, partial(setattr, trainer, "should_stop", True), pl_module, trainer.datamodule)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Take the metrics before the validation, among which are those of training."""
        self.former_metrics = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the metrics that the module has logged in this validation."""
        metrics, former = trainer.callback_metrics, self.former_metrics
        self.log_validation({name: value for name, value in metrics.items() if value is not former.get(name)})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the run."""
        self.end_run()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the run with the exception."""
        self.end_run(exception)
