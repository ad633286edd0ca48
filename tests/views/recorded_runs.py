"""Synthetic records of runs with any number of steps and layers."""

from __future__ import annotations

import numpy as np

from nbdebug.records import Record, RecordedModule
from nbdebug.records.record import layer_columns
from nbdebug.records.table import StepTable
from nbdebug.tensors.histogram_bins import BIN_COUNT, ZERO_BIN, pack_counts

SPREADS = {"weight": 0.05, "gradient": 1e-3, "update": 1e-5, "activation": 1.0}


def make_record(steps: int, layers: int = 3, snapshot_every: int = 10) -> Record:
    """A run whose layers have weight and bias; the weights have histograms of all families."""
    names = [f"block{i // 10}.{i % 10}.linear" for i in range(layers)]
    histogram_names = [f"{family}|{name}.weight" for family in ("weight", "gradient", "update") for name in names]
    histogram_names += [f"activation|{name}" for name in names]
    record = Record(about={"model": "Net"}, histogram_names=histogram_names)
    record.modules = [RecordedModule(name, "Linear", (f"{name}.weight", f"{name}.bias"), seen=True) for name in names]
    signals = [f"update.ratio|{name}.{parameter}" for name in names for parameter in ("weight", "bias")]
    signals += [f"activation.dead|{name}" for name in names]
    record.layers = StepTable([*layer_columns(histogram_names), *signals], record.layers.max_rows)
    append_steps(record, steps, snapshot_every)
    return record


def append_steps(record: Record, steps: int, snapshot_every: int = 10) -> None:
    """Append steps, with a snapshot of all layers every ``snapshot_every`` steps."""
    start = record.run.total_rows
    random = np.random.default_rng(start)
    spreads = np.array([SPREADS[name.partition("|")[0]] for name in record.histogram_names])
    for step in range(start, start + steps):
        loss = 2.3 * np.exp(-step / 300) + 0.1 * random.random()
        row = {"loss": loss, "lr": 0.1, "gradient_norm": random.lognormal(), "step_seconds": 0.002}
        record.run.append(step, row)
        if step % 200 == 0:
            record.evaluations.append(step, {"eval_loss": loss + 0.05, "sample_val_score": 1 - loss / 2.4})
        if step % snapshot_every == 0 and (
            record.layers.total_rows % record.layers.stride == 0 or record.shapes.is_next_stored
        ):
            record.layers.append(step, layer_statistics(record, random))
            record.shapes.append(step, pack_counts(histogram_counts(spreads, step, random)))
        elif step % snapshot_every == 0:
            record.layers.skip()
            record.shapes.total_rows += 1


def layer_statistics(record: Record, random: np.random.Generator) -> np.ndarray:
    """A row of ``layers``: zero shares, update ratios near 1e-3."""
    values = random.lognormal(size=len(record.layers.columns)).astype(np.float32)
    for name, i in record.layers.columns.items():
        signal = name.partition("|")[0]
        if signal.endswith((".zeros", ".nonfinite", ".dead")):
            values[i] = 0.0
        elif signal == "update.ratio":
            values[i] *= 1e-3
    return values


def histogram_counts(spreads: np.ndarray, step: int, random: np.random.Generator) -> np.ndarray:
    """Bin counts of normal distributions that widen slowly, one row for each spread."""
    middle = 2 * (np.log2(spreads)[:, None] + 30 + step / 20_000)
    size = np.abs(np.arange(BIN_COUNT) - ZERO_BIN)
    return random.poisson(400 * np.exp(-(((size - middle) / 4) ** 2)))
