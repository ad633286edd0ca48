"""Which samples of the data set a loader's batches are made of, heard from its sampler while it draws."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from nbdebug.exceptions import SetupError
from nbdebug.predictions.at_once import at_once
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import Replay
from nbdebug.setup.loaders import read as sample
from nbdebug.setup.splitter import Splitter

LOST = "so samples cannot be shown, tagged by their place or made a subset. Pass index=, or a DataLoader of a data set"
Drawn = Iterator[tuple[Batch, list[Any] | None]]


def drawn(setup: Setup, loader: Any) -> Drawn:
    """The batches as the loader's own workers make them, with the places that its sampler gives out meanwhile."""
    split = Splitter(setup)
    if untold(loader):
        yield from ((split(raw), None) for raw in read(loader, deque()))
        return
    with Places(loader) as places:
        for raw in read(at_once(loader) or loader, places.given):
            yield split(raw), places.next()


def read(loader: Any, given: deque[Any]) -> Iterator[Any]:
    """What a loader gives; raises SetupError that names the sample, or the batch, where it raises.

    ``given`` begins with the places of the batch to come, where they are known.
    """
    number = 0
    try:
        for raw in loader:
            yield raw
            number += 1
    except (SetupError, GeneratorExit):
        raise
    except Exception as error:
        for index in given[0] if given and isinstance(given[0], list) else ():
            sample(loader.dataset, index)
        raise SetupError(
            f"the loader raised {type(error).__name__} in batch {number}: {error}; expected a batch. "
            f"Run next(iter(loader)) to see it alone."
        ) from error


def untold(loader: Any) -> str:
    """Why a loader cannot tell which sample is which; "" where it can."""
    if isinstance(loader, Replay):
        return "the loader can be read only once"
    if not isinstance(loader, DataLoader):
        return f"a {type(loader).__name__} does not tell which sample is which"
    if isinstance(loader.dataset, IterableDataset):
        return "a stream has no places"
    if type(loader).__iter__ is not DataLoader.__iter__:
        return f"{type(loader).__name__} iterates in a way of its own"
    if loader.num_workers and not getattr(loader, "in_order", True):
        return "in_order=False gives batches in the order in which workers finish them"
    return ""


class Places:
    """A block in which what a loader's sampler gives out is kept, in order, until its batch has come."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.given = loader, deque[Any]()
        self.name = "batch_sampler" if loader.batch_sampler is not None else "sampler"
        self.sampler: Any = getattr(loader, self.name)

    def __enter__(self) -> Places:
        """Puts a listener in the sampler's place; a loader lets nobody assign one, but its dictionary does."""
        vars(self.loader)[self.name] = Heard(self.sampler, self.given)
        return self

    def __exit__(self, *_: object) -> None:
        """Puts the sampler back."""
        vars(self.loader)[self.name] = self.sampler

    def next(self) -> list[Any] | None:
        """The places of the next batch; None where the sampler gave a single one, which may hold anything."""
        chosen = self.given.popleft()
        return chosen if isinstance(chosen, list) else None


class Heard:
    """A sampler that notes what it gives, and is the user's own in all else."""

    def __init__(self, sampler: Any, given: deque[Any]) -> None:
        self.sampler, self.given = sampler, given

    def __iter__(self) -> Iterator[Any]:
        """What the sampler gives."""
        for chosen in self.sampler:
            self.given.append(list(chosen) if hasattr(chosen, "__len__") else chosen)
            yield chosen

    def __len__(self) -> int:
        """Its length, where it has one."""
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)
