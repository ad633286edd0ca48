"""Search over batch sizes: training steps on batches of any size, doubled until memory, data or time run out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.inference.chunking import is_out_of_memory
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup, loaders
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.batch_size import memory
from nbdebug.tools.batch_size.memory import peak_bytes
from nbdebug.tools.batch_size.result import EndReason, SizeMeasurement
from nbdebug.training.trainer import needs_closure

_MIN_TIMED_STEPS, _MAX_TIMED_STEPS, _MAX_TIMING_SECONDS = 3, 30, 0.25
_MAX_READING_SECONDS = 3.0
_CPU_MEMORY_SHARE = 0.8  # of the available memory; on the CPU, exceeding it cannot be caught


class TrainingStep:
    """Training steps with the user's own optimizers, which have state after the first step."""

    def __init__(self, setup: Setup) -> None:
        setup.check_passes()  # once, since it walks through all modules
        self.setup, self.device, self._model = setup, setup.model_device, setup.eager_model
        self.parameters = _all_parameters(setup)

    def step(self, batch: Batch) -> None:
        """Run forward, backward, and a step of every optimizer."""
        with torch.enable_grad():
            loss = self.loss_and_backward(batch)
            for optimizer in self.setup.optimizers:
                if needs_closure(optimizer):
                    optimizer.step(lambda: float(self.loss_and_backward(batch).detach()))
                else:
                    optimizer.step()
        del loss

    def loss_and_backward(self, batch: Batch) -> Tensor:
        """Return the loss after a backward pass; the gradients remain set."""
        self.clear()
        loss = self.setup.output_and_loss(batch, self._model)[1]
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def clear(self) -> None:
        """Free the gradients."""
        for p in self.parameters:
            p.grad = None

    @property
    def resident_tensors(self) -> list[Tensor]:
        """Tensors that are in memory between two steps: weights, buffers, optimizer state."""
        states = [state for item in self.setup.optimizers for state in item.state.values() if isinstance(state, dict)]
        moments = [value for state in states for value in state.values() if isinstance(value, Tensor)]
        parts = _model_and_loss(self.setup)
        model_tensors = [item for part in parts for item in (*part.parameters(), *part.buffers())]
        return [item for item in (*model_tensors, *moments) if item.device.type == self.device.type]

    def peak_memory(self, batch: Batch) -> int:
        """Return the peak bytes of a step on this batch."""
        seed_all(0)
        self.clear()
        return peak_bytes(lambda: self.step(batch), self.resident_tensors, self.device)

    def time_steps(self, batch: Batch, should_stop: Callable[[], bool]) -> list[float]:
        """Return the seconds of a few steps, fewer if ``ends`` returns True."""
        seed_all(0)
        seconds: list[float] = []
        while len(seconds) < _MIN_TIMED_STEPS or (
            len(seconds) < _MAX_TIMED_STEPS and sum(seconds) < _MAX_TIMING_SECONDS
        ):
            seconds.append(self.time_step(batch))
            if should_stop():
                break
        self.clear()
        return seconds

    def time_step(self, batch: Batch) -> float:
        """Return the seconds of one step."""
        self.synchronize()
        started = time.perf_counter()
        self.step(batch)
        self.synchronize()
        return time.perf_counter() - started

    def synchronize(self) -> None:
        """Wait until the device has finished all queued work."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


def _model_and_loss(setup: Setup) -> list[nn.Module]:
    """Return the model, and the loss if it is a module."""
    return [part for part in (setup.eager_model, setup.loss_fn) if isinstance(part, nn.Module)]


def _all_parameters(setup: Setup) -> list[Tensor]:
    """Return every parameter that may receive a gradient."""
    optimized = optimized_parameters(*setup.optimizers)
    return list(dict.fromkeys([*(p for part in _model_and_loss(setup) for p in part.parameters()), *optimized]))


class BatchBuilder:
    """Creates batches from samples of the dataset with the loader's collate function, or from rows of its first batch.

    Samples are read once, in the order of the loader's sampler, and are repeated in larger batches once reading has
    taken SECONDS_OF_READING seconds; memory and time of a step do not depend on which samples are used. ``count`` is
    the number of samples, if known.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.loader = setup, setup.train_loader
        self.collates = _collates_samples(self.loader)
        self.samples: list[Any] = []
        self.sample_stream = _iterate_samples(self.loader) if self.collates else iter(())
        self.sample_count = _dataset_length(self.loader) if self.collates else None
        self.reading_seconds = 0.0
        self.first_batch: Batch | None = None

    def batch(self, size: int) -> Batch:
        """Return a batch of ``size`` samples on the model's device; raise SetupError if that is impossible."""
        if not self.collates:
            return self.repeat_first_batch(size)
        self.read_samples(size)
        if not self.samples:
            raise SetupError("train_loader is empty; expected at least one sample. Check len(dataset) and the sampler.")
        samples = [self.samples[row % len(self.samples)] for row in range(size)]
        return self.collate(samples)

    def read_samples(self, size: int) -> None:
        """Read samples until there are enough, none are left, or the time limit is reached."""
        started = time.perf_counter()
        while len(self.samples) < size and self.reading_seconds + time.perf_counter() - started < _MAX_READING_SECONDS:
            new_samples = list(islice(self.sample_stream, 1))
            self.samples += new_samples
            if not new_samples:
                self.sample_count = len(self.samples)
                break
        self.reading_seconds += time.perf_counter() - started

    def repeat_first_batch(self, size: int) -> Batch:
        """Return rows of the first batch, repeated as often as needed."""
        if self.first_batch is None:
            self.first_batch = next(self.setup.batches(1))
        try:
            return self.first_batch.take_samples([row % max(self.first_batch.size, 1) for row in range(size)])
        except NotChecked as reason:
            problem = (
                f"train_loader returns batches that cannot be split into samples ({reason}); expected a DataLoader"
            )
            raise SetupError(f"{problem}. Pass one with your collate_fn.") from reason

    def draw_samples(self, count: int, seed: int) -> list[Any]:
        """Draw samples at random without replacement; raise NotChecked if the dataset has no indices."""
        if not (self.collates and loaders.is_map_style(self.loader)):
            raise NotChecked("random samples require a dataset with indices")
        indices = list(_iterate_indices(self.loader))
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(indices), generator=generator)[:count].tolist()
        return [loaders.read_sample(self.loader.dataset, indices[row]) for row in order]

    def collate(self, samples: list[Any]) -> Batch:
        """Collate samples into a batch; a ``step_fn`` splits it itself."""
        raw = self.loader.collate_fn(samples)
        return Batch((), raw=raw) if self.setup.step_fn is not None else self.setup.split_batch(raw)

    @property
    def seconds_per_sample(self) -> float:
        """Seconds to read one sample in this process."""
        return self.reading_seconds / len(self.samples) if self.samples else 0.0


