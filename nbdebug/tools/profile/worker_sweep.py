"""Training steps on loaders with other numbers of workers, and with pinned memory."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from torch.utils.data import DataLoader

from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile.clocks import host_seconds
from nbdebug.tools.profile.operations import synchronize
from nbdebug.tools.profile.time_profile import SpeedTrial
from nbdebug.training.trainer import BatchStream

_COUNTS = (2, 4, 8)
_WORTH_CONTINUING = 1.2  # gain over the last count
_PREFETCH = 2
_TIMEOUT_SECONDS = 30
_MIN_STEPS, _SECONDS_PER_STEP = 6, 0.04
_MAX_EPOCH_STEPS = 2  # times the steps to measure, up to which whole epochs are measured


class _EndlessBatchSampler:
    """Repeats the batches of indices of another sampler, so that a part of a long epoch can be measured alone."""

    def __init__(self, batch_sampler: Any) -> None:
        self._batch_sampler = batch_sampler

    def __iter__(self) -> Iterator[Any]:
        """Yield batches of indices without end."""
        while True:
            yield from self._batch_sampler


def sweep_obstacle(setup: Setup) -> str:
    """Return why the number of workers cannot be changed; empty if it can."""
    loader = setup.train_loader
    if not is_map_style(loader):
        return "the loader does not read its dataset by index"
    return "" if loader.batch_sampler is not None else "the loader has no batches of indices"


def sweep_workers(setup: Setup, step: TrainingStep, steps: int, reading_seconds: float = 0.0) -> list[SpeedTrial]:
    """Return the mean time of a step with each number of workers, the present one first.

    Up to four times ``steps`` steps run with each. Workers are started and warmed up before. A count whose workers
    fail, or cannot receive the dataset, is returned with the reason. ``reading_seconds`` is the time to read a batch,
    for which the first step of an epoch waits whatever the number of workers.
    """
    present = setup.train_loader.num_workers
    base, failure = _try_workers(setup, step, present, steps)
    if failure:
        return [SpeedTrial("workers", str(present), failure=failure, is_present=True)]
    trials: list[SpeedTrial] = []
    for count in _COUNTS:
        if count <= present:
            continue
        seconds, failure = _try_workers(setup, step, count, steps)
        if seconds and _is_endless(setup, count, steps):
            seconds += reading_seconds / len(setup.train_loader.batch_sampler)
        gain = base / seconds if seconds else 1.0
        previous = trials[-1].gain if trials else 1.0
        code = _loader_code(setup.train_loader, count)
        trials.append(SpeedTrial("workers", str(count), seconds, gain=gain, code=code, failure=failure))
        if failure or gain < _WORTH_CONTINUING * previous:
            break
    again, failure = _try_workers(setup, step, present, steps)
    base = base if failure else (base + again) / 2
    present_trial = SpeedTrial("workers", str(present), base, is_present=True)
    measured = [trial if trial.failure else _with_gain(trial, base) for trial in trials]
    return [present_trial, *measured]


def sweep_pinning(setup: Setup, step: TrainingStep, steps: int) -> list[SpeedTrial]:
    """Return the mean time of a step without and with pinned memory; [] without CUDA, or if the loader pins already."""
    workers = setup.train_loader.num_workers
    if step.device.type != "cuda" or setup.train_loader.pin_memory:
        return []
    before, failure = _try_workers(setup, step, workers, steps)
    pinned, pinning_failure = _try_workers(setup, step, workers, steps, pins=True)
    after, _ = _try_workers(setup, step, workers, steps)
    if failure or not after:
        return []
    present = SpeedTrial("pinning", "off", (before + after) / 2, is_present=True)
    code = "DataLoader(..., pin_memory=True)"
    if pinning_failure:
        return [present, SpeedTrial("pinning", "on", code=code, failure=pinning_failure)]
    return [present, _with_gain(SpeedTrial("pinning", "on", pinned, code=code), present.seconds)]


def _with_gain(trial: SpeedTrial, base: float) -> SpeedTrial:
    gain = base / trial.seconds
    return replace(trial, gain=gain, low=gain)


def _is_endless(setup: Setup, workers: int, steps: int) -> bool:
    """Check whether epochs are too long to be measured as a whole."""
    return not workers or len(setup.train_loader.batch_sampler) > _MAX_EPOCH_STEPS * steps


def _try_workers(setup: Setup, step: TrainingStep, count: int, steps: int, *, pins: bool = False) -> tuple[float, str]:
    """Return the mean seconds of a step, or 0 and the reason why there are none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about more workers than cores, which is what is measured
            return _mean_seconds(setup, step, count, steps, pins), ""
    except Exception as error:
        cause = error.__cause__ or error
        return 0.0, f"{type(cause).__name__}: {cause}".partition("\n")[0]


def _loader_with_workers(loader: DataLoader[Any], count: int, is_endless: bool, pins: bool) -> DataLoader[Any]:
    """Return a loader of the same batches with another number of workers, and with pinned memory if ``pins``."""
    worker_options: dict[str, Any] = {}
    if count:
        context = loader.multiprocessing_context
        worker_options = {
            "prefetch_factor": _PREFETCH,
            "persistent_workers": True,
            "timeout": _TIMEOUT_SECONDS,
            "worker_init_fn": loader.worker_init_fn,
            **({"multiprocessing_context": context} if context is not None else {}),
        }
    batch_sampler: Any = loader.batch_sampler
    return DataLoader(
        loader.dataset,
        batch_sampler=_EndlessBatchSampler(batch_sampler) if is_endless else batch_sampler,
        collate_fn=loader.collate_fn,
        num_workers=count,
        pin_memory=pins or loader.pin_memory,
        **worker_options,
    )


def _mean_seconds(setup: Setup, step: TrainingStep, workers: int, steps: int, pins: bool) -> float:
    """Return the mean time of a step; batches of workers arrive in bursts, which a median would hide.

    Short epochs are measured as a whole, since the first batches of each find the workers idle.
    """
    length = len(setup.train_loader.batch_sampler)
    is_endless = _is_endless(setup, workers, steps)
    loader = _loader_with_workers(setup.train_loader, workers, is_endless, pins)
    splitter, batches = BatchStream(setup, 0), _repeated(loader)
    least, seconds_limit = max(_MIN_STEPS, 3 * workers), steps * _SECONDS_PER_STEP
    seconds: list[float] = []
    try:
        for _ in range(workers * _PREFETCH + 2 if is_endless else length):
            step.step(splitter.to_batch(next(batches)))
        while (
            len(seconds) < least
            or (len(seconds) < 4 * steps and sum(seconds) < seconds_limit)
            or (not is_endless and len(seconds) % length)
        ):
            started = host_seconds()
            step.step(splitter.to_batch(next(batches)))
            synchronize(step.device)
            seconds.append(host_seconds() - started)
    finally:
        batches.close()
        del loader  # stops the workers
    return median(seconds) if not workers else sum(seconds) / len(seconds)


def _repeated(loader: DataLoader[Any]) -> Generator[Any]:
    """Yield the batches of a loader, epoch after epoch."""
    while True:
        yield from loader


def _loader_code(loader: DataLoader[Any], count: int) -> str:
    size = f"batch_size={loader.batch_size}, " if isinstance(loader.batch_size, int) else ""
    return f"train_loader = DataLoader(dataset, {size}shuffle=True, num_workers={count}, persistent_workers=True)"
