"""The browser of predictions that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.predictions.sources import table_of
from nbdebug.samples import Samples
from nbdebug.slices.properties import measure
from nbdebug.tools.errors.marks import marks_of
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
    tags: str | Path | None = None,
) -> Errors:
    """The browser of predictions that are there already; ``inputs[i]`` is the sample of row i, where there are any.

    ``predictions`` are arrays, a DataFrame or a path of Parquet files; of the latter two ``target``, ``prediction`` and
    ``scores`` name columns. ``columns`` are what else is known of each row; of inputs that are at hand, brightness,
    length and the like are measured too. ``tags`` is a CSV file in which tags are kept. Raises SetupError for what does
    not fit together.
    """
    targets = targets if target is None else target
    table = table_of(
        predictions, targets, prediction=prediction, scores=scores, class_names=class_names, columns=columns
    )
    if inputs is not None and len(inputs) != len(table):
        raise SetupError(f"inputs has {len(inputs)} rows; expected {len(table)}, as targets. Pass the same rows.")
    if isinstance(inputs, (Tensor, np.ndarray, list)):
        table = table.with_columns(
            {name: one for name, one in measure(inputs).items() if len(one) == len(table) and name not in table.columns}
        )
    samples = Samples(inputs, render=render) if inputs is not None else None
    return Errors(table, table.headline(), samples, inputs, marks_of(tags, table, samples))