def _collates_samples(loader: Any) -> bool:
    """Check whether a loader collates its batches from single samples."""
    plain = isinstance(loader, DataLoader) and type(loader).__iter__ is DataLoader.__iter__
    return plain and (loader.batch_sampler is not None or loader.batch_size is not None)


def _iterate_samples(loader: DataLoader[Any]) -> Iterator[Any]:
    """Iterate over the samples of a loader in its order."""
    if isinstance(loader.dataset, IterableDataset):
        yield from loader.dataset
    else:
        yield from (loaders.read_sample(loader.dataset, index) for index in _iterate_indices(loader))


def _iterate_indices(loader: DataLoader[Any]) -> Iterator[Any]:
    """Iterate over the indices in the order of the loader's sampler."""
    for batch_indices in loader.batch_sampler or ():
        yield from batch_indices


def _dataset_length(loader: DataLoader[Any]) -> int | None:
    """Return the number of samples; None for a stream."""
    return None if isinstance(loader.dataset, IterableDataset) else len(loader.dataset)  # type: ignore[arg-type]


def user_batch_size(setup: Setup) -> int | None:
    """Return the batch size of the user's loader."""
    loader_batch_size = getattr(setup.train_loader, "batch_size", None)
    if loader_batch_size is None:
        loader_batch_size = getattr(getattr(setup.train_loader, "batch_sampler", None), "batch_size", None)
    return loader_batch_size if isinstance(loader_batch_size, int) else None


