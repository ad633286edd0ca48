"""A watch that begins and ends with the runs of a trainer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.integrations.trainer_calls import TrainerCall, at_end_of_cell
from nbdebug.options import StopOn, check_option_names
from nbdebug.setup import Setup
from nbdebug.setup.setup import as_optimizers
from nbdebug.source.location import get_definition_line
from nbdebug.validation import describe_type
from nbdebug.watching.optimizer_steps import Match
from nbdebug.watching.result import WatchResult
from nbdebug.watching.run_controls import check_controls
from nbdebug.watching.time_budget import TimeBudget

_LOSS_NAME = re.compile(r"(?<![a-z])(loss|nll)(?![a-z])", re.IGNORECASE)
_TRAINING_NAME = re.compile(r"(?<![a-z])train", re.IGNORECASE)
_running: list[TrainerWatch] = []


class TrainerWatch:
    """Watches each run of a trainer, like ``with dbg.watch():`` around it; the options are those of ``dbg.watch``.

    Without a Debugger, one is made of the objects of the trainer when a run begins. Raises SetupError for options that
    cannot be used.
    """

    @check_option_names()
    def __init__(
        self,
        debugger: Debugger | None = None,
        *,
        budget: float | None = None,
        every: int | None = None,
        match: Match = None,
        save: str | Path | None = None,
        trackers: Any = (),
        stop_on: StopOn | None = None,
        on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None,
        final_tests: bool = True,
    ) -> None:
        if not (debugger is None or isinstance(debugger, Debugger)):
            raise SetupError(f"debugger is {describe_type(debugger)}; expected a Debugger. Pass it, or leave it out.")
        TimeBudget(budget, every)
        check_controls(stop_on, on_finding)
        self.watch_options: dict[str, Any] = {
            **{"budget": budget, "every": every, "match": match, "save": save, "trackers": trackers},
            **{"stop_on": stop_on, "on_finding": on_finding, "final_tests": final_tests},
        }
        self.own_debugger, self.run_debugger = debugger, debugger
        self.call: TrainerCall | None = None

    @property
    def debugger(self) -> Debugger:
        """The Debugger of the last run; raises SetupError before the first one if none was passed."""
        self.end_abandoned_run()
        if self.run_debugger is None:
            raise SetupError(
                "debugger is None before the first run; expected a Debugger. Fit the model with this callback."
            )
        return self.run_debugger

    @property
    def result(self) -> WatchResult | None:
        """The result of the last run; None before its end."""
        watch = self.debugger.watched
        return watch.result if watch is not None else None

    @property
    def is_running(self) -> bool:
        """True from the beginning of a run to its end."""
        return self in _running

    def begin_run(self, arguments: Mapping[str, Any], stop: Callable[[], None] | None, *owners: object) -> None:
        """Begin to watch a run; ``arguments`` are those of a Debugger for the objects of the trainer.

        ``stop`` ends the loop of the trainer at the end of a step; without it, an interrupt does. The classes of the
        ``owners`` contain code of the loop. Raises SetupError if another callback watches this run.
        """
        _end_abandoned_runs()
        if _running:
            raise SetupError(
                "this run has two callbacks of nbdebug; expected one. Remove one from the list of callbacks."
            )
        debugger = self.own_debugger
        if debugger is None:
            debugger = Debugger(**arguments)
        else:
            debugger.setup = _with_objects_of_run(debugger.setup, arguments)
        debugger.setup.files |= {file for owner in owners for file in _class_files(owner)}
        watch = debugger.watch(**self.watch_options)
        watch.on_stop = stop
        self.run_debugger, self.call = debugger, TrainerCall()
        watch.__enter__()
        _running.append(self)
        at_end_of_cell(_end_abandoned_runs)

    def log_validation(self, metrics: Mapping[str, Any]) -> None:
        """Record the metrics of a validation pass that has ended."""
        if self not in _running or self.run_debugger is None or (watch := self.run_debugger.watched) is None:
            return
        values = {name: value for name, value in metrics.items() if not _TRAINING_NAME.search(name)}
        numbers = {name: number for name, value in values.items() if (number := _as_number(value)) is not None}
        loss_name = next((name for name in numbers if _LOSS_NAME.search(name)), None)
        if loss_name is not None:
            watch.log_validation_loss(numbers.pop(loss_name))
        if numbers:
            watch.log(**numbers)

    def end_run(self, error: BaseException | None = None, *, is_complete: bool = True) -> None:
        """End the run, perhaps with the exception that ended it; a run that is not complete is not tested."""
        if self not in _running or self.run_debugger is None or (watch := self.run_debugger.watched) is None:
            return
        _running.remove(self)
        self.call = None
        self.run_ended()
        watch.is_stopped = watch.is_stopped or bool(watch.controls.stop_reason) or not is_complete
        watch.__exit__(type(error) if error is not None else None, error, None)

    def run_ended(self) -> None:
        """Undo what a callback has done to the trainer for a run."""

    def end_abandoned_run(self) -> None:
        """End the run if its trainer has ended by an exception, which most trainers tell no callback."""
        if self.call is not None and not self.call.is_active:
            error = self.call.exception
            self.end_run(error, is_complete=error is not None)


def _end_abandoned_runs() -> None:
    """End all runs whose trainer has ended by an exception."""
    for watch in tuple(_running):
        watch.end_abandoned_run()


def _with_objects_of_run(setup: Setup, arguments: Mapping[str, Any]) -> Setup:
    """Return a setup with the loaders, optimizers and schedulers of a run, which a trainer may make when it begins."""
    present = {name: arguments.get(name) for name in ("train_loader", "val_loader", "scheduler")}
    changes = {name: value for name, value in present.items() if value is not None and value != ()}
    if optimizers := as_optimizers(arguments.get("optimizer")):
        changes["optimizers"] = optimizers
    return replace(setup, **changes)


def _class_files(owner: object) -> set[str]:
    """Return the files of the methods of the user in the class of an object."""
    methods = (get_definition_line(method) for cls in type(owner).__mro__ for method in vars(cls).values())
    return {line.file for line in methods if line is not None}


def _as_number(value: Any) -> float | None:
    """Return a scalar as a number; None for any other value."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
