"""The tool: a pass over the data, or predictions that are there already, and the browser of what is wrong in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.metrics.intervals import wilson
from nbdebug.metrics.overall import accuracy
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.collect import collect
from nbdebug.predictions.stored import Stored
from nbdebug.predictions.table import Table
from nbdebug.samples import Samples
from nbdebug.setup import Setup
from nbdebug.tools.errors.result import Errors

Render = Callable[[Any], Any]


def errors(setup: Setup, loader: Any = None, *, render: Render | None = None) -> Errors:
    """The predictions of the model on a loader, else on the validation loader, else on the training one.

    Nothing of the user's is changed. ``render(sample)`` is the user's way to show a sample. Raises SetupError for a
    loader or a model that cannot be used.
    """
    start = time.perf_counter()
    loader = chosen(setup, loader)
    table = collect(setup, loader)
    dataset = getattr(loader, "dataset", None) if table.index is not None else None
    samples = Samples(dataset, render=render, feature_names=setup.feature_names) if dataset is not None else None
    return Errors(table, headline(table), samples, dataset, seconds=time.perf_counter() - start, setup=setup)


def chosen(setup: Setup, loader: Any) -> Any:
    """A loader as given, or by the name of its split; the validation loader, where nothing is said and there is one."""
    splits = {"val": setup.val_loader, "train": setup.train_loader}
    if loader is None:
        return next(one for one in splits.values() if one is not None)
    if not isinstance(loader, str):
        return loader
    if loader not in splits:
        raise SetupError(f"loader is {loader!r}; expected 'val', 'train' or a loader. Pass one of these.")
    if splits[loader] is None:
        raise SetupError("loader is 'val' and there is no val_loader; expected one. Pass it to Debugger.")
    return splits[loader]


def headline(table: Table) -> str:
    """The result in a line."""
    if not isinstance(table, Predictions | Stored):
        return f"{len(table)} samples"
    counted = int(table.matrix.sum())
    low, high = wilson(int(np.trace(table.matrix)), counted)
    return f"{accuracy(table.matrix):.1%} of {counted} samples right ({low:.1%} to {high:.1%})"
