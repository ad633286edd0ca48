"""Which loader the batches of a loop come from, and whether its epochs of training begin alike."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.loop.shadows import some
from nbdebug.probes.batches import comes_from
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors

BATCHES = 2  # of an epoch, whose first values tell whether two epochs begin alike


@dataclass(frozen=True)
class Orders:
    """How many epochs of training were drawn, and how many of them began with the batches of the one before."""

    epochs: int = 0
    alike: int = 0


class Drawing:
    """Hears of each batch."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.split = setup, ""
        self.iterator: weakref.ref[Any] | None = None
        self.before: list[list[Tensor]] = []
        self.now: list[list[Tensor]] = []
        self.epochs = self.alike = 0

    def drawn(self, iterator: Any, batch: Any) -> str:
        """A batch was drawn; the split that it is of, or nothing."""
        if self.iterator is None or self.iterator() is not iterator:
            self.iterator = weakref.ref(iterator)
            splits = {"val": self.setup.val_loader, "train": self.setup.train_loader}
            self.split = next((name for name, one in splits.items() if comes_from(iterator, one)), "")
            if self.split == "train":
                self.next_epoch()
        if self.split == "train" and len(self.now) < BATCHES:
            self.now.append([some(one) for one in tensors(batch)])
        return self.split

    def next_epoch(self) -> None:
        """An epoch of training begins, and the one before is compared with the one before that."""
        if self.now:
            self.epochs, self.alike = self.epochs + 1, self.alike + begin_alike(self.before, self.now)
        self.before, self.now = self.now, []

    def seen(self) -> Orders:
        """All epochs so far, the last one too."""
        return Orders(self.epochs + bool(self.now), self.alike + begin_alike(self.before, self.now))


def begin_alike(before: list[list[Tensor]], now: list[list[Tensor]]) -> bool:
    """Whether the first batches of two epochs hold the same values in one place, which differ from batch to batch."""
    if len(before) < BATCHES or len(now) < BATCHES:
        return False
    places = range(min(map(len, [*before, *now])))
    same = [k for k in places if all(torch.equal(one[k], two[k]) for one, two in zip(before, now, strict=True))]
    return any(not torch.equal(now[0][k], now[1][k]) for k in same)
