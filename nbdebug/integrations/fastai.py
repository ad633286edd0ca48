"""A callback for the Learner of fastai."""

from __future__ import annotations

from functools import partial

from fastai.callback.core import Callback, CancelFitException
from fastai.learner import Recorder

from nbdebug.integrations.trainer_watch import TrainerWatch
from nbdebug.trainer_setups.fastai import ObservableOptimizer, read_learner


class FastaiWatch(TrainerWatch, Callback):
    """Watches each ``fit``: ``learn.fit(3, cbs=FastaiWatch())``, and not ``lr_find``."""

    order = Recorder.order + 10  # the recorder computes the metrics first
    optimizer: ObservableOptimizer | None = None
    is_stop_requested = False

    def before_fit(self) -> None:
        """Begin to watch."""
        if hasattr(self.learn, "lr_finder"):
            return
        arguments = read_learner(self.learn)
        self.is_stop_requested = False
        self.begin_run(arguments, partial(setattr, self, "is_stop_requested", True))
        if isinstance(arguments["optimizer"], ObservableOptimizer):
            self.optimizer = arguments["optimizer"]
            self.optimizer.open()

    def before_step(self) -> None:
        """Take the hyperparameters of this step."""
        if self.optimizer is not None:
            self.optimizer.update_groups()

    def after_batch(self) -> None:
        """End the fit if the user has asked for it."""
        if self.is_stop_requested:
            raise CancelFitException

    def after_epoch(self) -> None:
        """Record the validation loss and the metrics."""
        recorder = self.learn.recorder
        values = dict(zip(recorder.metric_names[1:], recorder.log[1:], strict=False))
        self.log_validation({name: value for name, value in values.items() if name != "time"})

    def after_fit(self) -> None:
        """End the run."""
        self.end_run()

    def run_ended(self) -> None:
        """Give the optimizer its own steps back."""
        if self.optimizer is not None:
            self.optimizer.close()
            self.optimizer = None
