"""What each rank has observed of its loop, in a form that other ranks read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import Any


@dataclass(frozen=True)
class CodePlace:
    """A line of the user's code."""

    file: str
    number: int
    function: str = ""


@dataclass(frozen=True)
class RankReport:
    """What one rank has observed of its loop; hashes are equal for equal bits.

    ``epoch_batches`` are the numbers of batches drawn in each epoch, ``planned_batches`` the length of the loader.
    ``batch_rows`` are the samples in each of the first batches, ``batch_targets`` their targets that the loss does not
    ignore, and ``sample_hashes`` the hashes of the inputs of these samples. ``dataset_samples`` is the size of the
    dataset, ``sampler_seed`` the seed of a DistributedSampler.

    ``initial_weights`` and ``final_weights`` are the hashes of the parameters by name. ``local_batch_norms`` are layers
    that normalize with the samples of this rank only, ``batch_statistics`` the hashes of their running means.
    ``root_function`` is the function that computed the loss last. ``without_gradient`` are trainable parameters that
    no backward pass of the first steps reached.

    ``model_part`` is the value of the ModelPart that the rank holds. ``wrapper`` names what synchronizes the ranks;
    ``broadcasts_buffers`` is its setting, ``joins`` tells whether it runs under ``join``, and
    ``unsynchronized_parameters`` are those it does not know. Of the ``passes`` through the model, ``bypassing_passes``
    were not calls of the wrapper; of the ``backwards``, ``unsynchronized_backwards`` ran under ``no_sync``.

    ``random_states`` are hashes of the state of each generator before the first passes. ``own_seconds`` are the seconds
    of the last steps until the backward pass began, which waits for the others: their median, and in
    ``least_own_seconds`` their lower quartile. ``step_seconds`` is the median of all their seconds. ``busiest_line`` is
    the line at which samples of the stack found this rank most often outside of the backward pass. ``shard_norms`` are
    the gradient norms of the shards of this rank, by signal, as pairs of a step and its norm. ``error`` is the
    exception that ended the loop.
    """

    rank: int = 0
    host: str = ""
    steps: int = 0
    error: str = ""
    epoch_batches: tuple[int, ...] = ()
    planned_batches: int = 0
    batch_rows: tuple[int, ...] = ()
    batch_targets: tuple[int, ...] = ()
    sample_hashes: tuple[int, ...] = ()
    dataset_samples: int = 0
    sampler_seed: int | None = None
    initial_weights: Mapping[str, int] = field(default_factory=dict)
    final_weights: Mapping[str, int] = field(default_factory=dict)
    batch_statistics: Mapping[str, int] = field(default_factory=dict)
    local_batch_norms: tuple[str, ...] = ()
    without_gradient: tuple[str, ...] = ()
    wrapper: str = ""
    model_part: str = ""
    broadcasts_buffers: bool = True
    joins: bool = False
    root_function: str = ""
    unsynchronized_parameters: tuple[str, ...] = ()
    passes: int = 0
    bypassing_passes: int = 0
    backwards: int = 0
    unsynchronized_backwards: int = 0
    random_states: Mapping[str, Sequence[int]] = field(default_factory=dict)
    own_seconds: float = 0.0
    least_own_seconds: float = 0.0
    step_seconds: float = 0.0
    busiest_line: CodePlace | None = None
    shard_norms: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    lines: Mapping[str, CodePlace] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> RankReport:
        """Return the report in a text; fields of another version are left out."""
        content: dict[str, Any] = {name: value for name, value in json.loads(text).items() if name in _FIELDS}
        content = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
        content["busiest_line"] = CodePlace(**line) if (line := content.get("busiest_line")) else None
        content["lines"] = {event: CodePlace(**line) for event, line in content.get("lines", {}).items()}
        return cls(**content)


_FIELDS = {item.name for item in fields(RankReport)}


@dataclass(frozen=True)
class RankStall:
    """A time in which no rank finished a step: the ranks for which the others waited, and where the first of them was.

    ``is_lost`` states that they gave no sign of life; ``description`` has one sentence for each rank.
    """

    ranks: tuple[int, ...]
    is_lost: bool
    place: CodePlace | None
    description: str
    seconds: float


@dataclass(frozen=True)
class RankReports:
    """The reports of all ranks that have written one, by rank; ``size`` is the number of ranks.

    ``silent_ranks`` have not reported. ``planned_batches`` are the lengths of the training loaders, also of ranks that
    have not reported but were in the loop.
    """

    reports: tuple[RankReport, ...]
    size: int
    silent_ranks: tuple[int, ...] = ()
    stalls: tuple[RankStall, ...] = ()
    planned_batches: Mapping[int, int] = field(default_factory=dict)

    def differing_names(self, name: str) -> dict[str, tuple[int, ...]]:
        """Return the parameters whose hashes in a field differ between ranks, with the ranks that differ from most."""
        tables: list[Mapping[str, int]] = [getattr(report, name) for report in self.reports]
        shared = [key for key in tables[0] if all(key in table for table in tables)]
        values = {key: [table[key] for table in tables] for key in shared}
        return {key: self._ranks_apart(row) for key, row in values.items() if len(set(row)) > 1}

    def whole_norms(self, signal: str) -> dict[int, float]:
        """Return the norm of a sharded gradient at each step at which all ranks have measured that of their shards."""
        tables = [{int(step): norm for step, norm in report.shard_norms.get(signal, ())} for report in self.reports]
        steps = set.intersection(*map(set, tables)) if len(tables) == self.size else set()
        return {step: math.hypot(*(table[step] for table in tables)) for step in sorted(steps)}

    def _ranks_apart(self, values: list[int]) -> tuple[int, ...]:
        """Return the ranks whose value is not the most frequent one; of equally frequent ones, the first counts."""
        usual = max(values, key=lambda value: (values.count(value), -values.index(value)))
        return tuple(report.rank for report, value in zip(self.reports, values, strict=True) if value != usual)


def lower_quartile_or_zero(values: Iterable[float]) -> float:
    """Return the value that a quarter of the values stay below, or 0 without values."""
    numbers = sorted(values)
    return numbers[len(numbers) // 4] if numbers else 0.0


def median_or_zero(values: Iterable[float]) -> float:
    """Return the median, or 0 without values."""
    numbers = list(values)
    return median(numbers) if numbers else 0.0


def name_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as text: ``rank 1``, ``ranks 0 and 2``."""
    numbers = [str(rank) for rank in ranks]
    if len(numbers) < 2:
        return f"rank {''.join(numbers)}"
    return f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"
