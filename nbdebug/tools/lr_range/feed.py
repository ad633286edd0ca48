"""The batches of a sweep: those of the user's loader, over and over."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count
from typing import Any

import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import Replay
from nbdebug.setup.splitter import Splitter
from nbdebug.setup.trees import tensors


class Feed(Iterator[Batch]):
    """Batches without end: a short loader begins anew, and a batch of one sample is left out where the model takes
    statistics over the batch, unless there are no others.

    ``rounds`` counts how often the loader was begun, ``skipped`` the batches left out. Must live inside a Preserve.
    """

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup, self.rounds, self.skipped = setup, 0, 0
        self.split = Splitter(setup)
        self.picky = takes_batch_statistics(setup.eager)
        reseed(setup.train_loader, seed)
        self.batches = self.endless()

    def __next__(self) -> Batch:
        return next(self.batches)

    def close(self) -> None:
        """Lets go of the loader, and of the workers that it has started."""
        self.batches.close()

    def endless(self) -> Generator[Batch]:
        """Every batch of the loader, round after round; raises SetupError where it is empty."""
        for self.rounds in count(1):
            given = left_out = 0
            for raw in self.raw():
                if self.picky and size(raw) == 1:
                    left_out += 1
                    continue
                given += 1
                yield self.batch(raw)
            if not given and not left_out:
                raise SetupError(
                    "train_loader is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
                )
            self.skipped += left_out
            self.picky = self.picky and bool(given)

    def raw(self) -> Iterator[Any]:
        """The batches of one round as the loader gives them, told with their number where it raises."""
        loader, number = self.setup.train_loader, 0
        try:
            for raw in loader.peek() if isinstance(loader, Replay) else loader:
                yield raw
                number += 1
        except (SetupError, GeneratorExit):
            raise
        except Exception as error:
            raise SetupError(
                f"train_loader raised {type(error).__name__} in batch {number}: {error}; expected a batch. "
                f"Run next(iter(train_loader)) to see it alone."
            ) from error

    def batch(self, raw: Any) -> Batch:
        """A raw batch as the set-up takes it; a ``step_fn`` splits it by itself."""
        return Batch((), raw=raw) if self.setup.step_fn is not None else self.split(raw)


def takes_batch_statistics(model: nn.Module) -> bool:
    """Whether a part of the model normalizes over the batch as it stands."""
    return any(isinstance(one, nn.modules.batchnorm._BatchNorm) and one.training for one in model.modules())


def size(raw: Any) -> int:
    """The number of samples of a raw batch: the first axis of its first tensor that has one."""
    return next((len(one) for one in tensors(raw) if one.dim()), 0)


def reseed(loader: Any, seed: int) -> None:
    """Gives a loader and its samplers another order, as far as generators of their own or ``set_epoch`` make one."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    for one in (loader, getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)):
        if isinstance(generator := getattr(one, "generator", None), torch.Generator):
            generator.manual_seed(seed)
        if callable(renew := getattr(one, "set_epoch", None)):
            renew(seed)
