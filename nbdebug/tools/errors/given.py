"""The browser of predictions that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.samples import Samples
from nbdebug.tools.errors.result import Errors, Render


def of_predictions(
    predictions: Any,
    targets: Any = None,
    inputs: Any = None,
    *,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    render: Render | None = None,
) -> Errors:
    """The browser of predictions that are there already; ``inputs[i]`` is the sample of row i, where there are any."""
    table = Predictions.of(predictions, targets, class_names=class_names, columns=columns)
    if inputs is not None and len(inputs) != len(table):
        raise SetupError(f"inputs has {len(inputs)} rows; expected {len(table)}, as targets. Pass the same rows.")
    samples = Samples(inputs, render=render) if inputs is not None else None
    return Errors(table, table.headline(), samples, inputs)
