"""A look: one step of every layer, in numbers and histograms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.numbers import MOST, Sampler, histograms, places, statistics
from nbdebug.numbers import flat as flat_values
from nbdebug.record import Record
from nbdebug.record.bins import COUNT, STATISTICS, packed
from nbdebug.record.record import layer_columns
from nbdebug.watching.places import Places
from nbdebug.watching.units import Silence, live_units, saturated

ZEROS = STATISTICS.index("zeros")
EPSILON = 1e-8  # of a weight's root mean square: a layer that starts at zero has no ratio yet


@dataclass
class Look:
    """What was gathered of one step; all still on the device.

    ``there`` says which parameters had a gradient, ``moved`` which were stepped on. Of each output ``most`` values are
    kept, and with ``units`` which of its units spoke.
    """

    most: int = MOST
    units: bool = True

    gradients: Tensor | None = None
    before: Tensor | None = None
    after: Tensor | None = None
    there: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    moved: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    outputs: dict[str, tuple[type[nn.Module], Tensor, int]] = field(default_factory=dict)
    live: dict[str, Tensor] = field(default_factory=dict)

    def take(self, place: str, module: nn.Module, output: Tensor) -> None:
        """Keeps samples of an output."""
        values = flat_values(output)
        at = places(values.numel(), self.most, values.device)
        chosen = values.clone() if at is None else values.index_select(0, at)
        self.outputs[place] = type(module), chosen, values.numel()
        if self.units and output.dim() > 1 and not any(True for _ in module.parameters(recurse=False)):
            self.live[place] = live_units(output)


class Lens:
    """Turns looks into rows of a record."""

    def __init__(self, watched: Places, sampler: Sampler, record: Record) -> None:
        self.watched, self.sampler, self.record = watched, sampler, record
        self.names = list(watched.parameters)
        self.silence, self.known = Silence(), dict[tuple[str, ...], NDArray[np.int64]]()
        none = np.zeros(0, np.int64)
        self.layout: tuple[tuple[int, ...] | None, NDArray[np.int64], NDArray[np.int64]] = None, none, none
        families = ("weight", "gradient", "update")
        drawn = [f"{family}|{name}" for family in families for name in self.names]
        record.drawn.extend(drawn)
        for column in [*layer_columns(drawn), *(f"update.ratio|{name}" for name in self.names)]:
            record.layers.widen(column)

    def write(self, step: int, look: Look) -> None:
        """One row of statistics, and one of histograms where its turn has come."""
        layers, shapes = self.record.layers, self.record.shapes
        if not layers.due and not shapes.due:
            layers.leave_out()
            shapes.seen += 1
            return
        names = [f"activation|{place}" for place in look.outputs]
        values, starts, lengths = self.gathered(look)
        table = statistics(values, starts, lengths)
        table[self.absent(look)] = np.nan
        cells = self.of_units(look, table[3 * len(self.names) :])
        own, outputs = table[: 3 * len(self.names)], table[3 * len(self.names) :]
        at = self.columns_of(names)
        row = layers.filled(cells)
        row[: own.size] = own.ravel()
        row[own.size : own.size + len(self.names)] = self.ratios(own)
        row[at] = outputs.ravel()
        layers.append(step, row)
        shapes.append(step, self.shapes(look, names, values, starts) if shapes.due else np.zeros((0, COUNT), np.uint8))

    def gathered(self, look: Look) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
        """All samples of a look on the host, where each place begins, and how many values each really has."""
        none = torch.zeros(int(self.sampler.sizes.sum()), device=self.sampler.home)
        after = none if look.after is None else look.after
        update = none if look.before is None else after - look.before
        gradient = none if look.gradients is None else look.gradients
        outputs = [values.to(after.device, torch.float32) for _, values, _ in look.outputs.values()]
        key = tuple(length for *_, length in look.outputs.values())
        if self.layout[0] != key:
            sizes = np.concatenate([np.tile(self.sampler.sizes, 3), [len(one) for one in outputs]])
            lengths = np.concatenate([np.tile(self.sampler.lengths, 3), key]).astype(np.int64)
            self.layout = key, (np.cumsum(sizes) - sizes).astype(np.int64), lengths
        return torch.cat([after, gradient, update, *outputs]).cpu().numpy(), *self.layout[1:]

    def absent(self, look: Look) -> NDArray[np.bool_]:
        """Which places were not there to be seen: no step, no gradient, not moved."""
        count = len(self.names)
        no = np.ones(count, bool)
        weights = no if look.after is None else ~no
        gradients = ~look.there if look.there.size else no
        updates = ~look.moved if look.moved.size and look.before is not None else no
        return np.concatenate([weights, gradients, updates, np.zeros(len(look.outputs), bool)])

    def ratios(self, own: NDArray[np.float32]) -> NDArray[np.float32]:
        """The norms of the updates over those of the weights."""
        count = len(self.names)
        least = EPSILON * np.sqrt(self.sampler.lengths)
        return np.asarray(own[2 * count :, 0] / np.maximum(own[:count, 0], least), np.float32)

    def columns_of(self, names: list[str]) -> NDArray[np.int64]:
        """Where the statistics of some activations stand in a row."""
        key, layers = tuple(names), self.record.layers
        if key not in self.known:
            columns = layer_columns(names)
            for column in columns:
                layers.widen(column)
            self.known[key] = np.array([layers.columns[column] for column in columns], np.int64)
        return self.known[key]

    def of_units(self, look: Look, table: NDArray[np.float32]) -> dict[str, float]:
        """The shares of dead units and of pinned values by column, where there can be any."""
        cells = {}
        for (place, (kind, values, _)), numbers in zip(look.outputs.items(), table, strict=True):
            if (pinned := saturated(kind, values)) is not None:
                cells[f"activation.saturated|{place}"] = pinned
            if place in look.live and numbers[ZEROS] > 0:
                cells[f"activation.dead|{place}"] = self.silence.share(place, look.live[place].cpu().numpy())
        return cells

    def shapes(
        self, look: Look, names: list[str], values: NDArray[np.float32], starts: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Histograms in the order in which places were first drawn; all zero for those not seen this time."""
        drawn = self.record.drawn
        drawn.extend(name for name in names if name not in drawn)
        found = packed(histograms(values, starts))
        found[self.absent(look)] = 0
        own = 3 * len(self.names)
        by_name = dict(zip(names, found[own:], strict=True))
        none = np.zeros(COUNT, np.uint8)
        return np.concatenate([found[:own], *(by_name.get(name, none)[None] for name in drawn[own:])])
