"""A watch that begins by itself at the first training pass of a running script."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError, first_line
from nbdebug.hooks.training_events import observe_batches, observe_call_arguments, observe_results
from nbdebug.report import Report, merge_reports
from nbdebug.result import Result
from nbdebug.rule_engine.crash_rules import explain_crash
from nbdebug.scripts.discovery import TrainingObjects, discover, is_held_out_name, names_of, updates
from nbdebug.watching.watch import Watch


class WatchedScript:
    """Waits for the first training pass of a script, then checks its setup and watches its loop.

    A training pass is a call of a module with gradients enabled, by which an optimizer that exists trains. The first
    such module is watched to the end of the script. Errors of the debugger itself go to ``trouble``, and never end the
    script.
    """

    def __init__(self, runs_checkup: bool = True, **watch_options: Any) -> None:
        self.runs_checkup, self.watch_options = runs_checkup, watch_options
        self.objects: TrainingObjects | None = None
        self.debugger: Debugger | None = None
        self.watch: Watch | None = None
        self.trouble = ""
        self._optimizers: WeakSet[torch.optim.Optimizer] = WeakSet()
        self._last_loader: DataLoader[Any] | None = None
        self._last_batch: tuple[Any, Any, float] | None = None
        self._hooks = ExitStack()

    def begin(self) -> None:
        """Wait for the first training pass."""
        observers = [
            observe_results(torch.optim.Optimizer, "__init__", lambda call: self._optimizers.add(call[0])),
            observe_results(DataLoader, "__iter__", self._take_loader),
            observe_batches(partial(setattr, self, "_last_batch")),
            observe_call_arguments(nn.Module, "__call__", lambda call: self._take_call(call[0])),
        ]
        for observer in observers:
            self._hooks.enter_context(observer)

    def finish(self, error: BaseException | None) -> None:
        """End the watch at the end of the script, with the exception that ended it."""
        self._hooks.close()
        if self.watch is not None:
            try:
                self.watch.__exit__(type(error) if error is not None else None, error, None)
            except Exception as own_error:
                self.trouble = f"{type(own_error).__name__}: {first_line(own_error)}"

    def report(self, error: BaseException | None) -> Report:
        """Return all findings; before a first training pass, those that explain the exception that ended the script."""
        if self.watch is not None and self.debugger is not None:
            return self.debugger.findings
        crash = explain_crash(error, with_trace=False) if isinstance(error, Exception) else Report()
        reports = self.debugger.reports.values() if self.debugger is not None else ()
        return merge_reports([*reports, crash]).with_stated_consequences()

    def to_dict(self) -> dict[str, Any]:
        """Return the objects that were discovered and a summary of the run as plain data, ready for JSON."""
        parts: dict[str, Any] = {"setup": self.objects.to_dict()} if self.objects is not None else {}
        if self.trouble:
            parts["trouble"] = self.trouble
        if self.watch is not None and self.watch.result is not None:
            parts["run"] = {
                name: value for name, value in self.watch.result.summary().items() if value not in ("", None)
            }
        return parts

    def describe_details(self) -> dict[str, str]:
        """Return the summary of the model, and the replay of the first step that was not finite, as text."""
        if self.debugger is None or self.watch is None:
            return {}
        details = {}
        for name, run in (("model_summary", self.debugger.summary), ("replay", self.watch.replay)):
            try:
                result: Result | None = run()
            except Exception as error:
                details[name] = f"not available: {type(error).__name__}: {first_line(error)}"
            else:
                details[name] = result.to_text() if result is not None else "no step had a value that is not finite"
        return details

    def _take_loader(self, call: tuple[Any, ...]) -> None:
        self._last_loader = call[0]  # a loader that a loop makes for itself has no other reference

    def _take_call(self, module: nn.Module) -> None:
        """Start the watch if this is the first training pass."""
        frame, loader, batch = sys._getframe(1), self._last_loader, self._last_batch
        try:
            if not self._is_training_pass(module, frame):
                return
            self._hooks.close()
            self._last_loader = self._last_batch = None
            self.objects = discover(module, self._optimizers, loader, frame)
            with torch.autocast(next(module.parameters()).device.type, enabled=False):
                self._start(self.objects)
            if batch is not None and self.watch is not None and self.watch.session is not None:
                self.watch.time_budget.attempt("batches", self.watch.session.batch_drawn, batch)
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {first_line(error)}"

    def _is_training_pass(self, module: nn.Module, frame: FrameType) -> bool:
        """Check whether an optimizer trains by a call of a module, and its batch is not one of held-out data."""
        if not (torch.is_grad_enabled() and any(updates(optimizer, module) for optimizer in self._optimizers)):
            return False
        loader = self._last_loader
        return module.training or loader is None or not any(map(is_held_out_name, names_of(loader, frame)))

    def _start(self, objects: TrainingObjects) -> None:
        """Check the setup, and begin to watch the loop."""
        debugger = self.debugger = Debugger(
            objects.model,
            objects.train_loader,
            objects.val_loader,
            loss_fn=objects.loss_fn,
            optimizer=objects.optimizers,
        )
        if self.runs_checkup and debugger.setup.has_training_data:
            try:
                debugger.checkup()
            except SetupError as error:
                self.trouble = f"checkup: {error}"
        self.watch = debugger.watch(**self.watch_options).__enter__()
