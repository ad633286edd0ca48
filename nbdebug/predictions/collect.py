"""One pass over a loader: what the model says of every sample, with the place of each in the data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.embedding import Embedding, Entry
from nbdebug.predictions.gathering import Gathering
from nbdebug.predictions.kinds import gathering, target_of
from nbdebug.predictions.places import LOST, drawn, untold
from nbdebug.predictions.rerun import remade
from nbdebug.predictions.table import Table
from nbdebug.predictions.tokens import Decode
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import scores
from nbdebug.setup.modes import in_mode
from nbdebug.setup.users_code import users_code

Seen = Callable[[int], bool]
More = Callable[[Batch, Any], Mapping[str, Any]]


def collect(
    setup: Setup,
    loader: Any,
    seen: Seen = lambda _: False,
    *,
    more: More | None = None,
    embed: str | nn.Module | Entry | None = None,
    index: Any = None,
    decode: Decode = None,
    partial: bool = False,
) -> Table:
    """The table of a loader's samples, in eval mode and without gradients; nothing of the user's is changed.

    ``seen`` is given the number of rows so far, and says whether to stop. ``more(batch, output)`` gives further
    columns, a value a sample; ``embed`` is a layer whose output becomes the embedding; ``index`` holds the places of
    the samples in the data set, for a loader that does not tell them; ``decode`` turns the number of a token into
    text. With ``partial`` an interrupt ends the pass with what there is. Nothing is copied from its device before the
    end, but for the counts of pixels and tokens, now and then.
    Raises SetupError for an empty loader, and for outputs that no table is made of.
    """
    embedding = Embedding(setup.eager, embed)
    taken = Pass(setup, more, embedding, decode)
    with Preserve(*setup.owned, loaders=(loader,)), in_mode(setup.eager, False), torch.inference_mode(), embedding:
        try:
            for batch, indices in drawn(setup, loader):
                taken.add(batch, indices)
                if seen(taken.rows):
                    break
        except KeyboardInterrupt:
            if not (partial and taken.rows):
                raise
        return taken.table(loader, index)


class Pass:
    """What is kept of the batches of one pass."""

    def __init__(self, setup: Setup, more: More | None, embedding: Embedding, decode: Decode) -> None:
        self.setup, self.more, self.embedding, self.decode = setup, more, embedding, decode
        self.gathering: Gathering | None = None
        self.rows = 0
        self.places: list[Any] | None = []
        self.columns: dict[str, list[Any]] = {}

    def add(self, batch: Batch, indices: list[Any] | None) -> None:
        """Runs a batch and keeps what is said of it."""
        with users_code(lambda: f"after {self.rows} samples"):
            whole = self.setup.predict(batch)
        output, target = scores(whole), target_of(batch)
        if self.gathering is None:
            rows = len(indices) if indices is not None else None
            self.gathering = gathering(self.setup, batch, output, target, rows, self.decode)
        rows = self.gathering.add(output, target)
        self.rows += rows
        self.embedding.add(rows)
        if self.more is not None:
            self.add_columns(self.more(batch, whole), rows)
        if self.places is not None:
            if indices is not None and len(indices) == rows:
                self.places += indices
            else:
                self.places = None

    def add_columns(self, found: Mapping[str, Any], rows: int) -> None:
        """Keeps further columns; raises SetupError where a batch has others, or another number of values."""
        if self.columns and set(found) != set(self.columns):
            raise SetupError(
                f"more gave {', '.join(found)}; expected {', '.join(self.columns)}. Give the same each time."
            )
        for name, values in found.items():
            if len(values) != rows:
                raise SetupError(f"more gave {len(values)} values of {name!r}; expected {rows}. Give one a sample.")
            self.columns.setdefault(name, []).append(values.detach() if isinstance(values, Tensor) else values)

    def table(self, loader: Any, index: Any) -> Table:
        """The table of all of it; raises SetupError where there was no batch."""
        if self.gathering is None:
            raise SetupError(
                "loader is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
            )
        table = self.gathering.kept.table()
        columns = {name: np.concatenate([array(one) for one in parts]) for name, parts in self.columns.items()}
        known = indexed(index, len(table)) if index is not None else self.known()
        table = table.with_columns(columns).replaced(index=known, embedding=self.embedding.array())
        if known is None:
            why = untold(loader) or "the batches do not hold what the sampler chose"
            table = table.replaced(notes=(*table.notes, f"{why}, {LOST}"))
        return remade(table, self.setup, loader, self.gathering)

    def known(self) -> Any:
        """The places of all rows, where each batch told them as whole numbers."""
        places = np.array([None] if self.places is None else self.places)
        return places.astype(np.int64) if places.dtype.kind in "iu" and places.ndim == 1 else None
