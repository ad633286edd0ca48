"""The tool errors(): predicts a data set, or takes predictions, and browses the errors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.options import Decode
from nbdebug.predictions.collection import collect_predictions
from nbdebug.predictions.dataframes import make_table
from nbdebug.predictions.table import PredictionTable
from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.modality import input_selector
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import dataset_length
from nbdebug.slices.input_properties import InputProperties, measure_properties
from nbdebug.tools.errors.cards import check_metadata, metadata_columns
from nbdebug.tools.errors.data import TryLabels
from nbdebug.tools.errors.result import Errors, Render
from nbdebug.tools.errors.tags import changed_samples_note, create_tags
from nbdebug.views.live import LiveScreen, show_view
from nbdebug.views.progress import ProgressView


def errors(
    setup: Setup,
    loader: Any = None,
    *,
    index: Any = None,
    metadata: Any = None,
    properties: bool = True,
    embed: str | nn.Module | None = None,
    render: Render | None = None,
    decode: Decode = None,
    tags: str | Path | None = None,
    try_labels: TryLabels | None = None,
) -> Errors:
    """Predict all samples of a loader ("val", "train" or your own) and return them with their errors.

    ``index`` holds the dataset indices of the samples, for a loader that does not reveal them. ``metadata`` is a frame
    or mapping of columns with a row per sample of the data set. ``properties`` adds measured columns such as brightness
    and length. ``embed`` is a layer whose output is stored as an embedding. ``render(sample)`` shows a sample,
    ``decode`` turns tokens into text, and ``tags`` is a CSV file of tags and notes. ``try_labels(browser, tag,
    action)`` trains copies with and without the labels of a tag when the page asks for it. In a notebook, an interrupt
    stops the pass and returns the samples so far; in a script it raises. User objects are unchanged. Raises SetupError
    for invalid arguments.
    """
    check_metadata(metadata)
    start, resolved_loader = time.perf_counter(), setup.resolve_loader(loader)
    measured = InputProperties()

    def measure_properties(batch: Batch, _: Any) -> dict[str, Any]:
        measured.add(batch.inputs)
        return {}

    progress = ProgressView("Model errors", total=dataset_length(resolved_loader))
    with show_view(progress) as screen:

        def on_progress(rows: int) -> bool:
            screen.update(ProgressView(progress.title, rows, progress.total))
            return screen.stopped

        live = isinstance(screen, LiveScreen)
        options = {"more": measure_properties if properties else None, "index": index, "embed": embed, "decode": decode}
        table = collect_predictions(setup, resolved_loader, on_progress, partial=live, **options)
        table = table.with_columns({**measured.columns(len(table)), **metadata_columns(metadata, table)})
        result = _create_errors(setup, resolved_loader, table, render, decode, tags, try_labels)
        result = replace(result, seconds=time.perf_counter() - start)
        screen.finish(result)
    return result


def _create_errors(
    setup: Setup,
    loader: Any,
    table: PredictionTable,
    render: Render | None,
    decode: Decode,
    tags: Any,
    try_labels: TryLabels | None,
) -> Errors:
    """Return the result for a table computed from a loader."""
    dataset = getattr(loader, "dataset", None) if table.index is not None else None
    samples = None
    if dataset is not None:
        near = [getattr(loader, "collate_fn", None)]
        options: dict[str, Any] = {"inputs": input_selector(setup), "render": render, "decode": decode, "near": near}
        samples = SampleDisplay(dataset, feature_names=setup.feature_names, **options)
    marks = create_tags(tags, table, samples)
    table = table.replace(notes=(*table.notes, *changed_samples_note(marks)))
    return Errors(table, table.headline(), samples, dataset, marks, setup=setup, _try_labels=try_labels)


def errors_from_predictions(
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
    """Browse existing predictions; ``inputs[i]`` is the sample of row i, if available.

    ``predictions`` are arrays, a DataFrame or a path of Parquet files; for the latter two, ``target``, ``prediction``
    and ``scores`` name columns. ``columns`` are additional columns; for inputs in memory, properties such as brightness
    and length are added. ``tags`` is a CSV file of tags and notes. Raises SetupError for inconsistent arguments.
    """
    targets = targets if target is None else target
    table = make_table(
        predictions, targets, prediction=prediction, scores=scores, class_names=class_names, columns=columns
    )
    if inputs is not None and len(inputs) != len(table):
        raise SetupError(f"inputs has {len(inputs)} rows; expected {len(table)}, as targets. Pass the same rows.")
    if isinstance(inputs, (Tensor, np.ndarray, list)):
        table = table.with_columns(
            {
                name: values
                for name, values in measure_properties(inputs).items()
                if len(values) == len(table) and name not in table.columns
            }
        )
    samples = SampleDisplay(inputs, render=render) if inputs is not None else None
    return Errors(table, table.headline(), samples, inputs, create_tags(tags, table, samples))
