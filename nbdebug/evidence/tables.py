"""The rows of a split as one table, and which of them are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.rows import Rows
from nbdebug.setup.trees import tensors

MOST_CLASSES = 1000


@dataclass(frozen=True)
class Table:
    """The samples of one split that could be read, each once, their parts of equal shapes joined.

    ``inputs`` and ``targets`` have the samples along their first axis, ``indices`` says where each stands in the data
    set; ``whole`` whether these are all.
    """

    split: str
    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    indices: Sequence[int]
    whole: bool

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.indices)

    @property
    def labels(self) -> Tensor | None:
        """The class of each sample, where there is one target of whole numbers with nothing but a sample axis."""
        target = self.targets[0] if len(self.targets) == 1 else None
        if target is None or (target.dim() == 2 and target.shape[1] != 1) or target.dim() not in (1, 2):
            return None
        flat = target.reshape(-1)
        few = len(set(flat.tolist())) <= len(flat) / 2 and float(flat.max()) < max(len(flat), MOST_CLASSES)
        return flat.long() if few and bool((flat == flat.round()).all()) else None


@measurement
def tables(rows: list[Rows]) -> dict[str, Table]:
    """One table for each split that could be read."""
    splits = {split: [one for one in rows if one.split == split] for split in ("train", "val")}
    return {split: joined(split, parts) for split, parts in splits.items() if parts}


def joined(split: str, parts: list[Rows]) -> Table:
    """The parts of one split that have the commonest shapes, without the samples that were met before."""
    sizes = [shapes(one) for one in parts]
    commonest = Counter(sizes).most_common(1)[0][0]
    alike = [one for one, size in zip(parts, sizes, strict=True) if size == commonest]
    indices = places(alike)
    first = {index: place for place, index in reversed(list(enumerate(indices)))}
    chosen = torch.tensor(sorted(first.values()))
    inputs = [stacked([columns(one)[0][i] for one in alike], chosen) for i in range(len(commonest[0]))]
    targets = [stacked([columns(one)[1][i] for one in alike], chosen) for i in range(len(commonest[1]))]
    kept = [indices[place] for place in chosen.tolist()]
    return Table(split, tuple(inputs), tuple(targets), kept, all(one.whole for one in parts) and alike == parts)


def places(parts: list[Rows]) -> list[int]:
    """Where each row stands in the data set; in the order of reading where that is not known."""
    found = [index for one in parts for index in one.indices]
    unknown = len(parts) > 1 and any(isinstance(one.indices, range) for one in parts)
    return list(range(len(found))) if unknown else found


def columns(part: Rows) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and targets of some rows that have one entry for each."""
    count = len(part.indices)
    inputs = [t for t in part.inputs.values() if t.layout == torch.strided and len(t) == count]
    return inputs, [t for t in tensors(part.targets) if t.dim() and len(t) == count]


def shapes(part: Rows) -> tuple[tuple[torch.Size, ...], tuple[torch.Size, ...]]:
    """What one row looks like."""
    inputs, targets = columns(part)
    return tuple(t.shape[1:] for t in inputs), tuple(t.shape[1:] for t in targets)


def stacked(parts: list[Tensor], chosen: Tensor) -> Tensor:
    """Some rows of tensors laid one after the other."""
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole.detach().cpu() if len(chosen) == len(whole) else whole.detach().cpu()[chosen]


def keys(parts: Sequence[Tensor]) -> list[Hashable]:
    """A key for each row, the same for rows that are equal bit by bit in all ``parts``."""
    columns = [row_bytes(part) for part in parts if part.numel()]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def row_bytes(part: Tensor) -> list[Hashable]:
    """The bytes of each row."""
    flat = part.reshape(len(part), -1).contiguous().view(torch.uint8).numpy()
    rows: list[Hashable] = flat.view(f"V{flat.shape[1]}")[:, 0].tolist()
    return rows
