"""What the looks at the layers of a run say of each place: one signal as a matrix, looks × places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import NotChecked
from nbdebug.record import Record
from nbdebug.views.plain import some

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
YOUNG = 100  # steps
WARM_UP = 0.1  # the share of the steps in which a run finds its feet
LEAST, MOST = 8, 128  # looks
SIZES = ("norm", "mean", "std", "absmax", "ratio")  # of the finite values; infinite here where some were not
NEW = 0.9  # of a weight is its first step: it began at zero


@dataclass(frozen=True)
class Looks:
    """One signal: the steps of its looks, its places in the order of the model, and a value for each pair.

    NaN where a place was not measured, infinite where it was not finite.
    """

    steps: NDArray[np.int64]
    places: tuple[str, ...]
    values: Values

    def __getitem__(self, kept: Iterable[int] | slice) -> Looks:
        """Some of the looks."""
        rows = kept if isinstance(kept, slice) else list(kept)
        return Looks(self.steps[rows], self.places, self.values[rows])

    def at(self, places: Iterable[str]) -> Looks:
        """Some of the places, in the order given; those that were never measured are NaN."""
        wanted, known = tuple(places), {name: i for i, name in enumerate(self.places)}
        blank = np.full(len(self.steps), np.nan)
        columns = [self.values[:, known[name]] if name in known else blank for name in wanted]
        return Looks(self.steps, wanted, np.stack(columns, 1) if columns else self.values[:, :0])

    @property
    def warm(self) -> Looks:
        """The looks after the first tenth of the run."""
        return self.since(WARM_UP)

    @property
    def late(self) -> Looks:
        """The looks in the second half of the run."""
        return self.since(0.5)

    def since(self, share: float) -> Looks:
        """The looks after a share of the steps, the last three at least; they need not lie evenly."""
        start = int(np.searchsorted(self.steps, share * self.steps[-1])) if len(self.steps) else 0
        return self[min(start, max(len(self.steps) - 3, 0)) :]

    @property
    def median(self) -> Values:
        """The median of each place over the looks."""
        return self.quantile(0.5)

    @property
    def largest(self) -> Values:
        """The largest finite value of each place; NaN where there is none."""
        kept = np.where(np.isfinite(self.values), self.values, -np.inf).max(0, initial=-np.inf)
        return np.where(np.isfinite(kept), kept, np.nan)

    def quantile(self, share: float) -> Values:
        """A quantile of each place over the looks at which it was measured; NaN where there is none."""
        ordered, there = np.sort(self.values, axis=0), (~np.isnan(self.values)).sum(0)
        if not len(ordered):
            return np.full(len(self.places), np.nan)
        at = share * (np.maximum(there, 1) - 1)
        low, high = np.floor(at).astype(int), np.ceil(at).astype(int)
        every = np.arange(len(self.places))
        with np.errstate(invalid="ignore"):
            between = np.where(at > low, (at - low) * (ordered[high, every] - ordered[low, every]), 0.0)
        return np.asarray(ordered[low, every] + between)


def looks(
    record: Record, signal: str, places: Iterable[str] | None = None, least: int = LEAST, most: int = MOST
) -> Looks:
    """A signal at its places, or at those that are given, at ``most`` looks, spread over the run.

    Raises NotChecked where there were fewer than ``least``.
    """
    start, known = f"{signal}|", record.layers.columns
    wanted = [name[len(start) :] for name in known if name.startswith(start)] if places is None else [*places]
    rows = np.unique(np.linspace(0, max(record.layers.rows - 1, 0), most).astype(int))[: record.layers.rows]
    table = columns(record, signal, wanted, rows)
    family, _, statistic = signal.partition(".")
    if statistic in SIZES:
        table[columns(record, f"{family}.nonfinite", wanted, rows) > 0] = np.inf
    looked = ~np.isnan(table).all(1)
    if looked.sum() < least:
        raise NotChecked(f"{looked.sum()} looks at {signal} were recorded, which are too few")
    return Looks(record.layers.steps[rows[looked]], tuple(wanted), table[looked])


def columns(record: Record, signal: str, places: Iterable[str], rows: NDArray[np.int64]) -> Values:
    """A column of the record for each place; NaN where there is none."""
    names, known = [f"{signal}|{place}" for place in places], record.layers.columns
    table = np.full((len(rows), len(names)), np.nan)
    there = [(i, known[name]) for i, name in enumerate(names) if name in known]
    table[:, [i for i, _ in there]] = record.layers.values[
        np.ix_(rows, np.array([column for _, column in there], np.int64))
    ]
    return table


def weights(record: Record) -> list[str]:
    """The parameters that map one layer to another, in order: no biases, scales of norms or rows of embeddings."""
    left_out = ("Norm", "Embedding")
    layers = (one for one in record.modules if not any(kind in one.kind for kind in left_out))
    return [name for one in layers for name in one.parameters if "bias" not in name.rpartition(".")[2]]


def from_zero(record: Record) -> set[str]:
    """The parameters that began at zero, or near it: their first step is nearly all that they are after it."""
    ratios = looks(record, "update.ratio", least=1)
    seen = ~np.isnan(ratios.values)
    first = np.where(seen.any(0), ratios.values[seen.argmax(0), np.arange(len(ratios.places))], 0.0)
    nothing = looks(record, "weight.norm", ratios.places, 1).values[0] == 0
    found = zip(ratios.places, (first > NEW) | nothing, strict=True)
    return {name for name, new in found if new}


def counts(record: Record, parameters: Iterable[str]) -> Values:
    """How many values each parameter has, from its norm, mean and deviation; infinite where they are all zero."""
    first = np.zeros(1, np.int64)
    norm, mean, std = (columns(record, f"weight.{what}", parameters, first) for what in ("norm", "mean", "std"))
    with np.errstate(all="ignore"):
        found = norm**2 / (mean**2 + std**2)
    return np.asarray(np.where(np.isfinite(found), np.rint(found), np.inf).ravel())


def told(names: Iterable[str], values: Iterable[float], most: int = 3) -> str:
    """Some places with a number each, as a phrase."""
    pairs = [f"{name} {value:.2g}" for name, value in zip(names, values, strict=True)]
    return some(pairs, most)


def called(place: str) -> str:
    """The module of a place, which may name one of several calls or outputs."""
    return place.partition("#")[0].partition("[")[0]


def module_of(parameter: str) -> str | None:
    """The path of the submodule that holds a parameter."""
    return parameter.rpartition(".")[0] or None


def batch_size(record: Record) -> float:
    """How many samples a batch has, as far as the record tells; a few where it does not."""
    about = record.about
    each = float(about.get("train_samples") or 0) / float(about.get("batches_per_epoch") or 1)
    return max(float(about.get("batch_size") or each or LEAST), 1.0)


def loss_level(record: Record) -> tuple[float, float]:
    """The loss at the beginning and, as a median, over the last fifth; raises NotChecked where too few were seen.

    At the beginning: that of the first step, or the median of three where the first happens to be high.
    """
    losses = record.series("loss")[1].astype(np.float64)
    if len(losses) < LEAST:
        raise NotChecked(f"{len(losses)} losses were recorded, which are too few")
    first = min(float(losses[0]), float(np.median(losses[:3])))
    return first, float(np.median(losses[-max(3, len(losses) // 5) :]))


def settled(record: Record) -> bool:
    """Whether a run is over, or old enough to be judged by where it stands: its rate does not rise any more."""
    if record.about.get("finished", True):
        return True
    rates = record.series("lr")[1]
    return record.steps >= YOUNG and not (len(rates) and rates[-1] > 1.02 * rates[3 * len(rates) // 4])


def learned(record: Record, share: float = 0.7) -> bool:
    """Whether the loss has fallen to less than a share of what it was at first."""
    first, last = loss_level(record)
    return 0 <= last < share * first
