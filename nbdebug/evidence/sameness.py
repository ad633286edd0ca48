"""Which samples are the same, and whether that can be chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Subset

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.samples import visited
from nbdebug.evidence.tables import Table, keys
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_indexed

ARRANGEMENTS = 16


@dataclass(frozen=True)
class Shared:
    """Samples that stand in both splits: their places in each, and how many were compared.

    ``by`` says how they are known: "index" in one data set, or "content". ``twins`` is the share of training samples
    that have an equal one among themselves, ``rich`` whether values are so many that equal rows cannot be chance.
    """

    pairs: list[tuple[int, int]]
    train: int
    val: int
    by: str
    twins: float = 0.0
    rich: bool = True


@measurement
def shared_samples(setup: Setup, tables: dict[str, Table]) -> Shared:
    """The samples that stand in training and validation, by their index in one data set, else by their content."""
    if is_indexed(setup.train_loader) and is_indexed(setup.val_loader):
        places = [origins(loader) for loader in (setup.train_loader, setup.val_loader)]
        if pairs := met(*places):
            return Shared(pairs, len(places[0]), len(places[1]), "index")
    if len(tables) < 2:
        return Shared([], 0, 0, "content")
    train, val = tables["train"], tables["val"]
    codes = {split: whole_keys(table) for split, table in tables.items()}
    pairs = [(train.indices[i], val.indices[j]) for i, j in met(codes["train"], codes["val"])]
    return Shared(pairs, len(train), len(val), "content", twins(codes["train"]), is_rich(train, codes["train"]))


def origins(loader: Any) -> list[tuple[int, int]]:
    """Where each sample of a loader comes from: the data set under all subsets, and the place in it."""
    dataset, places = loader.dataset, list(visited(loader))
    while isinstance(dataset, Subset):
        places = [int(dataset.indices[place]) for place in places]
        dataset = dataset.dataset
    return [(id(dataset), place) for place in places]


def met(train: Sequence[Hashable], val: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The places in ``train`` and ``val`` of what stands in both."""
    where = {key: place for place, key in reversed(list(enumerate(train)))}
    return [(where[key], place) for place, key in enumerate(val) if key in where]


def whole_keys(table: Table) -> list[Hashable]:
    """A key for each sample, the same for equal inputs with equal targets."""
    return keys([*table.inputs, *table.targets])


def twins(codes: Sequence[Hashable]) -> float:
    """The share of rows that have an equal one."""
    return sum(count for count in Counter(codes).values() if count > 1) / max(len(codes), 1)


def is_rich(table: Table, codes: Sequence[Hashable]) -> bool:
    """Whether equal rows cannot be chance: values hardly repeat, or a row has so many that their order alone tells it.

    Sixteen different values can be arranged in 2e13 ways. Where equal rows come in crowds rather than in pairs, the
    data have few different rows, whatever their values.
    """
    counts = Counter(codes)
    crowded = sum(count for count in counts.values() if count > 2)
    paired = sum(count for count in counts.values() if count > 1)
    if not table.inputs:
        return False
    if paired and crowded > paired / 4:
        return copied(table, codes)
    rows = [part.reshape(len(part), -1)[:256] for part in table.inputs]
    if any(len(row.unique()) >= ARRANGEMENTS for part in rows for row in part[:16]):
        return True
    continuous = (column for part in rows if part.is_floating_point() for column in part.t()[:64])
    return any(len(column.unique()) >= len(column) / 2 and len(column) > ARRANGEMENTS for column in continuous)


def copied(table: Table, codes: Sequence[Hashable]) -> bool:
    """Whether crowds of equal rows are copies: hardly two different rows share a value, in most of the columns."""
    places = list({code: place for place, code in enumerate(codes)}.values())
    rows = [part.reshape(len(part), -1)[places, :64] for part in table.inputs if part.is_floating_point()]
    distinct = [len(column.unique()) for part in rows for column in part.t()]
    own = sum(count > ARRANGEMENTS and count >= len(places) / 2 for count in distinct)
    return bool(distinct) and own >= len(distinct) / 2
