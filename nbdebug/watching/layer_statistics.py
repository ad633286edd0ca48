"""Statistics of each layer, from snapshots to rows of the record."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.records import Record
from nbdebug.records.record import layer_columns
from nbdebug.tensors.histogram_bins import BIN_COUNT, TENSOR_STATISTICS, pack_counts
from nbdebug.tensors.sampling import TensorSampler, segment_histograms, segment_statistics
from nbdebug.tensors.unit_activity import DeadUnits, saturated_share
from nbdebug.watching.optimizer_steps import LayerSnapshot, WatchedModules
from nbdebug.watching.step_recorder import fetch_values

_FAMILIES = ("weight", "gradient", "update")
_ZEROS, _ABSMAX = TENSOR_STATISTICS.index("zeros"), TENSOR_STATISTICS.index("absmax")
_EPSILON = 1e-8  # relative to a weight's root mean square: a layer initialized with zeros has no ratio yet
_MAX_PENDING_VALUES = 1 << 18  # buffered at once, 1 MiB
_MAX_PENDING_SECONDS = 0.5  # several snapshots together take little more time than one
_Floats = NDArray[np.float32]


class LayerStatistics:
    """Turns snapshots into rows of a record, several snapshots at once.

    The training step evicts our data from the CPU caches, so processing several snapshots together takes half the time.
    """

    def __init__(self, modules: WatchedModules, sampler: TensorSampler, record: Record) -> None:
        self.sampler, self.record = sampler, record
        self.names = list(modules.parameters)
        self.dead_units, self.column_indices = DeadUnits(), dict[tuple[str, ...], NDArray[np.int64]]()
        self.pending: list[LayerSnapshot | None] = []
        self.parameter_values, self.pending_values = 3 * int(sampler.sizes.sum()), 0
        self.last_flush = time.perf_counter()
        signal_names = [f"{family}|{name}" for family in _FAMILIES for name in self.names]
        record.histogram_names.extend(signal_names)
        record.layers.widen([*layer_columns(signal_names), *(f"update.ratio|{name}" for name in self.names)])

    def wants_snapshot(self) -> bool:
        """Return whether the thinned record would keep a snapshot; skipped snapshots are only counted."""
        layers, shapes, pending_count = self.record.layers, self.record.shapes, len(self.pending)
        is_wanted = (layers.total_rows + pending_count) % layers.stride == 0 or (
            shapes.total_rows + pending_count
        ) % shapes.stride == 0
        if not is_wanted:
            self.pending.append(None)
        return is_wanted

    def add(self, snapshot: LayerSnapshot) -> None:
        """Add a snapshot, possibly before its weights are sampled; ``flush`` writes its row at the latest."""
        if self.pending_values > _MAX_PENDING_VALUES:
            self.flush()
        self.pending.append(snapshot)
        self.pending_values += self.parameter_values + snapshot.max_values * len(snapshot.outputs)

    @property
    def are_due(self) -> bool:
        """True if it is time to write the rows of pending snapshots."""
        return time.perf_counter() - self.last_flush > _MAX_PENDING_SECONDS

    def flush(self) -> None:
        """Write the rows of all pending snapshots."""
        self.last_flush = time.perf_counter()
        snapshots, self.pending, self.pending_values = self.pending, [], 0
        for layout, group in groupby(snapshots, key=lambda snapshot: None if snapshot is None else snapshot.layout):
            if layout is None:
                self.count_skipped(len(list(group)))
            else:
                self.write_rows([snapshot for snapshot in group if snapshot is not None])

    def count_skipped(self, count: int) -> None:
        """Count snapshots that were not taken."""
        self.record.shapes.total_rows += count
        for _ in range(count):
            self.record.layers.skip()

    def write_rows(self, snapshots: Sequence[LayerSnapshot]) -> None:
        """Write one row of statistics per snapshot, and one of histograms if it is due."""
        layers, parameter_entries = self.record.layers, 3 * len(self.names)
        names = [f"activation|{output_name}" for output_name in snapshots[0].outputs]
        column_indices, missing = (
            self.activation_columns(names),
            np.array([self.missing_entries(snapshot) for snapshot in snapshots]),
        )
        values, starts, lengths = self.gather_samples(snapshots)
        table = segment_statistics(values.reshape(-1), _tile_starts(starts, values), np.tile(lengths, len(snapshots)))
        table = table.reshape(*missing.shape, -1)
        table[missing] = np.nan
        self.insert_largest(table, snapshots)
        ratios = self.update_ratios(table)
        outputs_start = 3 * int(self.sampler.sizes.sum())
        for snapshot, numbers, ratio, samples in zip(snapshots, table, ratios, values, strict=True):
            row = layers.complete_row(
                self.unit_activity(snapshot, numbers[parameter_entries:], samples[outputs_start:])
            )
            row[: numbers[:parameter_entries].size] = numbers[:parameter_entries].ravel()
            row[numbers[:parameter_entries].size : numbers[:parameter_entries].size + len(ratio)] = ratio
            row[column_indices] = numbers[parameter_entries:].ravel()
            layers.append(snapshot.step, row)
        self.write_histograms(snapshots, names, values, starts, missing)

    def insert_largest(self, table: _Floats, snapshots: Sequence[LayerSnapshot]) -> None:
        """Insert the exact largest absolute values."""
        entries = [(i, key, value) for i, snapshot in enumerate(snapshots) for key, value in snapshot.largest.items()]
        numbers = fetch_values([value for *_, value in entries])
        for (i, (family, parameter_index), _), value in zip(entries, numbers, strict=True):
            table[i, _FAMILIES.index(family) * len(self.names) + parameter_index, _ABSMAX] = value

    def gather_samples(
        self, snapshots: Sequence[LayerSnapshot]
    ) -> tuple[_Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Return all samples on the host, one row per snapshot, and each tensor's start in a row and true length."""
        sizes, device = self.sampler.sizes, self.sampler.device
        sample_size, zeros = int(sizes.sum()), torch.zeros(int(sizes.sum()), device=device)
        parts = []
        for snapshot in snapshots:
            parts += [
                zeros if sample is None else sample
                for sample in (snapshot.weights_after, snapshot.gradients, snapshot.weights_before)
            ]
            parts += [values.to(device, torch.float32) for _, values, _ in snapshot.outputs.values()]
        values = torch.cat(parts).cpu().numpy().reshape(len(snapshots), -1)
        before = values[:, 2 * sample_size : 3 * sample_size]
        np.subtract(values[:, :sample_size], before, out=before)
        outputs = [(len(values), length) for _, values, length in snapshots[0].outputs.values()]
        sizes_per_entry = np.concatenate([np.tile(sizes, 3), [size for size, _ in outputs]]).astype(np.int64)
        lengths = np.concatenate([np.tile(self.sampler.lengths, 3), [length for _, length in outputs]])
        return values, np.cumsum(sizes_per_entry) - sizes_per_entry, lengths.astype(np.int64)

    def missing_entries(self, snapshot: LayerSnapshot) -> list[bool]:
        """Return which entries are missing: no step, no gradient, or not updated."""
        count = len(self.names)
        gradients = [not is_present for is_present in snapshot.has_gradient] or [True] * count
        updates = [snapshot.weights_before is None or not is_present for is_present in snapshot.is_stepped] or [
            True
        ] * count
        return [snapshot.weights_after is None] * count + gradients + updates + [False] * len(snapshot.outputs)

    def update_ratios(self, table: _Floats) -> _Floats:
        """Return update norm divided by weight norm, one row per snapshot."""
        count = len(self.names)
        min_norms = _EPSILON * np.sqrt(self.sampler.lengths)
        return np.asarray(table[:, 2 * count : 3 * count, 0] / np.maximum(table[:, :count, 0], min_norms), np.float32)

    def activation_columns(self, names: list[str]) -> NDArray[np.int64]:
        """Return the column indices of the statistics of some activations."""
        key, layers = tuple(names), self.record.layers
        if key not in self.column_indices:
            columns = layer_columns(names)
            layers.widen(columns)
            self.column_indices[key] = np.array([layers.columns[column] for column in columns], np.int64)
            self.record.histogram_names.extend(name for name in names if name not in self.record.histogram_names)
        return self.column_indices[key]

    def unit_activity(self, snapshot: LayerSnapshot, table: _Floats, values: _Floats) -> dict[str, float]:
        """Return the shares of dead units and of saturated values by column, if they apply to the module.

        ``values`` are the samples of all outputs, one output after the other.
        """
        cells, live_units = {}, _fetch_units(snapshot.live_units)
        sizes = [len(sample) for _, sample, _ in snapshot.outputs.values()]
        samples = np.split(values, np.cumsum(sizes)[:-1]) if sizes else []
        for (name, (module_type, _, _)), numbers, sample in zip(snapshot.outputs.items(), table, samples, strict=True):
            if (saturation := saturated_share(module_type, sample)) is not None:
                cells[f"activation.saturated|{name}"] = saturation
            if name in live_units and numbers[_ZEROS] > 0:
                cells[f"activation.dead|{name}"] = self.dead_units.dead_share(name, live_units[name])
        return cells

    def write_histograms(
        self,
        snapshots: Sequence[LayerSnapshot],
        names: list[str],
        values: _Floats,
        starts: NDArray[np.int64],
        missing: NDArray[np.bool_],
    ) -> None:
        """Write histograms in the order in which signals first appeared; missing signals are all zero."""
        histogram_table, signal_names = self.record.shapes, self.record.histogram_names
        due_indices = [
            i for i in range(len(snapshots)) if (histogram_table.total_rows + i) % histogram_table.stride == 0
        ]
        due_values = values if len(due_indices) == len(values) else values[due_indices]
        packed_histograms = pack_counts(segment_histograms(due_values.reshape(-1), _tile_starts(starts, due_values)))
        packed_histograms = packed_histograms.reshape(len(due_indices), len(starts), BIN_COUNT)
        packed_histograms[missing[due_indices]] = 0
        signal_indices = [*range(3 * len(self.names)), *map(signal_names.index, names)]
        rows = np.zeros((len(due_indices), len(signal_names), BIN_COUNT), np.uint8)
        rows[:, signal_indices] = packed_histograms
        row_by_snapshot = dict(zip(due_indices, rows, strict=True))
        for i, snapshot in enumerate(snapshots):
            histogram_table.append(snapshot.step, row_by_snapshot.get(i))


def _tile_starts(starts: NDArray[np.int64], values: _Floats) -> NDArray[np.int64]:
    """Return where each tensor begins after the rows are concatenated."""
    return np.asarray((np.arange(len(values))[:, None] * values.shape[1] + starts).reshape(-1))


def _fetch_units(live_units: Mapping[str, Tensor]) -> dict[str, NDArray[np.bool_]]:
    """Return which units are live, by output, with one device synchronization."""
    if not live_units:
        return {}
    units = torch.cat([tensor.flatten() for tensor in live_units.values()]).cpu().numpy()
    parts = np.split(units, np.cumsum([tensor.numel() for tensor in live_units.values()])[:-1])
    return dict(zip(live_units, parts, strict=True))
