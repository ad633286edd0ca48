"""A callback for the nets of skorch."""

from __future__ import annotations

from typing import Any

from skorch.callbacks import Callback

from nbdebug.integrations.trainer_calls import find_variables
from nbdebug.integrations.trainer_watch import TrainerWatch
from nbdebug.trainer_setups.training_step import find_model_and_loss


class SkorchWatch(TrainerWatch, Callback):
    """Watches each ``fit``: ``NeuralNetClassifier(..., callbacks=[SkorchWatch()])``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of this callback, with which ``sklearn.clone`` makes another one."""
        return {"debugger": self.own_debugger, **self.watch_options}

    def on_epoch_begin(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Begin to watch with the first epoch: skorch makes its loaders after ``on_train_begin``."""
        if self.is_running:
            return
        variables = find_variables("fit_loop")
        train_loader = variables.get("iterator_train", net.get_iterator(dataset_train, training=True))

        def step(batch: Any) -> Any:
            return net.get_loss(net.infer(batch[0]), batch[1], X=batch[0], training=True)

        arguments = find_model_and_loss(net.module_, step, train_loader)
        if arguments.pop("step_fn", None) is not None:  # a loss that the class of the net computes
            arguments["loss_fn"] = net.get_loss
        loaders = {"train_loader": train_loader, "val_loader": variables.get("iterator_valid")}
        self.begin_run({**arguments, **loaders, "optimizer": net.optimizer_}, None, net)

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Record the scores of the validation."""
        scores = {name: value for name, value in net.history[-1].items() if name.startswith("valid")}
        self.log_validation({name: value for name, value in scores.items() if not isinstance(value, bool)})

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """End the run."""
        self.end_run()
