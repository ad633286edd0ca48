"""Entry point of the batch-size finder, and the suggested size with its reasons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.inference.chunking import is_out_of_memory
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.device_assertions import without_value_checks
from nbdebug.setup.loaders import is_shuffled
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.batch_size import memory
from nbdebug.tools.batch_size.noise_scale import noise_scale
from nbdebug.tools.batch_size.result import BatchSize, EndReason, NoiseScale, SizeMeasurement, build_view, format_bytes
from nbdebug.tools.batch_size.search import BatchBuilder, BatchSizeSearch, TrainingStep, user_batch_size
from nbdebug.training.model_copy import ensure_train_mode
from nbdebug.views.live import LiveScreen, Screen, show_view

_NEAR_MAX_THROUGHPUT = 0.9  # share of the highest throughput; a further doubling is not worth the memory it needs
_MEMORY_MARGIN = 0.9  # share of the memory, to allow for fragmentation and samples of varying length
_END_TEXTS = {
    "memory": "{failed:,} does not fit into memory",
    "data": "the dataset has no more samples",
    "limit": "this is the maximum you set",
    "time": "a larger size would have taken too long",
    "stopped": "you stopped the search",
    "interrupted": "the search was interrupted",
}
_EARLY_ENDS = ("time", "stopped", "interrupted")
_RETRY_HINT = "Allow more time, such as seconds=120, or pass another start."
_DEFAULT_START, _DEFAULT_SECONDS = 8, 30.0
_NOISE_TIME_SHARE = 0.25


@dataclass(frozen=True)
class _SizeSuggestion:
    """The suggested size, if any, and its explanation."""

    suggestion: int | None
    headline: str
    reasons: tuple[str, ...]


def suggest_size(
    sizes: Sequence[SizeMeasurement],
    ended: EndReason,
    failed: int | None,
    capacity: int | None,
    current_size: int | None,
    noise: NoiseScale,
) -> _SizeSuggestion:
    """Return the smallest size with almost the highest throughput that leaves a margin of memory."""
    if not sizes:
        return _SizeSuggestion(None, "No batch size was measured.", (_END_TEXTS[ended].format(failed=failed or 0),))
    usable = [
        measurement for measurement in sizes if capacity is None or measurement.memory <= _MEMORY_MARGIN * capacity
    ] or [min(sizes, key=_size_of_measurement)]
    highest = max(map(_best_throughput, usable))
    knee = min(
        (measurement for measurement in usable if _best_throughput(measurement) >= _NEAR_MAX_THROUGHPUT * highest),
        key=_size_of_measurement,
    )
    text = (
        f"Suggested batch size {knee.size:,}: {knee.throughput_text} samples per second, "
        f"peak memory {format_bytes(knee.memory)}."
    )
    largest_text = f"Largest size tested: {sizes[-1].size:,}; {_END_TEXTS[ended].format(failed=failed or 0)}."
    if ended in _EARLY_ENDS and knee is sizes[-1]:
        return _SizeSuggestion(
            None, "No size can be suggested: larger ones may have a higher throughput.", (largest_text, _RETRY_HINT)
        )
    return _SizeSuggestion(
        knee.size,
        text,
        (
            _growth_reason(usable, knee),
            largest_text,
            *_current_size_reasons(sizes, knee, current_size),
            *_noise_reasons(noise, knee),
        ),
    )


def _size_of_measurement(measurement: SizeMeasurement) -> int:
    return measurement.size


def _best_throughput(measurement: SizeMeasurement) -> float:
    """Return the throughput by the lower quartile of the seconds: other load on the machine only slows steps down."""
    return measurement.size / measurement.low


def _growth_reason(usable: Sequence[SizeMeasurement], knee: SizeMeasurement) -> str:
    """Return how throughput grows beyond the suggested size."""
    larger = [measurement for measurement in usable if measurement.size > knee.size]
    if not larger:
        return "It is the largest and fastest of the tested sizes that leave a margin of memory."
    best = max(larger, key=_best_throughput)
    gain = _best_throughput(best) / _best_throughput(knee) - 1
    if gain <= 0:
        return "Larger batches need more memory and do not increase the throughput."
    return f"Throughput hardly grows beyond it: {best.size:,} gives {gain:.0%} more, with {format_bytes(best.memory)}."


def _current_size_reasons(
    sizes: Sequence[SizeMeasurement], knee: SizeMeasurement, current_size: int | None
) -> tuple[str, ...]:
    """Compare the suggestion with the user's own size."""
    if current_size is None:
        return ()
    if current_size == knee.size:
        return ("It is your current batch size.",)
    advice = "A different batch size needs a different learning rate: run lr_range() again."
    current = next((measurement for measurement in sizes if measurement.size == current_size), None)
    if current is None:
        return (f"Your current batch size is {current_size:,}. {advice}",)
    return (f"Your current batch size is {current_size:,}: {current.throughput_text} samples per second. {advice}",)


def _noise_reasons(noise: NoiseScale, knee: SizeMeasurement) -> tuple[str, ...]:
    """Return what the gradient noise at the current weights implies for the size.

    A batch of B needs ``1 + scale / B`` times the minimum number of steps (McCandlish et al. 2018, arXiv:1812.06162,
    section 2.3).
    """
    if noise.low is None:
        return (f"Gradient noise scale {noise}.",)
    bound_text, scale = ("", noise.value) if noise.value is not None else ("at least ", noise.low)
    fewer = 1 - (1 + scale / (2 * knee.size)) / (1 + scale / knee.size)
    more = (1 + 2 * scale / knee.size) / (1 + scale / knee.size) - 1
    comparison = (
        f"a batch twice as large would need {bound_text}{fewer:.0%} fewer steps, "
        f"half as large {bound_text}{more:.0%} more"
    )
    return (f"Gradient noise scale {noise}: {comparison}. The scale grows as the loss decreases.",)


