"""A callback for the Trainer of Transformers."""

from __future__ import annotations

from functools import partial
from typing import Any

from transformers import Trainer, TrainerCallback

from nbdebug.integrations.trainer_calls import find_caller
from nbdebug.integrations.trainer_watch import TrainerWatch
from nbdebug.trainer_setups.transformers import read_running_trainer

_TIMES = ("_runtime", "_per_second", "epoch")


class TransformersWatch(TrainerWatch, TrainerCallback):
    """Watches each ``train``: ``Trainer(..., callbacks=[TransformersWatch()])``."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to watch."""
        trainer = find_caller(Trainer)
        loader, optimizer, scheduler = (kwargs[name] for name in ("train_dataloader", "optimizer", "lr_scheduler"))
        arguments = read_running_trainer(trainer, loader, optimizer, getattr(scheduler, "scheduler", scheduler))
        self.begin_run(arguments, partial(setattr, control, "should_training_stop", True), trainer)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        """Record the metrics of the evaluation."""
        self.log_validation({name: value for name, value in (metrics or {}).items() if not name.endswith(_TIMES)})

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the run."""
        self.end_run()
