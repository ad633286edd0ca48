"""A handler for the engines of PyTorch-Ignite."""

from __future__ import annotations

from typing import Any

from ignite.engine import Engine, Events

from nbdebug.exceptions import SetupError
from nbdebug.integrations.trainer_watch import TrainerWatch
from nbdebug.setup.loaders import unwrap_loader


class IgniteWatch(TrainerWatch):
    """Watches each ``run`` of an engine that trains: ``IgniteWatch(dbg).attach(trainer, evaluator)``.

    An engine does not know the model that it trains, so a Debugger is needed.
    """

    def attach(self, trainer: Engine, evaluator: Engine | None = None) -> IgniteWatch:
        """Add the handlers to the engine that trains, and to the one that computes the metrics of validation.

        Raises SetupError without a Debugger.
        """
        if self.own_debugger is None:
            raise SetupError("debugger is None; expected a Debugger. Write IgniteWatch(nbdebug.Debugger(...)).")
        trainer.add_event_handler(Events.STARTED, self._begin)
        trainer.add_event_handler(Events.COMPLETED, self._end)
        if evaluator is not None:
            evaluator.add_event_handler(Events.COMPLETED, self._log)
        return self

    def _begin(self, engine: Any) -> None:
        self.begin_run({"train_loader": engine.state.dataloader}, engine.terminate)

    def _log(self, engine: Any) -> None:
        val_loader = self.debugger.setup.val_loader
        if val_loader is None or unwrap_loader(engine.state.dataloader) is val_loader:
            self.log_validation(engine.state.metrics)

    def _end(self, engine: Any) -> None:
        self.end_run()