class BatchSizeSearch:
    """Measures sizes in increasing order; if the first does not fit, decreases it until one does."""

    def __init__(
        self, steps: TrainingStep, supply: BatchBuilder, original: int, max_size: int | None, deadline: float
    ) -> None:
        self.steps, self.supply, self.deadline = steps, supply, deadline
        self.start, self.max_size = original, max_size
        self.peaks: dict[int, int] = {}
        self.times: dict[int, list[float]] = {}
        self.ended: EndReason | None = None
        self.failed: int | None = None
        self.capacity: int | None = None

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Measure all sizes; ``seen`` is called after each step and returns whether to stop."""
        size = min(self.start, self.max_size or self.start, self.supply.sample_count or self.start)
        while self.ended is None:
            if self.fits(size) and self.try_size(size, should_stop):
                self.ended = (
                    "stopped" if should_stop() else "memory" if self.failed is not None else self.end_reason(size)
                )
                size = self.next_size(size)
            else:
                self.failed = size
                self.ended = "memory" if self.times or size == 1 else None
                size //= 2

    def try_size(self, size: int, should_stop: Callable[[], bool]) -> bool:
        """Measure one size; return False if the memory was insufficient."""
        try:
            with UserCodeErrors(lambda: f"on a batch of {size}"):
                try:
                    self.measure_size(size, should_stop)
                except Exception as error:
                    if not is_out_of_memory(error):
                        raise
                    return False
        finally:
            self.steps.clear()
            memory.release_memory(self.steps.device)
        return True

    def measure_size(self, size: int, should_stop: Callable[[], bool]) -> None:
        """Measure peak memory, then times; the first step ever is preceded by one that creates optimizer state."""
        batch = self.supply.batch(size)
        if not self.times:
            self.steps.step(batch)
        self.peaks[size] = self.steps.peak_memory(batch)
        self.times[size] = self.steps.time_steps(batch, should_stop)

    def repeat_timings(self, should_stop: Callable[[], bool]) -> None:
        """Repeat the timing of all sizes, largest first, since the load of the machine varies over time."""
        for size in sorted(self.times, reverse=True):
            if should_stop() or time.perf_counter() + _MIN_TIMED_STEPS * median(self.times[size]) > self.deadline:
                continue
            self.times[size] += self.steps.time_steps(self.supply.batch(size), should_stop)

    @property
    def sizes(self) -> tuple[SizeMeasurement, ...]:
        """The measurements, smallest size first."""
        measurements = []
        for size, times in sorted(self.times.items()):
            low, middle, high = np.percentile(times, (25, 50, 75)).tolist()
            measurements.append(SizeMeasurement(size, self.peaks[size], middle, low, high, len(times)))
        return tuple(measurements)

    def fits(self, size: int) -> bool:
        """Check whether a size may be tried: always on CUDA, which raises out-of-memory errors; else by prediction."""
        self.capacity = self.available_for_step()
        return self.steps.device.type == "cuda" or self.capacity is None or self.predict_peak(size) <= self.capacity

    def available_for_step(self) -> int | None:
        """Return the bytes available to a step, including those in use between steps."""
        free = memory.available_bytes(self.steps.device)
        if free is None:
            return None
        return memory.total_bytes(self.steps.resident_tensors) + (
            free if self.steps.device.type == "cuda" else int(_CPU_MEMORY_SHARE * free)
        )

    def predict_peak(self, size: int) -> int:
        """Predict the peak of an untested size by linear extrapolation from the last two measurements."""
        peaks = sorted(self.peaks.items())
        if len(peaks) < 2:
            return sum(peak * size // measured_size for measured_size, peak in peaks)
        (smaller_size, smaller_peak), (larger_size, larger_peak) = peaks[-2:]
        return larger_peak + (larger_peak - smaller_peak) * (size - larger_size) // (larger_size - smaller_size)

    def end_reason(self, size: int) -> EndReason | None:
        """Return why no larger size is tested; None if there is one."""
        if self.max_size is not None and size >= self.max_size:
            return "limit"
        if self.supply.sample_count is not None and size >= self.supply.sample_count:
            return "data"
        expected_seconds = 2 * (_MIN_TIMED_STEPS + 1) * median(self.times[size])
        return "time" if time.perf_counter() + expected_seconds > self.deadline else None

    def next_size(self, size: int) -> int:
        """Return the next size: twice as many samples, or all of them."""
        return min(limit for limit in (2 * size, self.max_size, self.supply.sample_count) if limit is not None)
