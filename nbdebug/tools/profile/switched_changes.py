"""Changes of the user's loop that are switched on and off between its steps: loaders, settings, lines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, cycle, islice
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, default_collate

from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tools.profile.diagnosis import RARER, RARER_EVALUATION, Facts
from nbdebug.tools.profile.rare_statements import skip_statement
from nbdebug.tools.profile.time_profile import Advice, TimeProfile

_RARE_LINES = {"line": RARER, "checkpoint": RARER, "evaluation": RARER_EVALUATION, "growing": inf}


@dataclass
class Switch:
    """The state of a change; ``on_change`` are called with each new state."""

    is_on: bool = False
    on_change: list[Callable[[bool], object]] = field(default_factory=list)

    def turn(self, is_on: bool) -> None:
        """Switch the change on or off."""
        self.is_on = is_on
        for callback in self.on_change:
            callback(is_on)


@dataclass(frozen=True)
class SwitchedChange:
    """A context that installs a change which follows a switch.

    While it is on, a batch has ``batch_factor`` times as many samples. A statement that is skipped while it is on runs
    once in ``interval`` steps if the advice is followed; 0 if the change skips no statement.
    """

    install: Callable[[Switch], AbstractContextManager[None]]
    batch_factor: float = 1.0
    interval: float = 0.0


def switched_change(setup: Setup, profile: TimeProfile, advice: Advice, facts: Facts) -> SwitchedChange | None:
    """Return the change that an advice describes; None if it has to be written by hand or needs a new process."""
    if advice.kind in _RARE_LINES and advice.line is not None:
        skip = partial(skip_statement, advice.line, facts.step_codes, facts.step_lines)
        return SwitchedChange(lambda switch: skip(lambda: switch.is_on), interval=_RARE_LINES[advice.kind])
    trial = next((item for item in profile.trials if item.code and item.code == advice.code), None)
    loader = setup.train_loader
    reads_here = isinstance(loader, DataLoader) and loader.batch_sampler is not None and not loader.num_workers
    if trial is None and advice.kind == "data" and reads_here:
        if advice.code.startswith("batches"):
            return SwitchedChange(partial(_continued_loader, loader))
        return SwitchedChange(partial(_cached_samples, loader))
    if trial is None or trial.group not in ("batch size", "threads", "settings"):
        return None
    if trial.group == "batch size":
        if not reads_here or type(loader.batch_sampler) is not BatchSampler:
            return None
        return SwitchedChange(partial(_larger_batches, loader, trial.size), trial.size / max(profile.batch_size, 1))
    if trial.group == "threads":
        return SwitchedChange(partial(_other_threads, int(trial.name)))
    return SwitchedChange(_without_anomaly_mode) if "anomaly" in trial.name else None


@contextmanager
def _continued_loader(loader: DataLoader[Any], switch: Switch) -> Iterator[None]:
    """Continue the open iterator of a loader in place of starting a new one, unless it has ended."""
    original, open_iterator = DataLoader.__iter__, iter(())

    @functools.wraps(original)
    def start(self: DataLoader[Any]) -> Any:
        nonlocal open_iterator
        if self is not loader:
            return original(self)
        first = next(open_iterator, None) if switch.is_on else None
        if first is None:
            open_iterator = original(self)
            return open_iterator
        return chain([first], open_iterator)

    DataLoader.__iter__ = start  # type: ignore[method-assign]
    try:
        yield
    finally:
        DataLoader.__iter__ = original  # type: ignore[method-assign]


@contextmanager
def _with_attributes(loader: Any, **attributes: Any) -> Iterator[None]:
    """Set attributes of a loader that it does not let anyone set."""
    earlier = {name: vars(loader)[name] for name in attributes}
    vars(loader).update(attributes)
    try:
        yield
    finally:
        vars(loader).update(earlier)


@contextmanager
def _cached_samples(loader: Any, switch: Switch) -> Iterator[None]:
    """Replace the samples by those of one batch, in memory, and the collate function by that of torch."""
    samples, loader_collate = _repeated_samples(next(iter(loader))), loader.collate_fn
    next(samples)

    def collate(items: list[Any]) -> Any:
        return default_collate(items) if switch.is_on else loader_collate(items)

    kind = _SwitchedSamples if is_map_style(loader) else _SwitchedStream
    with _with_attributes(loader, dataset=kind(loader.dataset, samples, switch), collate_fn=collate):
        yield


def _repeated_samples(raw: Any) -> Iterator[Any]:
    """Yield the samples of a batch that is a tensor, or a sequence or dictionary of tensors, again and again."""
    keys = [*raw] if isinstance(raw, Mapping) else None
    parts = [*raw.values()] if isinstance(raw, Mapping) else [*raw] if isinstance(raw, (list, tuple)) else [raw]
    if not parts or not all(isinstance(part, Tensor) and part.dim() and len(part) for part in parts):
        raise NotChecked("the batches are no tensors, sequences or dictionaries of tensors")
    for row in cycle(range(min(map(len, parts)))):
        values = [part[row] for part in parts]
        yield values[0] if parts[0] is raw else dict(zip(keys, values, strict=True)) if keys else tuple(values)


class _SwitchedDataset:
    """A dataset that passes on everything except its samples."""

    def __init__(self, dataset: Any, samples: Iterator[Any], switch: Switch) -> None:
        self._dataset, self._samples, self._switch = dataset, samples, switch

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class _SwitchedSamples(_SwitchedDataset):
    """A dataset that is read by index."""

    def __getitem__(self, index: Any) -> Any:
        return next(self._samples) if self._switch.is_on else self._dataset[index]

    def __getitems__(self, indices: list[Any]) -> Any:
        if not self._switch.is_on and hasattr(self._dataset, "__getitems__"):
            return self._dataset.__getitems__(indices)
        return [self[index] for index in indices]


class _SwitchedStream(_SwitchedDataset):
    """A dataset that is read from its start."""

    def __iter__(self) -> Iterator[Any]:
        stream = iter(self._dataset)
        while True:
            try:
                item = next(self._samples if self._switch.is_on else stream)
            except StopIteration:
                return
            yield item


@contextmanager
def _larger_batches(loader: Any, size: int, switch: Switch) -> Iterator[None]:
    """Let a loader read larger batches."""
    sampler = _SwitchedBatchSampler(loader.batch_sampler, size, switch)
    with _with_attributes(loader, batch_sampler=sampler):
        yield


class _SwitchedBatchSampler:
    """Full batches of indices, of either size."""

    def __init__(self, batch_sampler: Any, size: int, switch: Switch) -> None:
        self.sampler, self.batch_size, self.drop_last = batch_sampler.sampler, batch_sampler.batch_size, True
        self._larger_size, self._switch, self._length = size, switch, len(batch_sampler)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while True:
            size = self._larger_size if self._switch.is_on else self.batch_size
            batch = list(islice(indices, size))
            if len(batch) < size:
                return
            yield batch


@contextmanager
def _other_threads(count: int, switch: Switch) -> Iterator[None]:
    """Compute with another number of threads."""
    present = torch.get_num_threads()
    switch.on_change.append(lambda is_on: torch.set_num_threads(count if is_on else present))
    try:
        yield
    finally:
        torch.set_num_threads(present)


@contextmanager
def _without_anomaly_mode(switch: Switch) -> Iterator[None]:
    """Switch the anomaly mode off, also where the loop switches it on, before its first step or in each."""
    original, present = torch.set_anomaly_enabled, (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    requested = [present]

    def set_enabled(enabled: bool, check_nan: bool = True) -> None:
        requested[0] = enabled, check_nan
        original(enabled and not switch.is_on, check_nan)

    switch.on_change.append(lambda _: set_enabled(*requested[0]))
    torch.set_anomaly_enabled = set_enabled
    try:
        yield
    finally:
        torch.set_anomaly_enabled = original
        original(*present)
