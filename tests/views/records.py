"""Records of runs that were never made: as long and as wide as a test asks for."""

from __future__ import annotations

import numpy as np

from nbdebug.records import Record, RecordedModule
from nbdebug.records.record import layer_columns
from nbdebug.records.table import StepTable
from nbdebug.tensors.histogram_bins import BIN_COUNT, ZERO_BIN, pack_counts

SPREADS = {"weight": 0.05, "gradient": 1e-3, "update": 1e-5, "activation": 1.0}


def recorded(steps: int, layers: int = 3, look: int = 10) -> Record:
    """A run in which each layer has a weight and a bias, ``weight`` of which is drawn with all families."""
    names = [f"block{i // 10}.{i % 10}.linear" for i in range(layers)]
    drawn = [f"{family}|{name}.weight" for family in ("weight", "gradient", "update") for name in names]
    drawn += [f"activation|{name}" for name in names]
    record = Record(about={"model": "Net"}, histogram_names=drawn)
    record.modules = [RecordedModule(name, "Linear", (f"{name}.weight", f"{name}.bias"), seen=True) for name in names]
    signals = [f"update.ratio|{name}.{own}" for name in names for own in ("weight", "bias")]
    signals += [f"activation.dead|{name}" for name in names]
    record.layers = StepTable([*layer_columns(drawn), *signals], record.layers.max_rows)
    grown(record, steps, look)
    return record


def grown(record: Record, steps: int, look: int = 10) -> None:
    """More steps, and a look at all layers each ``look`` of them."""
    start = record.run.total_rows
    random = np.random.default_rng(start)
    families = [name.partition("|")[0] for name in record.histogram_names]
    for step in range(start, start + steps):
        loss = 2.3 * np.exp(-step / 300) + 0.1 * random.random()
        row = {"loss": loss, "lr": 0.1, "gradient_norm": random.lognormal(), "step_seconds": 0.002}
        record.run.append(step, row)
        if step % 200 == 0:
            record.evaluations.append(step, {"eval_loss": loss + 0.05, "sample_val_score": 1 - loss / 2.4})
        if step % look == 0 and (record.layers.total_rows % record.layers.stride == 0 or record.shapes.is_next_stored):
            record.layers.append(step, statistics(record, random))
            record.shapes.append(step, pack_counts(np.stack([humps(SPREADS[one], step, random) for one in families])))
        elif step % look == 0:
            record.layers.skip()
            record.shapes.total_rows += 1


def statistics(record: Record, random: np.random.Generator) -> np.ndarray:
    """A row of ``layers``: shares for shares, ratios near their band."""
    values = random.lognormal(size=len(record.layers.columns)).astype(np.float32)
    for name, i in record.layers.columns.items():
        signal = name.partition("|")[0]
        if signal.endswith((".zeros", ".nonfinite", ".dead")):
            values[i] = 0.0
        elif signal == "update.ratio":
            values[i] *= 1e-3
    return values


def humps(spread: float, step: int, random: np.random.Generator) -> np.ndarray:
    """Counts of a normal distribution that widens slowly."""
    middle = 2 * (np.log2(spread) + 30 + step / 20_000)
    size = np.abs(np.arange(BIN_COUNT) - ZERO_BIN)
    return random.poisson(400 * np.exp(-(((size - middle) / 4) ** 2)))
