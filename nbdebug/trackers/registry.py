"""Find the tracker to which an object of the user belongs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nbdebug.trackers.tracker import Tracker
from nbdebug.validation import argument_error

_EXPECTED = "a SummaryWriter, or the run that mlflow.start_run(), wandb.init() or trackio.init() returns"
# Packages that define runs and writers, each with the module and the class of its tracker.
_TRACKERS = {
    "mlflow": ("mlflow", "MLflowTracker"),
    "tensorboardX": ("tensorboard", "TensorBoardTracker"),
    "torch.utils.tensorboard": ("tensorboard", "TensorBoardTracker"),
    "trackio": ("trackio", "TrackioTracker"),
    "wandb": ("wandb", "WandbTracker"),
}


def find_tracker(target: Any) -> Tracker:
    """Return the tracker of an opened run or writer; raises SetupError for anything else."""
    modules = [f"{cls.__module__}." for cls in type(target).__mro__]
    for package, (module, name) in _TRACKERS.items():
        if any(path.startswith(f"{package}.") for path in modules):
            tracker: Tracker = getattr(import_module(f"nbdebug.trackers.{module}"), name)(target)
            return tracker
    raise argument_error("tracker", target, _EXPECTED, "Open one, and pass it")
