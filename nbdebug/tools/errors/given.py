"""The browser of predictions that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.predictions.sources import table_of
from nbdebug.samples import Samples
from nbdebug.tools.errors.result import Errors, Render


def of_predictions(
    predictions: Any,
    targets: Any = None,
    inputs: Any = None,
    *,
    target: str | None = None,
    prediction: str | None = None,
    scores: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    render: Render | None = None,
) -> Errors:
    """The browser of predictions that are there already; ``inputs[i]`` is the sample of row i, where there are any.

    ``predictions`` are arrays, a DataFrame or a path of Parquet files; of the latter two ``target``, ``prediction`` and
    ``scores`` name columns. Raises SetupError for what does not fit together.
    """
    targets = targets if target is None else target
    table = table_of(
        predictions, targets, prediction=prediction, scores=scores, class_names=class_names, columns=columns
    )
    if inputs is not None and len(inputs) != len(table):
        raise SetupError(f"inputs has {len(inputs)} rows; expected {len(table)}, as targets. Pass the same rows.")
    samples = Samples(inputs, render=render) if inputs is not None else None
    return Errors(table, table.headline(), samples, inputs)
