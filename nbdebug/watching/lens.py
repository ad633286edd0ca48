"""From looks to the rows of a record: statistics and histograms of every layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.numbers import Sampler, histograms, statistics
from nbdebug.record import Record
from nbdebug.record.bins import COUNT, STATISTICS, packed
from nbdebug.record.record import layer_columns
from nbdebug.watching.look import Look
from nbdebug.watching.places import Places
from nbdebug.watching.recorder import fetched
from nbdebug.watching.units import Silence, saturated

FAMILIES = ("weight", "gradient", "update")
ZEROS, ABSMAX = STATISTICS.index("zeros"), STATISTICS.index("absmax")
EPSILON = 1e-8  # of a weight's root mean square: a layer that starts at zero has no ratio yet
MOST_VALUES = 1 << 18  # that wait, 1 MiB
Floats = NDArray[np.float32]


class Lens:
    """Turns looks into rows of a record, several at once.

    After a training step the caches hold nothing of ours, and what is done once for several looks takes half the time.
    """

    def __init__(self, watched: Places, sampler: Sampler, record: Record) -> None:
        self.sampler, self.record = sampler, record
        self.names = list(watched.parameters)
        self.silence, self.known = Silence(), dict[tuple[str, ...], NDArray[np.int64]]()
        self.waiting: list[Look | None] = []
        self.own, self.values = 3 * int(sampler.sizes.sum()), 0
        drawn = [f"{family}|{name}" for family in FAMILIES for name in self.names]
        record.drawn.extend(drawn)
        record.layers.widen([*layer_columns(drawn), *(f"update.ratio|{name}" for name in self.names)])

    def wants(self) -> bool:
        """Whether a look would be kept, now that rows have been thinned; one that would not is only counted."""
        layers, shapes, ahead = self.record.layers, self.record.shapes, len(self.waiting)
        wanted = (layers.seen + ahead) % layers.stride == 0 or (shapes.seen + ahead) % shapes.stride == 0
        if not wanted:
            self.waiting.append(None)
        return wanted

    def write(self, look: Look) -> None:
        """Takes a look in, which may still wait for its weights; its row is there with a later one, or at ``flush``."""
        if self.values > MOST_VALUES:
            self.flush()
        self.waiting.append(look)
        self.values += self.own + look.most * len(look.outputs)

    def flush(self) -> None:
        """Writes the rows of all looks that wait."""
        looks, self.waiting, self.values = self.waiting, [], 0
        for layout, same in groupby(looks, key=lambda one: None if one is None else one.layout):
            if layout is None:
                self.leave_out(len(list(same)))
            else:
                self.rows([one for one in same if one is not None])

    def leave_out(self, count: int) -> None:
        """Counts looks that were not made."""
        self.record.shapes.seen += count
        for _ in range(count):
            self.record.layers.leave_out()

    def rows(self, looks: Sequence[Look]) -> None:
        """A row of statistics each, and one of histograms where its turn has come."""
        layers, own = self.record.layers, 3 * len(self.names)
        names = [f"activation|{place}" for place in looks[0].outputs]
        at, absent = self.columns_of(names), np.array([self.absent(one) for one in looks])
        values, starts, lengths = self.gathered(looks)
        table = statistics(values.reshape(-1), tiled(starts, values), np.tile(lengths, len(looks)))
        table = table.reshape(*absent.shape, -1)
        table[absent] = np.nan
        self.put_largest(table, looks)
        ratios = self.ratios(table)
        for look, numbers, ratio in zip(looks, table, ratios, strict=True):
            row = layers.filled(self.of_units(look, numbers[own:]))
            row[: numbers[:own].size] = numbers[:own].ravel()
            row[numbers[:own].size : numbers[:own].size + len(ratio)] = ratio
            row[at] = numbers[own:].ravel()
            layers.append(look.step, row)
        self.draw(looks, names, values, starts, absent)

    def put_largest(self, table: Floats, looks: Sequence[Look]) -> None:
        """Puts in the largest values that were looked for."""
        found = [(i, key, value) for i, look in enumerate(looks) for key, value in look.largest.items()]
        numbers = fetched([value for *_, value in found])
        for (i, (family, number), _), value in zip(found, numbers, strict=True):
            table[i, FAMILIES.index(family) * len(self.names) + number, ABSMAX] = value

    def gathered(self, looks: Sequence[Look]) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """All samples on the host, one row a look; where in it each place begins, and how many values it really has."""
        sizes, home = self.sampler.sizes, self.sampler.home
        own, none = int(sizes.sum()), torch.zeros(int(sizes.sum()), device=home)
        parts = []
        for one in looks:
            parts += [none if given is None else given for given in (one.after, one.gradients, one.before)]
            parts += [values.to(home, torch.float32) for _, values, _ in one.outputs.values()]
        values = torch.cat(parts).cpu().numpy().reshape(len(looks), -1)
        before = values[:, 2 * own : 3 * own]
        np.subtract(values[:, :own], before, out=before)
        outputs = [(len(values), length) for _, values, length in looks[0].outputs.values()]
        every = np.concatenate([np.tile(sizes, 3), [size for size, _ in outputs]]).astype(np.int64)
        lengths = np.concatenate([np.tile(self.sampler.lengths, 3), [length for _, length in outputs]])
        return values, np.cumsum(every) - every, lengths.astype(np.int64)

    def absent(self, look: Look) -> list[bool]:
        """Which places were not there to be seen: no step, no gradient, not moved."""
        count = len(self.names)
        gradients = [not one for one in look.there] or [True] * count
        updates = [look.before is None or not one for one in look.moved] or [True] * count
        return [look.after is None] * count + gradients + updates + [False] * len(look.outputs)

    def ratios(self, table: Floats) -> Floats:
        """The norms of the updates over those of the weights, one row a look."""
        count = len(self.names)
        least = EPSILON * np.sqrt(self.sampler.lengths)
        return np.asarray(table[:, 2 * count : 3 * count, 0] / np.maximum(table[:, :count, 0], least), np.float32)

    def columns_of(self, names: list[str]) -> NDArray[np.int64]:
        """Where the statistics of some activations stand in a row."""
        key, layers = tuple(names), self.record.layers
        if key not in self.known:
            columns = layer_columns(names)
            layers.widen(columns)
            self.known[key] = np.array([layers.columns[column] for column in columns], np.int64)
            self.record.drawn.extend(name for name in names if name not in self.record.drawn)
        return self.known[key]

    def of_units(self, look: Look, table: Floats) -> dict[str, float]:
        """The shares of dead units and of pinned values by column, where there can be any."""
        cells = {}
        for (place, (kind, values, _)), numbers in zip(look.outputs.items(), table, strict=True):
            if (pinned := saturated(kind, values)) is not None:
                cells[f"activation.saturated|{place}"] = pinned
            if place in look.live and numbers[ZEROS] > 0:
                cells[f"activation.dead|{place}"] = self.silence.share(place, look.live[place].cpu().numpy())
        return cells

    def draw(
        self,
        looks: Sequence[Look],
        names: list[str],
        values: Floats,
        starts: NDArray[np.int64],
        absent: NDArray[np.bool_],
    ) -> None:
        """Histograms in the order in which places were first drawn; all zero for those not seen this time."""
        shapes, drawn = self.record.shapes, self.record.drawn
        due = [i for i in range(len(looks)) if (shapes.seen + i) % shapes.stride == 0]
        given = values if len(due) == len(values) else values[due]
        found = packed(histograms(given.reshape(-1), tiled(starts, given)))
        found = found.reshape(len(due), len(starts), COUNT)
        found[absent[due]] = 0
        places = [*range(3 * len(self.names)), *map(drawn.index, names)]
        rows = np.zeros((len(due), len(drawn), COUNT), np.uint8)
        rows[:, places] = found
        kept = dict(zip(due, rows, strict=True))
        for i, one in enumerate(looks):
            shapes.append(one.step, kept.get(i))


def tiled(starts: NDArray[np.int64], values: Floats) -> NDArray[np.int64]:
    """Where each place begins in rows that are laid one after the other."""
    return np.asarray((np.arange(len(values))[:, None] * values.shape[1] + starts).reshape(-1))
