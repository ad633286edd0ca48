"""Registry of measurements: each is computed once, on first use, from others named by its parameters."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.setup import Batch, Setup

_MEASUREMENTS: dict[str, Callable[..., Any]] = {}
_SLOW_MEASUREMENTS: set[str] = set()
_EXTERNAL_VALUES = {
    "setup": "the setup under test",
    "budget": "the time budget of a checkup: quick, standard or thorough",
    "loop": "the recorded events of your training loop; run it inside `with dbg.watch():`",
    "record": "the recorded statistics of your training loop; run it inside `with dbg.watch():`",
    "ranks": "the reports of all ranks; start the loop by torchrun, and run it inside `with dbg.watch():`",
    "incident": "the replay of a step of your loop whose loss or gradient was not finite; None if there was none",
    "overfit": "the result of the tiny-batch overfit test; run dbg.overfit()",
    "errors": "the predictions of the error browser; run dbg.errors()",
    "lr_range": "the result of the learning rate range test; run dbg.lr_range()",
    "importance": "the feature importance; run dbg.importance()",
    "changes": "what differs from an earlier snapshot; run dbg.changes_since(before)",
    "checkpoint": "the check of a checkpoint; run dbg.check_checkpoint(path)",
    "repeatable": "the comparison of two runs from the same state; run dbg.repeatable()",
    "treatments": "the treatments tried on copies; run dbg.treatments()",
    "profile": "the profile of a training step; run dbg.profile()",
}
TOOL_RESULTS = frozenset(_EXTERNAL_VALUES) - {"setup", "budget", "loop", "record", "ranks", "incident"}
MAX_BATCHES, _MAX_BATCHES_QUICK = 4, 1
TOO_SLOW_FOR_QUICK = "it takes longer than budget='quick' allows"


@cache
def import_submodules(package_name: str) -> None:
    """Import every module of a package, once, to register the rules or measurements in them."""
    package = importlib.import_module(package_name)
    for module in pkgutil.walk_packages(package.__path__, f"{package_name}."):
        importlib.import_module(module.name)


def measurement(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as the measurement of its name; its parameters name the measurements it depends on."""
    _MEASUREMENTS[function.__name__] = function
    return function


@cache
def measurement_descriptions() -> dict[str, str]:
    """Return all measurement names, each with a one-line description."""
    import_submodules("nbdebug.measurements")
    descriptions = {name: (inspect.getdoc(function) or "").split("\n")[0] for name, function in _MEASUREMENTS.items()}
    return dict(sorted({**_EXTERNAL_VALUES, **descriptions}.items()))


def slow_measurement(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a measurement that runs the model again or reads all data; a quick checkup skips it."""
    _SLOW_MEASUREMENTS.add(function.__name__)
    return measurement(function)


@cache
def is_slow(name: str) -> bool:
    """Return whether a measurement, or any measurement it depends on, is slow."""
    return name in _SLOW_MEASUREMENTS or any(map(is_slow, _get_dependencies(name)))


@cache
def _get_dependencies(name: str) -> tuple[str, ...]:
    """Return the measurements that a measurement depends on; empty for external values.

    All are registered first, since the answer is cached.
    """
    measurement_descriptions()
    return tuple(inspect.signature(_MEASUREMENTS[name]).parameters) if name in _MEASUREMENTS else ()


@cache
def _get_optional_dependencies(name: str) -> frozenset[str]:
    """Return the dependencies that are annotated as ``| NotChecked``."""
    parameters = inspect.signature(_MEASUREMENTS[name]).parameters.values()
    return frozenset(item.name for item in parameters if "| NotChecked" in str(item.annotation))


def measurement_closure(names: Iterable[str]) -> set[str]:
    """Return measurements and all that they depend on."""
    return {name for start in names for name in (start, *measurement_closure(_get_dependencies(start)))}


class Measurements(Mapping[str, Any]):
    """Measurements of one setup; ``seconds`` are those that each took, without the measurements that it depends on.

    Read inside a `Preserve` block, since measuring runs the model. Reading a name raises NotChecked with the reason if
    it cannot be measured, and KeyError if it does not exist.
    """

    def __init__(self, setup: Setup, **external_values: Any) -> None:
        self._values: dict[str, Any] = {"setup": setup, "budget": "standard", **external_values}
        self.names = measurement_descriptions()
        self._external = external_values.keys() - {"budget"}
        self.seconds: dict[str, float] = {}
        self._seconds_of_dependencies = 0.0

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(f"measurement is {name!r}; expected one of {', '.join(self.names)}")
        if name not in self._values:
            self._values[name] = self._measure_timed(name)
        value = self._values[name]
        if isinstance(value, NotChecked):
            raise value.without_frames()
        if isinstance(value, SetupError):
            raise value
        return value

    def cost_again(self, names: Iterable[str]) -> float:
        """Return the seconds that some measurements took with all that they depend on; infinity for external values."""
        closure = measurement_closure(names)
        return float("inf") if closure & self._external else sum(self.seconds.get(name, 0.0) for name in closure)

    def get_if_measured(self, name: str) -> Any:
        """Return the value of ``name`` if it has been measured, else None."""
        value = self._values.get(name)
        return None if isinstance(value, (NotChecked, SetupError)) else value

    def _measure_timed(self, name: str) -> Any:
        """Compute the value, and add the seconds that it took without its dependencies to ``seconds``."""
        outer, self._seconds_of_dependencies = self._seconds_of_dependencies, 0.0
        start = time.perf_counter()
        try:
            return self._measure(name)
        finally:
            total = time.perf_counter() - start
            self.seconds[name] = total - self._seconds_of_dependencies
            self._seconds_of_dependencies = outer + total

    def _measure(self, name: str) -> Any:
        """Compute the value; return the error if it cannot be measured."""
        if name not in _MEASUREMENTS:
            return NotChecked(f"needs {_EXTERNAL_VALUES[name]}")
        if self._values["budget"] == "quick" and is_slow(name):
            return NotChecked(TOO_SLOW_FOR_QUICK)
        try:
            return _MEASUREMENTS[name](*(self._read(name, dependency) for dependency in _get_dependencies(name)))
        except NotChecked as reason:
            return reason.without_frames()
        except SetupError as refusal:
            return refusal

    def _read(self, name: str, dependency: str) -> Any:
        """Return what a measurement depends on; the reason if it is unavailable and annotated as ``| NotChecked``."""
        try:
            return self[dependency]
        except (NotChecked, SetupError) as reason:
            if dependency not in _get_optional_dependencies(name):
                raise
            unavailable = NotChecked(*reason.args)
            unavailable.__cause__ = reason.__cause__
            return unavailable

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@measurement
def model(setup: Setup) -> nn.Module:
    """The model under training, as an eager module."""
    return setup.eager_model


@measurement
def optimizers(setup: Setup) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers of the training loop."""
    if not setup.optimizers:
        raise NotChecked("no optimizer was given; pass optimizer=")
    return setup.optimizers


@measurement
def batches(setup: Setup, budget: str) -> list[Batch]:
    """The first batches of the training loader; fewer for a quick checkup."""
    return list(setup.batches(_MAX_BATCHES_QUICK if budget == "quick" else MAX_BATCHES))


@slow_measurement
def val_batches(setup: Setup) -> list[Batch]:
    """The first batches of the validation loader; empty if there is none."""
    return list(setup.batches(MAX_BATCHES, "val")) if setup.val_loader is not None else []
