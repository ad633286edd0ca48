"""Attributions of many samples, chunk by chunk, against parts of the background so that its error shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.attribution import Attribution, attribute
from nbdebug.attribution.given import count, inputs_of
from nbdebug.attribution.problem import cut
from nbdebug.attribution.refusals import NotExplained
from nbdebug.attribution.rows import numbers_of
from nbdebug.setup import Batch, Setup
from nbdebug.tools.importance.features import Feature

Floats = NDArray[np.float64]
Score = Callable[[Any], Any] | None
SLICED = ("expected_gradients", "quick")  # whose cost is that of the background, in one piece or in several
SLICES, LEAST, LARGE = 5, 4, 1024
CHUNK, TRIED, SECONDS = 32, 4, 0.5  # samples to begin with, to try a method on, and the time in which a chunk doubles
# Errors of single attributions average out over samples, whose own spread is many times theirs.
BOUNDS = {"completeness": 0.05, "error": 0.1, "nodes": 4, "most": 32}


@dataclass
class Attributed:
    """Attributions to features, samples × features, and what is known of them.

    ``parts`` are those against each part of the background, parts × samples × features. ``base`` is what they start
    from, the mean score of the background, for each sample, 0 where a method has none. ``maps`` is the mean size of
    what each place of an input gets, ``cut`` whether an interrupt ended it.
    """

    values: Floats
    parts: Floats
    method: str
    space: str
    classes: NDArray[Any]
    base: Floats
    maps: dict[str, Floats]
    notes: list[str] = field(default_factory=list)
    cut: bool = False


def attributed(
    setup: Setup,
    batch: Batch,
    background: Batch,
    features: Sequence[Feature],
    target: Any,
    method: str,
    seen: Callable[[int], bool],
    partial: bool = False,
    score: Score = None,
) -> Attributed:
    """The attributions of all samples, or of those there was time for.

    ``seen`` is given the number of samples done, and says whether to stop; with ``partial`` an interrupt after the
    first of them ends it too. Raises SetupError where none can be had.
    """
    work = Work(setup, features, method, background, score)
    try:
        whole(work, batch, target, seen)
    except KeyboardInterrupt:
        if not (partial and work.parts):
            raise
        return replace(work.result(), cut=True)
    return work.result()


def whole(work: Work, batch: Batch, target: Any, seen: Callable[[int], bool]) -> None:
    """All samples, in chunks that grow while they are quick."""
    start, size, chunk = 0, batch.size, CHUNK
    while start < size:
        begun, stop = time.perf_counter(), min(start + chunk, size)
        work.add(cut(batch, torch.arange(start, stop)), target[start:stop] if isinstance(target, list) else target)
        start, chunk = stop, chunk * (2 if time.perf_counter() - begun < SECONDS else 1)
        if seen(start):
            return


class Work:
    """What has been attributed so far."""

    def __init__(self, setup: Setup, features: Sequence[Feature], method: str, background: Batch, score: Score) -> None:
        self.setup, self.features, self.method = setup, features, method
        self.backgrounds = sliced(background)
        self.whole = background
        self.options: dict[str, Any] = {"score": score}
        self.parts: list[Floats] = []
        self.classes: list[NDArray[Any]] = []
        self.bases: list[Floats] = []
        self.maps: dict[str, Floats] = {}
        self.rows = self.bad = 0
        self.said: Attribution | None = None

    def add(self, batch: Batch, target: Any) -> None:
        """One chunk against every part of the background."""
        if self.said is None:
            self.said = self.first(batch, target[:TRIED] if isinstance(target, list) else target)
            if self.said.method not in SLICED:
                self.backgrounds = [self.whole]
            elif self.method == "auto" and self.said.method == "expected_gradients":
                self.options |= BOUNDS
            self.method = self.said.method
        found = [attribute(self.setup, batch, target, self.method, one, **self.options) for one in self.backgrounds]
        leaves = inputs_of(batch)
        self.parts.append(np.stack([self.totals(one, leaves) for one in found]))
        self.classes.append(found[0].classes)
        bases = [np.zeros(len(one)) if one.base is None else one.base for one in found]
        self.bases.append(np.mean(bases, 0))
        self.bad += sum(not one.converged for one in found)
        for name, values in found[0].values.items():
            mean = sum(one.values[name] for one in found) / len(found)
            if values.ndim > 2:
                self.maps[name] = self.maps.get(name, 0) + np.abs(mean).sum(0)
        self.rows += count(batch)

    def first(self, batch: Batch, target: Any) -> Attribution:
        """A few samples by the method, or by the first that applies; of large inputs with few nodes a line."""
        one, ground = cut(batch, torch.arange(min(TRIED, count(batch)))), self.backgrounds[0]
        if self.method == "auto" and numbers_of(batch) > LARGE:
            try:
                return attribute(self.setup, one, target, "quick", ground, **self.options)
            except NotExplained:
                pass
        return attribute(self.setup, one, target, self.method, ground, **self.options)

    def totals(self, found: Attribution, leaves: list[tuple[str, Any]]) -> Floats:
        """The sums of attributions to each feature, samples × features; zero for what was not attributed to."""
        columns = []
        for one in self.features:
            name, leaf = leaves[one.leaf]
            values = found.values.get(name)
            columns.append(np.zeros(len(found)) if values is None else one.total(values, leaf.detach().cpu().numpy()))
        return np.stack(columns, 1)

    def result(self) -> Attributed:
        """All of it."""
        assert self.said is not None
        parts = np.concatenate(self.parts, 1)
        notes = list(self.said.notes)
        if self.bad and self.method != "quick":
            share = self.bad / (len(self.parts) * len(self.backgrounds))
            notes.append(f"in {share:.0%} of the chunks an attribution stayed over its error bound; see dbg.explain()")
        maps = {name: one / self.rows for name, one in self.maps.items()}
        return Attributed(
            parts.mean(0),
            parts,
            self.method,
            self.said.space,
            np.concatenate(self.classes),
            np.concatenate(self.bases),
            maps,
            notes,
        )


def sliced(background: Batch) -> list[Batch]:
    """The background in parts of equal size, or whole where it is small."""
    size = count(background)
    if size < SLICES * LEAST:
        return [background]
    each = size // SLICES
    return [cut(background, torch.arange(i * each, (i + 1) * each)) for i in range(SLICES)]
