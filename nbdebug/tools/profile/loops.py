"""The two loops that can be profiled: the user's own function, and a standard loop over the setup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.source.location import get_code, is_user_code
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile.phases import LoopTimer, call_loop
from nbdebug.training.trainer import BatchStream, needs_closure

_MAX_FUNCTIONS = 50  # of the user's, that the loop calls and whose variables are restored
_MAX_CACHED_BATCHES = 8
SEED = 0


class _TimedStep:
    """A training step that charges its loss to a phase of a timer; forward, backward and optimizer are hooked."""

    def __init__(self, setup: Setup, timer: LoopTimer) -> None:
        self.setup, self.timer, self.plain = setup, timer, TrainingStep(setup)

    def __call__(self, batch: Batch) -> None:
        """Run forward, loss, backward, and a step of every optimizer."""
        with torch.enable_grad(), UserCodeErrors(lambda: f"in step {self.timer.ended_steps}"):
            if any(map(needs_closure, self.setup.optimizers)):
                with self.timer.charge("python"):
                    self.plain.step(batch)
                return
            with self.timer.charge("optimizer"):
                self.plain.clear()
            self.loss(batch).backward()  # type: ignore[no-untyped-call]
            for optimizer in self.setup.optimizers:
                optimizer.step()
        if not self.setup.optimizers:
            self.timer.end_step()

    def loss(self, batch: Batch) -> torch.Tensor:
        """Return the loss of a batch."""
        if self.setup.step_fn is not None:
            with self.timer.charge("python"):
                return self.setup.output_and_loss(batch)[1]
        output = self.setup.predict(batch, self.setup.model)
        with self.timer.charge("loss"):
            return self.setup.loss(output, batch)


class _TimedStream(BatchStream):
    """A stream of batches that charges moving and splitting a batch to a phase of its own."""

    def __init__(self, setup: Setup, timer: LoopTimer) -> None:
        super().__init__(setup, SEED)
        self._timer = timer

    def to_batch(self, raw: Any) -> Batch:
        """Return the parts of a raw batch on the model's device."""
        is_transfer = self.setup.model_device.type != "cpu"
        with self._timer.charge("transfer") if is_transfer else self._timer.exclude():
            return super().to_batch(raw)


def run_standard_loop(setup: Setup, timer: LoopTimer) -> list[Batch]:
    """Train on the batches of the loader until the timer ends the loop, and return the last batches."""
    batches: list[Batch] = []
    step = _TimedStep(setup, timer)
    stream = _TimedStream(setup, timer)

    def loop() -> None:
        while True:
            with timer.charge("data"):
                batch = next(stream)
            batches.append(batch)
            del batches[:-_MAX_CACHED_BATCHES]
            step(batch)

    try:
        with timer.observe():
            call_loop(loop)
    finally:
        stream.close()
    return batches


def replayed(batches: list[Batch]) -> Iterator[Batch]:
    """Yield cached batches again and again, as a perfect loader would."""
    return cycle(batches)


def run_user_loop(train: Callable[[], Any], timer: LoopTimer) -> None:
    """Call the user's loop until the timer ends it; raise SetupError if it makes too few steps."""
    with timer.observe():
        call_loop(train)
    if len(timer.step_times()) < 1:
        raise SetupError(
            f"train() made {timer.ended_steps} optimizer steps; expected at least 4, as the first 3 warm up. "
            "Train on more batches in it."
        )


@contextmanager
def preserve_loop(setup: Setup, train: Callable[[], Any] | None) -> Iterator[None]:
    """Restore the setup, and the variables that the user's loop reads, after the block."""
    with ExitStack() as stack:
        if train is not None:
            functions = _reachable_functions(train)
            stack.callback(_restore_globals, [(function, _global_values(function)) for function in functions])
            stack.enter_context(_preserved_variables(functions))
        stack.enter_context(Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)))
        yield


def _reachable_functions(train: Callable[[], Any]) -> list[FunctionType]:
    """Return the user's functions that a loop calls by name, itself included."""
    pending, functions = [train], list[FunctionType]()
    while pending and len(functions) < _MAX_FUNCTIONS:
        item = pending.pop()
        function = item.__func__ if isinstance(item, MethodType) else item
        code = get_code(function)
        if not isinstance(function, FunctionType) or code is None or not is_user_code(code.co_filename):
            continue
        if function not in functions:
            functions.append(function)
            pending += [value for value in _variables(function) if isinstance(value, (FunctionType, MethodType))]
    return functions


def _variables(function: FunctionType) -> list[Any]:
    """Return the values of the global and the enclosing variables that a function reads, and its defaults."""
    cells = [cell for cell in function.__closure__ or () if _has_contents(cell)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*_global_values(function).values(), *(cell.cell_contents for cell in cells), *defaults]


def _has_contents(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the variable is not assigned yet
        return False


def _global_values(function: FunctionType) -> dict[str, Any]:
    """Return the global variables that a function and the functions inside it name, with their values."""
    names = {name for code in _nested_codes(function.__code__) for name in code.co_names}
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_codes(constant)


def _restore_globals(values: list[tuple[FunctionType, dict[str, Any]]]) -> None:
    """Bind global variables to their earlier values, if the loop bound them to others."""
    for function, earlier in values:
        for name, value in earlier.items():
            if function.__globals__.get(name) is not value:
                function.__globals__[name] = value


@contextmanager
def _preserved_variables(functions: list[FunctionType]) -> Iterator[None]:
    """Restore the objects in variables of the user's functions; objects that cannot be copied are left as they are."""
    ignored = (ModuleType, FunctionType, MethodType, type, str, int, float, bytes, type(None), Setup)
    values = {id(value): value for function in functions for value in _variables(function)}
    objects = [value for value in values.values() if not isinstance(value, ignored) and not _is_debugger_object(value)]
    loaders = [value for value in objects if isinstance(value, DataLoader)]
    others = [value for value in objects if not isinstance(value, DataLoader) and _can_be_copied(value)]
    with Preserve(*others, loaders=loaders):
        yield


def used_up_iterators(train: Callable[[], Any]) -> list[str]:
    """Return the types of the iterators in variables of the user's loop, which it reads and nothing can rewind."""
    values = [value for function in _reachable_functions(train) for value in _variables(function)]
    iterators = [value for value in values if hasattr(value, "__next__") and not isinstance(value, type)]
    return sorted({type(iterator).__name__ for iterator in iterators})


def _is_debugger_object(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == __name__.partition(".")[0]


def _can_be_copied(value: Any) -> bool:
    """Check whether a snapshot of an object can be taken; a file or a writer of logs has none."""
    try:
        with Preserve(value):
            return True
    except Exception:
        return False
