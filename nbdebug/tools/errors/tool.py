"""The tool: a pass over the data, and the browser of what the model gets wrong in them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.predictions.collect import collect
from nbdebug.predictions.table import Table
from nbdebug.predictions.tokens import Decode
from nbdebug.samples import Samples
from nbdebug.samples.parts import inputs_of
from nbdebug.setup import Batch, Setup
from nbdebug.slices.properties import Properties
from nbdebug.tools.errors.marks import marks_of, unlike
from nbdebug.tools.errors.metadata import described
from nbdebug.tools.errors.result import Errors, Render
from nbdebug.views.progress import ProgressView
from nbdebug.views.screen import LiveScreen, show


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
) -> Errors:
    """The predictions of the model on a loader ("val", "train" or one of your own), and the samples behind them.

    ``index`` holds the places of the samples in the data set, for a loader that does not tell them. ``metadata`` is a
    frame, or a mapping of columns, with a row for each sample of the data set; ``properties`` says whether brightness,
    length and the like of the inputs are measured too. ``embed`` is a layer whose output is kept as an embedding,
    ``render(sample)`` your way to show a sample, ``decode`` what turns tokens into text, and ``tags`` a CSV file in
    which tags and notes are kept. An interrupt in a notebook is a Stop and gives what there is; elsewhere it is raised.
    Nothing of the user's is changed. Raises SetupError for what cannot be used.
    """
    start, found = time.perf_counter(), chosen(setup, loader)
    measured = Properties()

    def more(batch: Batch, _: Any) -> dict[str, Any]:
        measured.add(batch.inputs)
        return {}

    waiting = ProgressView("What it gets wrong", total=length(found))
    with show(waiting) as screen:

        def seen(rows: int) -> bool:
            screen.update(ProgressView(waiting.title, rows, waiting.total))
            return screen.stopped

        live = isinstance(screen, LiveScreen)
        told = {"more": more if properties else None, "index": index, "embed": embed, "decode": decode}
        table = collect(setup, found, seen, partial=live, **told)
        table = table.with_columns({**measured.columns(len(table)), **described(metadata, table)})
        result = browser(setup, found, table, render, decode, tags, time.perf_counter() - start)
        screen.finish(result)
    return result


def browser(
    setup: Setup, loader: Any, table: Table, render: Render | None, decode: Decode, tags: Any, seconds: float
) -> Errors:
    """The browser of a table that was made of a loader."""
    dataset = getattr(loader, "dataset", None) if table.index is not None else None
    samples = None
    if dataset is not None:
        near = [getattr(loader, "collate_fn", None)]
        given: dict[str, Any] = {"inputs": inputs_of(setup), "render": render, "decode": decode, "near": near}
        samples = Samples(dataset, feature_names=setup.feature_names, **given)
    marks = marks_of(tags, table, samples)
    table = table.replaced(notes=(*table.notes, *unlike(marks)))
    return Errors(table, table.headline(), samples, dataset, marks, seconds=seconds, setup=setup)


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


def length(loader: Any) -> int | None:
    """How many samples a loader has, where it tells."""
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError, NotImplementedError):
        return None
