"""Changes of a training step that need no copy: free loss, batch size, threads, settings; interleaved with the step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from nbdebug.inference.chunking import is_out_of_memory
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.batch_size.memory import available_bytes, peak_bytes, release_memory
from nbdebug.tools.batch_size.search import BatchBuilder, TrainingStep
from nbdebug.tools.profile.clocks import host_seconds
from nbdebug.tools.profile.modules import output_tensors
from nbdebug.tools.profile.operations import synchronize
from nbdebug.tools.profile.time_profile import SpeedTrial

_ROUNDS = 4
_MIN_BLOCK_STEPS, _SECONDS_PER_STEP = 3, 0.002  # of a block, and for each step that it may have
_FACTORS, _MAX_BATCH_SIZE = (2, 4, 8, 16, 32), 512
_MAX_READING_SECONDS, _READ_BATCHES = 0.3, 6
_MAX_STEP_SECONDS, _SLOW_SECONDS = 0.5, 0.05
_SUPERLINEAR = 3.0  # times the seconds of half the samples; a loss over all pairs takes four times as long
_MEMORY_SHARE = 0.5  # of the available memory, for larger batches


@dataclass
class Candidate:
    """A variant of the training step: ``step`` runs it on ``size`` samples, inside ``context``.

    ``peak`` runs it and returns the bytes at its peak.
    """

    group: str
    name: str
    size: int
    step: Callable[[], object]
    code: str = ""
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    is_present: bool = False
    difference: float | None = None
    data_seconds: float | None = None
    peak: Callable[[], int] | None = None


def measure_candidates(
    candidates: Sequence[Candidate], device: torch.device, steps: int, seconds: float
) -> list[SpeedTrial]:
    """Return the time of each candidate, and its gain over the first one, as the median over interleaved rounds.

    Each round runs at most ``steps`` steps of a candidate. One that raises is returned with the reason. After
    ``seconds``, no further round starts.
    """
    blocks: dict[int, list[float]] = {i: [] for i in range(len(candidates))}
    failures: dict[int, str] = {}
    deadline = time.perf_counter() + seconds
    for _ in range(_ROUNDS):
        if blocks[0] and time.perf_counter() > deadline:
            break
        for i, candidate in enumerate(candidates):
            if i in failures:
                continue
            try:
                with candidate.context():
                    blocks[i].append(_block_seconds(candidate.step, device, steps))
            except Exception as error:
                if i == 0:
                    raise
                failures[i] = f"{type(error).__name__}: {error}".partition("\n")[0]
    return [_trial(candidates, blocks, i, failures.get(i, "")) for i in range(len(candidates))]


def _trial(candidates: Sequence[Candidate], blocks: dict[int, list[float]], i: int, failure: str) -> SpeedTrial:
    """Return the trial of one candidate."""
    own, first = candidates[i], candidates[0]
    trial = SpeedTrial(own.group, own.name, size=own.size, code=own.code, difference=own.difference, failure=failure)
    trial = replace(trial, data_seconds=own.data_seconds)
    if failure:
        return trial
    ratios = [base / first.size * own.size / block for base, block in zip(blocks[0], blocks[i], strict=False)]
    trial = replace(trial, gain=median(ratios), low=min(ratios), high=max(ratios))
    return replace(trial, seconds=median(blocks[i]), is_present=own.is_present)


def _block_seconds(step: Callable[[], object], device: torch.device, steps: int) -> float:
    """Return the median time of some steps after one that warms up."""
    step()
    seconds: list[float] = []
    while len(seconds) < _MIN_BLOCK_STEPS or (len(seconds) < steps and sum(seconds) < steps * _SECONDS_PER_STEP):
        synchronize(device)
        started = host_seconds()
        step()
        synchronize(device)
        seconds.append(host_seconds() - started)
    return median(seconds)


def present_candidate(step: TrainingStep, batches: Iterator[Batch], size: int) -> Candidate:
    """Return the present training step on cached batches, with which all others are compared."""
    return Candidate("loader", "cached batches", size, lambda: step.step(next(batches)))


def free_loss_candidate(setup: Setup, step: TrainingStep, batches: Iterator[Batch], size: int) -> Candidate:
    """Return a step with a loss that costs almost nothing, which bounds what a faster loss can gain."""

    def run() -> None:
        step.clear()
        with torch.enable_grad():
            _mean_square(setup.predict(next(batches), setup.model)).backward()  # type: ignore[no-untyped-call]
        for optimizer in setup.optimizers:
            optimizer.step()

    return Candidate("loss", "free loss", size, run)


def _mean_square(output: Any) -> Tensor:
    terms = [tensor.square().mean() for tensor in output_tensors(output) if tensor.requires_grad]
    return torch.stack([term.float() for term in terms]).sum()


def thread_candidates(step: TrainingStep, batches: Iterator[Batch], size: int, cores: int) -> list[Candidate]:
    """Return the step with other numbers of threads."""
    present = torch.get_num_threads()
    counts = [count for count in dict.fromkeys((1, cores // 2, cores)) if count >= 1 and count != present]
    return [
        Candidate(
            "threads",
            str(count),
            size,
            lambda: step.step(next(batches)),
            f"torch.set_num_threads({count})",
            partial(_with_threads, count),
        )
        for count in counts
    ]


@contextmanager
def _with_threads(count: int) -> Iterator[None]:
    present = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(present)


def setting_candidates(step: TrainingStep, batches: Iterator[Batch], size: int) -> list[Candidate]:
    """Return the step without slow settings that are switched on now."""
    candidates = []
    if torch.is_anomaly_enabled():
        code = "torch.autograd.set_detect_anomaly(False)"
        candidates.append(
            Candidate(
                *("settings", "anomaly mode off", size, lambda: step.step(next(batches)), code),
                lambda: torch.autograd.set_detect_anomaly(False),
            )
        )
    if torch.are_deterministic_algorithms_enabled():
        code = "torch.use_deterministic_algorithms(False)   # if runs need not be repeated exactly"
        candidates.append(
            Candidate(
                *("settings", "deterministic algorithms off", size, lambda: step.step(next(batches)), code),
                _without_determinism,
            )
        )
    return candidates


@contextmanager
def _without_determinism() -> Iterator[None]:
    warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(True, warn_only=warns_only)


def batch_size_candidates(setup: Setup, step: TrainingStep, size: int, data_seconds: float) -> list[Candidate]:
    """Return steps on larger batches, as far as the samples and the memory suffice.

    ``data_seconds`` is the present wait for a batch.
    """
    builder = BatchBuilder(setup)
    candidates: list[Candidate] = []
    if not size:
        return candidates
    free = available_bytes(step.device)
    largest = min(_MAX_BATCH_SIZE, builder.sample_count or _MAX_BATCH_SIZE)
    present_batch = builder.batch(size)
    per_sample = peak_bytes(lambda: step.step(present_batch), step.resident_tensors, step.device) / size
    present = seconds = _step_seconds(step, present_batch)
    for factor in _FACTORS:
        new_size = factor * size
        if new_size > largest or (free is not None and new_size * per_sample > _MEMORY_SHARE * free):
            break
        try:
            batch = builder.batch(new_size)
            previous, seconds = seconds, _step_seconds(step, batch)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            release_memory(step.device)
            break
        code = f"train_loader = DataLoader(dataset, batch_size={new_size}, shuffle=True)"
        candidate = Candidate("batch size", str(new_size), new_size, partial(step.step, batch), code)
        candidate.data_seconds = reading_seconds(setup.train_loader, new_size, factor * data_seconds)
        candidates.append(candidate)
        if seconds > max(_MAX_STEP_SECONDS, 2 * present) or seconds > max(_SLOW_SECONDS, _SUPERLINEAR * previous):
            break  # still larger ones gain nothing, and one step of them may take minutes
    return candidates


def _step_seconds(step: TrainingStep, batch: Batch) -> float:
    synchronize(step.device)
    started = host_seconds()
    step.step(batch)
    synchronize(step.device)
    return host_seconds() - started


def plain_reading_seconds(batch: Batch, size: int) -> float:
    """Return the time to read and collate ``size`` samples of a batch in memory, as any loader must."""
    parts = (batch.args, batch.kwargs, batch.targets) if batch.args or batch.kwargs else batch.raw
    tensors = [tensor.cpu() for tensor in tree_tensors(parts) if tensor.dim() and len(tensor)]
    if not tensors or not size:
        return 0.0
    seconds = []
    for _ in range(_READ_BATCHES):
        started = host_seconds()
        default_collate([tuple(tensor[i % len(tensor)] for tensor in tensors) for i in range(size)])
        seconds.append(host_seconds() - started)
    return median(seconds)


def reading_seconds(loader: Any, size: int, expected: float) -> float | None:
    """Return the time to read a batch of some size in this process; None if it takes long, or workers read.

    It is less than in proportion to the size, since part of the time is spent once per batch.
    """
    if expected > _MAX_READING_SECONDS or not is_map_style(loader) or loader.num_workers:
        return None
    sampler = loader.sampler if loader.batch_sampler is not None else None
    other = DataLoader(loader.dataset, size, sampler=sampler, collate_fn=loader.collate_fn)
    iterator = iter(other)
    seconds = []
    for _ in range(_READ_BATCHES):
        started = host_seconds()
        if next(iterator, None) is None:
            break
        seconds.append(host_seconds() - started)
    return median(seconds) if seconds else None
