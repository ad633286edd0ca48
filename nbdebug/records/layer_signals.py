"""Layer signals of a run: one statistic as a matrix, snapshots × names; gradient size by depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import NotChecked
from nbdebug.finding import format_module
from nbdebug.formatting import join_names
from nbdebug.records.record import Record

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
_MIN_SETTLED_STEPS = 100  # steps
_WARM_UP_SHARE = 0.1  # share of the steps that count as warm-up
MIN_SNAPSHOTS, _MAX_SNAPSHOTS = 8, 128  # snapshots
_FINITE_STATISTICS = (
    "norm",
    "mean",
    "std",
    "absmax",
    "ratio",
)  # of the finite values; set to infinity if some were not finite
_ZERO_INIT_UPDATE_SHARE = 0.9  # a first update above this share of the weight means zero initialization
_MIN_LAYERS = 4
MIN_DEPTH_CORRELATION = 0.6  # correlation of the log gradient size with depth


@dataclass(frozen=True)
class LayerSignal:
    """One signal: the steps of its snapshots, its names in model order, and a value for each pair.

    NaN if a value was not measured, infinite if it was not finite.
    """

    steps: NDArray[np.int64]
    names: tuple[str, ...]
    values: Values

    def __getitem__(self, indices: Iterable[int] | slice) -> LayerSignal:
        """Select snapshots."""
        rows = indices if isinstance(indices, slice) else list(indices)
        return LayerSignal(self.steps[rows], self.names, self.values[rows])

    def select(self, names: Iterable[str]) -> LayerSignal:
        """Select names, in the given order; names that were never measured are NaN."""
        selected, column_by_name = tuple(names), {name: i for i, name in enumerate(self.names)}
        blank = np.full(len(self.steps), np.nan)
        columns = [self.values[:, column_by_name[name]] if name in column_by_name else blank for name in selected]
        return LayerSignal(self.steps, selected, np.stack(columns, 1) if columns else self.values[:, :0])

    @property
    def after_warm_up(self) -> LayerSignal:
        """The snapshots after the first tenth of the run."""
        return self.after_share(_WARM_UP_SHARE)

    @property
    def second_half(self) -> LayerSignal:
        """The snapshots in the second half of the run."""
        return self.after_share(0.5)

    def after_share(self, share: float) -> LayerSignal:
        """Return the snapshots after a share of the steps, at least the last three."""
        start = int(np.searchsorted(self.steps, share * self.steps[-1])) if len(self.steps) else 0
        return self[min(start, max(len(self.steps) - 3, 0)) :]

    @property
    def median(self) -> Values:
        """The median over the snapshots, for each name."""
        return self.quantile(0.5)

    @property
    def largest(self) -> Values:
        """The largest finite value for each name; NaN if there is none."""
        maxima = np.where(np.isfinite(self.values), self.values, -np.inf).max(0, initial=-np.inf)
        return np.where(np.isfinite(maxima), maxima, np.nan)

    def quantile(self, share: float) -> Values:
        """Return a quantile over the measured snapshots, for each name; NaN if there are none."""
        ordered, counts = np.sort(self.values, axis=0), (~np.isnan(self.values)).sum(0)
        if not len(ordered):
            return np.full(len(self.names), np.nan)
        position = share * (np.maximum(counts, 1) - 1)
        low, high = np.floor(position).astype(int), np.ceil(position).astype(int)
        columns = np.arange(len(self.names))
        with np.errstate(invalid="ignore"):
            fraction = np.where(
                position > low, (position - low) * (ordered[high, columns] - ordered[low, columns]), 0.0
            )
        return np.asarray(ordered[low, columns] + fraction)


def get_layer_signal(
    record: Record,
    signal: str,
    names: Iterable[str] | None = None,
    min_snapshots: int = MIN_SNAPSHOTS,
    max_snapshots: int = _MAX_SNAPSHOTS,
) -> LayerSignal:
    """Return a signal at all or selected names, at up to ``max_snapshots`` snapshots spread over the run.

    Raises NotChecked with fewer than ``min_snapshots`` snapshots.
    """
    prefix, record_columns = f"{signal}|", record.layers.columns
    selected = (
        [name[len(prefix) :] for name in record_columns if name.startswith(prefix)] if names is None else [*names]
    )
    rows = np.unique(np.linspace(0, max(record.layers.rows - 1, 0), max_snapshots).astype(int))[: record.layers.rows]
    table = _signal_columns(record, signal, selected, rows)
    family, _, statistic = signal.partition(".")
    if statistic in _FINITE_STATISTICS:
        table[_signal_columns(record, f"{family}.nonfinite", selected, rows) > 0] = np.inf
    is_measured = ~np.isnan(table).all(1)
    if is_measured.sum() < min_snapshots:
        raise NotChecked(
            f"only {is_measured.sum()} snapshots of {signal} were recorded; at least {min_snapshots} are needed"
        )
    return LayerSignal(record.layers.steps[rows[is_measured]], tuple(selected), table[is_measured])


def _signal_columns(record: Record, signal: str, names: Iterable[str], rows: NDArray[np.int64]) -> Values:
    """Return a column of the record for each name; NaN if there is none."""
    column_names, record_columns = [f"{signal}|{signal_name}" for signal_name in names], record.layers.columns
    table = np.full((len(rows), len(column_names)), np.nan)
    available = [(i, record_columns[name]) for i, name in enumerate(column_names) if name in record_columns]
    table[:, [i for i, _ in available]] = record.layers.values[
        np.ix_(rows, np.array([column for _, column in available], np.int64))
    ]
    return table


def layer_weights(record: Record) -> list[str]:
    """Return the parameters that map one layer to another, in order, without biases, norms and embeddings."""
    skipped_kinds = ("Norm", "Embedding")
    layers = (layer for layer in record.modules if not any(kind in layer.kind for kind in skipped_kinds))
    return [name for layer in layers for name in layer.parameters if "bias" not in name.rpartition(".")[2]]


def zero_initialized(record: Record) -> set[str]:
    """Return the parameters initialized at (nearly) zero: their first update is most of their value after it."""
    ratios = get_layer_signal(record, "update.ratio", min_snapshots=1)
    is_measured = ~np.isnan(ratios.values)
    first_ratios = np.where(is_measured.any(0), ratios.values[is_measured.argmax(0), np.arange(len(ratios.names))], 0.0)
    is_zero = get_layer_signal(record, "weight.norm", ratios.names, 1).values[0] == 0
    flags = zip(ratios.names, (first_ratios > _ZERO_INIT_UPDATE_SHARE) | is_zero, strict=True)
    return {name for name, is_zero_initialized in flags if is_zero_initialized}


def value_counts(record: Record, parameters: Iterable[str]) -> Values:
    """Return the number of values of each parameter from its norm, mean and std; infinite if all are zero.

    Raises NotChecked for a record without a snapshot.
    """
    if not record.layers.rows:
        raise NotChecked("no snapshot of the weights was recorded")
    first = np.zeros(1, np.int64)
    norm, mean, std = (
        _signal_columns(record, f"weight.{statistic}", parameters, first) for statistic in ("norm", "mean", "std")
    )
    with np.errstate(all="ignore"):
        estimates = norm**2 / (mean**2 + std**2)
    return np.asarray(np.where(np.isfinite(estimates), np.rint(estimates), np.inf).ravel())


def describe_values(names: Iterable[str], values: Iterable[float], max_names: int = 3) -> str:
    """Format some names with their values: ``fc1.weight (0.012), module 3 (0.5) and 2 more``."""
    pairs = [f"{format_module(name)} ({value:.2g})" for name, value in zip(names, values, strict=True)]
    return join_names(pairs, max_names)


def module_of_output(output_name: str) -> str:
    """Return the module path of an output name, which may include the number of a call or an output."""
    return output_name.partition("#")[0].partition("[")[0]


def module_of_parameter(parameter: str) -> str | None:
    """Return the path of the submodule that holds a parameter."""
    return parameter.rpartition(".")[0] or None


def recorded_batch_size(record: Record) -> float:
    """Return the batch size, as far as the record has it; otherwise a small default."""
    metadata = record.about
    samples_per_batch = float(metadata.get("train_samples") or 0) / float(metadata.get("batches_per_epoch") or 1)
    return max(float(metadata.get("batch_size") or samples_per_batch or MIN_SNAPSHOTS), 1.0)


def _loss_level(record: Record) -> tuple[float, float]:
    """Return the initial loss, and the median of the last fifth; raise NotChecked with too few values.

    The initial loss is that of the first step, or the median of three if the first is higher.
    """
    losses = record.series("loss")[1].astype(np.float64)
    if len(losses) < MIN_SNAPSHOTS:
        raise NotChecked(f"only {len(losses)} loss values recorded; at least {MIN_SNAPSHOTS} are needed")
    first = min(float(losses[0]), float(np.median(losses[:3])))
    return first, float(np.median(losses[-max(3, len(losses) // 5) :]))


def is_settled(record: Record) -> bool:
    """Return whether a run has finished, or is past the warm-up of its learning rate."""
    if record.about.get("finished", True):
        return True
    rates = record.series("lr")[1]
    return record.steps >= _MIN_SETTLED_STEPS and not (len(rates) and rates[-1] > 1.02 * rates[3 * len(rates) // 4])


def has_learned(record: Record, share: float = 0.7) -> bool:
    """Return whether the loss has fallen below a share of its initial value."""
    first, last = _loss_level(record)
    return 0 <= last < share * first


@dataclass(frozen=True)
class DepthProfile:
    """The layers in order, with log10 of their gradient norms, absolute and relative to their weight norms."""

    layers: tuple[str, ...]
    gradient: Values
    relative: Values

    @property
    def trend(self) -> float:
        """The correlation of relative gradient size and depth: near 1 if gradients shrink towards the input."""
        ranks = np.arange(len(self.layers))
        return float(np.corrcoef(ranks, self.relative)[0, 1]) if np.ptp(self.relative) > 0 else 0.0


def depth_profile(record: Record, min_snapshots: int) -> DepthProfile:
    """Return the layers with gradients, except norms and embeddings; raise NotChecked if there are too few.

    The weights and biases of a layer count together: a layer with small initial weights still passes a gradient to its
    bias, and one before a norm only to its weight.
    """
    gradient_signals, weight_signals = (
        get_layer_signal(record, "gradient.norm", min_snapshots=min_snapshots),
        get_layer_signal(record, "weight.norm", min_snapshots=min_snapshots),
    )
    parameters_with_gradient = set(gradient_signals.names)
    layers = [
        layer
        for layer in record.modules
        if parameters_with_gradient & set(layer.parameters) and _maps_layers(layer.kind)
    ]
    names, parameter_groups = tuple(layer.name for layer in layers), [layer.parameters for layer in layers]
    gradient_norms, weight_norms = (
        _group_norms(gradient_signals, parameter_groups),
        _group_norms(weight_signals, parameter_groups),
    )
    is_usable = (gradient_norms > 0) & (weight_norms > 0) & np.isfinite(gradient_norms) & np.isfinite(weight_norms)
    if is_usable.sum() < _MIN_LAYERS:
        raise NotChecked(f"{int(is_usable.sum())} layers have a gradient; a trend needs at least {_MIN_LAYERS}")
    log_norms = np.log10(gradient_norms[is_usable]), np.log10(gradient_norms[is_usable] / weight_norms[is_usable])
    return DepthProfile(tuple(name for name, is_used in zip(names, is_usable, strict=True) if is_used), *log_norms)


def _maps_layers(kind: str) -> bool:
    """Return whether a module of this kind maps one layer to the next."""
    return "Norm" not in kind and "Embedding" not in kind


def _group_norms(signal: LayerSignal, groups: list[tuple[str, ...]]) -> Values:
    """Return the norm of each parameter group: its median over the finite snapshots after the warm-up."""
    parameter_signal = signal.select(name for group in groups for name in group).after_warm_up
    starts = np.cumsum([0, *(len(group) for group in groups)])[:-1]
    if not groups:
        return np.zeros(0)
    is_measured = np.add.reduceat(~np.isnan(parameter_signal.values), starts, axis=1, dtype=int) > 0
    norms = np.sqrt(
        np.add.reduceat(np.nan_to_num(parameter_signal.values, nan=0.0, posinf=np.inf) ** 2, starts, axis=1)
    )
    finite_norms = np.where(is_measured & np.isfinite(norms), norms, np.nan)
    return LayerSignal(parameter_signal.steps, ("",) * len(groups), finite_norms).median