def batch_size(
    setup: Setup,
    *,
    start: int = _DEFAULT_START,
    most: int | None = None,
    seconds: float = _DEFAULT_SECONDS,
    noise: bool = True,
) -> BatchSize:
    """Measure the cost of a step at each batch size, doubling from ``start`` until memory, data or time run out.

    The steps use the user's own optimizers and samples, and the state is restored afterwards; on CUDA, the peak of
    ``max_memory_allocated`` is reset. In a notebook, an interrupt acts as Stop and returns the partial result;
    elsewhere it is raised. Raises SetupError for a setup that cannot run.
    """
    _validate_options(start, most, seconds)
    with without_value_checks(), Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        ensure_train_mode(setup)
        finder = BatchSizeFinder(setup, start, most, seconds, noise)
        with show_view(build_view(finder.result(), live=True)) as screen:
            finder.run(screen)
            result = finder.result()
            screen.finish(result)
    return result


class BatchSizeFinder:
    """Runs the batch-size search; must live inside a Preserve."""

    def __init__(self, setup: Setup, original: int, max_size: int | None, seconds: float, noise: bool) -> None:
        self.setup, self.seconds, self.measure_noise = setup, seconds, noise
        self.started = time.perf_counter()
        self.steps, self.builder = TrainingStep(setup), BatchBuilder(setup)
        self.search = BatchSizeSearch(self.steps, self.builder, original, max_size, self.started + seconds)
        self.noise = NoiseScale(why="disabled by noise=False")

    def run(self, screen: Screen) -> None:
        """Measure the noise scale at the unchanged weights, then the sizes, until done or stopped."""
        try:
            if self.measure_noise:
                self.noise = self.try_noise_scale(screen)
            self.search.run(lambda: self.update_screen(screen))
            self.search.repeat_timings(lambda: self.update_screen(screen))
            if screen.stopped:
                self.search.ended = "stopped"
        except KeyboardInterrupt:
            self.search.ended = "interrupted"
            if not isinstance(screen, LiveScreen):
                raise

    def try_noise_scale(self, screen: Screen) -> NoiseScale:
        """Return the noise scale, or the reason why it is unknown."""
        try:
            with UserCodeErrors(lambda: "while the gradient noise was measured"):
                return noise_scale(self.steps, self.builder, _NOISE_TIME_SHARE * self.seconds, lambda: screen.stopped)
        except SetupError as error:
            if not is_out_of_memory(error.__cause__ or error):
                raise
            return NoiseScale(why="its gradients do not fit into memory")
        finally:
            self.steps.clear()
            memory.release_memory(self.steps.device)

    def update_screen(self, screen: Screen) -> bool:
        """Update the view; return whether the user pressed Stop."""
        if isinstance(screen, LiveScreen):
            screen.update(build_view(self.result(), live=True))
        return screen.stopped

    def result(self) -> BatchSize:
        """Return the current result as plain data."""
        sizes, end_reason = self.search.sizes, self.search.ended or "data"
        current_size = user_batch_size(self.setup)
        suggested = suggest_size(sizes, end_reason, self.search.failed, self.search.capacity, current_size, self.noise)
        on_device = self.steps.device.type == "cuda"
        return BatchSize(
            sizes=sizes,
            suggestion=suggested.suggestion,
            headline=suggested.headline,
            reasons=suggested.reasons,
            notes=tuple(self.notes(suggested.suggestion)),
            ended=end_reason,
            failed=self.search.failed,
            current_size=current_size,
            noise=self.noise,
            device=str(self.steps.device),
            measured_by=memory.BY_ALLOCATOR if on_device else memory.BY_TRACKING,
            capacity=self.search.capacity,
            resident_bytes=memory.total_bytes(self.steps.resident_tensors),
            seconds_per_sample=self.builder.seconds_per_sample,
            shuffled=is_shuffled(self.setup.train_loader),
            seconds=time.perf_counter() - self.started,
        )

    def notes(self, suggestion: int | None) -> list[str]:
        """Return notes on how memory was measured and on the loader."""
        measured_by = memory.BY_ALLOCATOR if self.steps.device.type == "cuda" else memory.BY_TRACKING
        texts = [f"Memory was measured {measured_by}."]
        if not self.setup.optimizers:
            texts.append("No optimizer was passed: neither its state nor its step is included.")
        if not self.builder.collates:
            texts.append("The loader returns whole batches: the rows of its first batch were repeated.")
        measurement = next((candidate for candidate in self.search.sizes if candidate.size == suggestion), None)
        if measurement is not None and (workers := ceil(self.builder.seconds_per_sample * measurement.throughput)) > 1:
            texts.append(f"At that throughput, reading the data keeps {workers} processes busy: set num_workers.")
        return texts


def _validate_options(start: Any, max_size: Any, seconds: Any) -> None:
    """Validate the numeric options."""
    for name, value, minimum in (("start", start, 1), ("most", max_size, start)):
        if value is None and name == "most":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            problem = f"{name} is {value!r}; expected a whole number of at least {minimum}."
            raise SetupError(f"{problem} Omit it for the default.")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise SetupError(f"seconds is {seconds!r}; expected a number above 0. Omit it for {_DEFAULT_SECONDS:g}.")
