"""The curves and the layers of a record as plain data, thinned like the page of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.formatting import round_number
from nbdebug.records import Record
from nbdebug.records.table import StepTable
from nbdebug.views.line_chart import thin_indices

_MAX_POINTS, _MAX_SNAPSHOTS = 400, 16


def curves(record: Record) -> dict[str, dict[str, list[Any]]]:
    """Return steps and values of each signal of the whole run; thinned, with the extremes kept."""
    names = dict.fromkeys([*record.run.columns, *record.evaluations.columns])
    return {name: _curve(record, name) for name in names}


def _curve(record: Record, signal: str) -> dict[str, list[Any]]:
    steps, values = record.series(signal)
    indices = thin_indices(values.tolist(), _MAX_POINTS)
    return {"steps": steps[indices].tolist(), "values": [round_number(float(values[index])) for index in indices]}


def describe_layers(record: Record) -> list[dict[str, Any]]:
    """Return name, class and parameters of each layer."""
    return [{"name": item.name, "class": item.kind, "parameters": [*item.parameters]} for item in record.modules]


def snapshots(record: Record) -> dict[str, Any]:
    """Return evenly spaced snapshots of the layers: steps, and the values of each ``signal|tensor``."""
    table: StepTable = record.layers
    steps, values = table.steps, table.values
    indices = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _MAX_SNAPSHOTS)).round().astype(int))
    if not len(steps):
        return {"steps": [], "statistics": {}}
    columns = {
        name: [round_number(float(value)) for value in values[indices, position]]
        for position, name in enumerate(table.columns)
    }
    return {"steps": steps[indices].tolist(), "statistics": columns}
