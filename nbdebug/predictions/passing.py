"""What is kept of the batches of one pass, taken in several at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.predictions.arrays import array, indexed
from nbdebug.predictions.embedding import Embedding
from nbdebug.predictions.gathering import Gathering, Whole
from nbdebug.predictions.kinds import gathering, target_of
from nbdebug.predictions.places import LOST, untold
from nbdebug.predictions.rerun import remade
from nbdebug.predictions.table import Table
from nbdebug.predictions.tokens import Decode
from nbdebug.preserve.interrupts import uninterrupted
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import scores
from nbdebug.setup.users_code import told

More = Callable[[Batch, Any], Mapping[str, Any]]
TOGETHER = 16  # batches at most that wait to be taken in
SOON = 0.05  # seconds at most that they wait


class Pass:
    """What is kept of the batches of one pass.

    Right after a model has run nothing else is in the processor's caches, and code takes several times as long as it
    does when it runs again. So scores that are kept whole are only put by then, and some batches are taken in together;
    masks and tokens, of which less is kept than they are, are taken in at once, as is a layer's output.
    """

    def __init__(self, setup: Setup, more: More | None, embedding: Embedding, decode: Decode) -> None:
        self.setup, self.more, self.embedding, self.decode = setup, more, embedding, decode
        self.model = setup.eager
        self.gathering: Gathering | None = None
        self.waiting: list[tuple[Any, Any, list[Any] | None, Mapping[str, Any] | None]] = []
        self.together, self.due = 1, 0.0
        self.rows = 0
        self.places: list[Any] | None = []
        self.columns: dict[str, list[Any]] = {}

    def add(self, batch: Batch, indices: list[Any] | None) -> bool:
        """Runs a batch and puts by what is said of it; whether all that was put by has been taken in."""
        try:
            output = self.setup.predict(batch, self.model)
        except SetupError:
            raise
        except Exception as error:
            self.settle()
            raise told(error, f"after {self.rows} samples") from error
        scored, target = scores(output), target_of(batch)
        if self.gathering is None:
            rows = len(indices) if indices is not None else None
            self.gathering = gathering(self.setup, batch, scored, target, rows, self.decode)
            if self.embedding.layer is None and isinstance(self.gathering.kept, Whole):
                self.together = TOGETHER
        self.waiting.append((scored, target, indices, self.more(batch, output) if self.more else None))
        if len(self.waiting) < self.together and time.perf_counter() < self.due:
            return False
        self.settle()
        return True

    def settle(self) -> None:
        """Takes in what waits; an interrupt comes after it, so that no column is longer than another."""
        with uninterrupted():
            waiting, self.waiting = self.waiting, []
            for one in waiting:
                self.take(*one)
        self.due = time.perf_counter() + SOON

    def take(self, output: Any, target: Any, indices: list[Any] | None, more: Mapping[str, Any] | None) -> None:
        """Keeps what was said of a batch."""
        assert self.gathering is not None
        rows = self.gathering.add(output, target)
        self.rows += rows
        self.embedding.add(rows)
        if more is not None:
            self.add_columns(more, rows)
        if self.places is not None and indices is not None and len(indices) == rows:
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
        self.settle()
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
