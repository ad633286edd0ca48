"""What a program can read of its surroundings: the clock, the operating system, memory; made constant or varied."""

from __future__ import annotations

import concurrent.futures
import datetime
import os
import random
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import torch
from numpy.random import bit_generator
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import get_line_from_frame, is_user_code
from nbdebug.tools.repeatable.hidden_state import HiddenState
from nbdebug.tools.repeatable.ordered_sets import ForwardSet, ReversedSet, stable_hash
from nbdebug.tools.repeatable.patches import LineLog, for_user, logged, replaced, sequence, shadowed

_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_START = 1_700_000_000  # seconds since 1970
# Longer than a day and no whole number of seconds, so that dates, weekdays and fractions of a second change.
_SHIFT, _SPEED = 123_456.789, 3.0
_EMPTY_CALLS = {
    torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty, torch.Tensor.new_empty_strided,
    torch.Tensor.resize_,
}  # fmt: skip
_Block = AbstractContextManager[Any]


class Environment:
    """The namespaces of the user's functions, and the lines that read each source."""

    def __init__(self, setup: Setup, hidden: HiddenState) -> None:
        self.setup, self.hidden = setup, hidden
        self.namespaces = list({id(f.__globals__): f.__globals__ for f in hidden.functions}.values())
        self.logs: dict[str, LineLog] = {}

    def log(self, source: str) -> LineLog:
        """Return the log of a source."""
        if source not in self.logs:
            self.logs[source] = LineLog()
        return self.logs[source]

    def close(self) -> None:
        """Close the files of the logs."""
        for log in self.logs.values():
            log.close()

    def stopped_clock(self) -> _Block:
        """Give the user's code a clock that advances by a millisecond with each call."""
        tick = sequence(0)
        return self._clock(lambda _: _START + tick() / 1000)

    def shifted_clock(self) -> _Block:
        """Give the user's code a clock that is shifted and runs faster."""
        return self._clock(lambda now: _SPEED * now + _SHIFT)

    @contextmanager
    def _clock(self, read: Callable[[float], float]) -> Iterator[None]:
        log = self.log("clock")
        functions: dict[str, Any] = {}
        for name in _CLOCKS:
            real = getattr(time, name)
            functions[name] = for_user(real, lambda real=real: read(real()), log)
            functions[f"{name}_ns"] = for_user(
                getattr(time, f"{name}_ns"), lambda real=real: int(read(real()) * 1e9), log
            )
        now = time.time

        class Datetime(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                log.add(sys._getframe(1))
                return cls.fromtimestamp(read(now()), tz)

            @classmethod
            def utcnow(cls) -> Any:
                log.add(sys._getframe(1))
                return cls.fromtimestamp(read(now()), datetime.timezone.utc).replace(tzinfo=None)

        class Date(datetime.date):
            @classmethod
            def today(cls) -> Any:
                log.add(sys._getframe(1))
                return cls.fromtimestamp(read(now()))

        with (
            replaced(time, functions, self.namespaces),
            replaced(datetime, {"datetime": Datetime, "date": Date}, self.namespaces),
        ):
            yield

    @contextmanager
    def fixed_entropy(self) -> Iterator[None]:
        """Replace the random bits of the operating system, from which unseeded generators take their seeds."""
        log, source = self.log("entropy"), random.Random(0)

        def urandom(size: int) -> bytes:
            return source.randbytes(size)

        def reseed(seed: Any = None, version: int = 2) -> None:
            if seed is None:
                log.add(sys._getframe(1))
            seed_python(source.getrandbits(64) if seed is None else seed, version)

        class Random(random.Random):
            def __init__(self, x: Any = None) -> None:
                if x is None:
                    log.add(sys._getframe(1))
                    self.seed(source.getrandbits(64))

        def torch_seed() -> int:
            log.add(sys._getframe(1))
            return torch.manual_seed(source.getrandbits(60)).initial_seed()

        seed_python = random.seed
        with ExitStack() as stack:
            bits: Any = lambda count: source.getrandbits(count)  # noqa: E731
            for owner, functions in (
                (os, {"urandom": logged(urandom, log)}),
                (random, {"_urandom": logged(urandom, log), "seed": reseed, "Random": Random}),
                (bit_generator, {"randbits": logged(bits, log)}),
                (secrets, {"randbits": logged(bits, log)}),
                (uuid, {"uuid1": uuid.uuid4}),
                (torch, {"seed": torch_seed}),
                (torch.random, {"seed": torch_seed}),
            ):
                stack.enter_context(replaced(owner, functions, self.namespaces))
            yield

    def process_number(self, number: int) -> _Block:
        """Give the user's code a constant number of its process and its threads."""
        log = self.log("process number")
        functions = {"getpid": for_user(os.getpid, lambda: number, log)}
        return replaced(os, functions, self.namespaces)

    @contextmanager
    def set_order(self, is_reversed: bool) -> Iterator[None]:
        """Give the user's code sets that iterate in the order of insertion, or in reverse, and other hashes."""
        log = self.log("hash order")
        kind = ReversedSet if is_reversed else ForwardSet
        functions = {
            "set": kind,
            "frozenset": kind,
            "hash": for_user(hash, lambda value: stable_hash(value, is_reversed), log),
        }
        kind.log = log
        with ExitStack() as stack:
            stack.enter_context(shadowed(functions, self.namespaces))
            for function in self.hidden.functions:
                if any(type(constant) is frozenset for constant in function.__code__.co_consts):
                    stack.callback(setattr, function, "__code__", function.__code__)
                    constants = (kind(c) if type(c) is frozenset else c for c in function.__code__.co_consts)
                    function.__code__ = function.__code__.replace(co_consts=tuple(constants))
            for variable in self.hidden.variables:
                if type(value := variable.read()) in (set, frozenset):
                    stack.callback(variable.write, value)
                    variable.write(kind(value))
            for owner in self.holders():
                for name, value in list(vars(owner).items()):
                    if type(value) in (set, frozenset) and not name.startswith("_"):
                        stack.callback(vars(owner).__setitem__, name, value)
                        vars(owner)[name] = kind(value)
            yield

    def holders(self) -> list[Any]:
        """Return the user's objects whose attributes the step may read."""
        objects = [item for item in user_written_objects(self.setup) if hasattr(item, "__dict__")]
        return [item for item in objects if not isinstance(item, (type, FunctionType))]

    @contextmanager
    def file_order(self, is_reversed: bool) -> Iterator[None]:
        """List the files of a folder in alphabetical order, or in reverse."""
        log, list_files, scan = self.log("file order"), os.listdir, os.scandir

        class Scan:
            def __init__(self, path: Any = ".") -> None:
                with scan(path) as entries:
                    self.entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=is_reversed))

            def __iter__(self) -> Any:
                return self.entries

            def __next__(self) -> Any:
                return next(self.entries)

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def close(self) -> None:
                pass

        def listdir(path: Any = ".") -> Any:
            return sorted(list_files(path), reverse=is_reversed)

        functions = {"listdir": logged(listdir, log), "scandir": logged(Scan, log)}
        with replaced(os, functions, self.namespaces):
            yield

    @contextmanager
    def filled_memory(self, value: float) -> Iterator[None]:
        """Fill uninitialized memory that the user's code asks for, of torch and of NumPy."""
        log = self.log("uninitialized memory")

        def filled(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            array = make(*args, **kwargs)
            if array.dtype.kind in "biufc":
                array.fill(value)
            return array

        makers: dict[str, Any] = {"empty": np.empty, "empty_like": np.empty_like}
        functions = {name: for_user(make, partial(filled, make), log) for name, make in makers.items()}
        with _FilledMemory(value, log), replaced(np, functions, self.namespaces):
            yield

    @contextmanager
    def single_thread(self) -> Iterator[None]:
        """Run each operation on one thread; Preserve restores the number."""
        torch.set_num_threads(1)
        yield

    @contextmanager
    def deterministic(self) -> Iterator[None]:
        """Use deterministic algorithms; Preserve restores the settings."""
        filling: Any = torch.utils.deterministic
        fills, filling.fill_uninitialized_memory = filling.fill_uninitialized_memory, False
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
        try:
            yield
        finally:
            filling.fill_uninitialized_memory = fills

    @contextmanager
    def no_python_threads(self) -> Iterator[None]:
        """Run what the user's code hands to other threads at once, in this one."""
        log = self.log("Python threads")
        submit, start = concurrent.futures.ThreadPoolExecutor.submit, threading.Thread.start

        def run_now(self: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not is_user_code(sys._getframe(1).f_code.co_filename) and get_line_from_frame(sys._getframe(1)) is None:
                return submit(self, function, *args, **kwargs)
            log.add(sys._getframe(1))
            future: Any = concurrent.futures.Future()
            try:
                future.set_result(function(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)
            return future

        def start_now(self: Any) -> None:
            if not is_user_code(sys._getframe(1).f_code.co_filename):
                start(self)
                return
            log.add(sys._getframe(1))
            self.join = lambda timeout=None: None
            self.run()

        with (
            replaced(concurrent.futures.ThreadPoolExecutor, {"submit": run_now}, ()),
            replaced(threading.Thread, {"start": start_now}, ()),
            replaced(
                concurrent.futures, {"as_completed": lambda futures, timeout=None: list(futures)}, self.namespaces
            ),
        ):
            yield

    @contextmanager
    def ordered_workers(self) -> Iterator[None]:
        """Yield the batches of the workers in their order; Preserve restores the loader."""
        vars(self.setup.train_loader)["in_order"] = True
        yield

    @contextmanager
    def no_workers(self) -> Iterator[None]:
        """Read the data in this process; Preserve restores the loader."""
        vars(self.setup.train_loader).update(num_workers=0, persistent_workers=False, prefetch_factor=None, timeout=0)
        yield


class _FilledMemory(TorchFunctionMode):
    """Fills uninitialized memory with a value while active."""

    def __init__(self, value: float, log: LineLog) -> None:
        super().__init__()
        self.value, self.log = value, log

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        size = args[0].numel() if func is torch.Tensor.resize_ and args else 0
        result = func(*args, **(kwargs or {}))
        if func in _EMPTY_CALLS and isinstance(result, Tensor) and get_line_from_frame(sys._getframe(1)) is not None:
            self.log.add(sys._getframe(1))
            with torch.no_grad():
                new = result.view(-1)[size:] if result.is_contiguous() else result
                new.fill_(True if result.dtype is torch.bool else self.value)
        return result


def seed_source(name: str, number: int) -> None:
    """Seed one of the global generators: "random", "numpy.random" or "torch"."""
    if name == "random":
        random.seed(number)
    elif name == "numpy.random":
        np.random.seed(number)
    else:
        torch.default_generator.manual_seed(number)
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(number)
