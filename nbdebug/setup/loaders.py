"""Looks at the first batches of a loader without taking them from the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup.uncollated import refused


class Replay:
    """A one-shot loader of which some batches were looked at: it gives those first, then the rest."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.kept: list[Any] = []
        self.rest = iter(source)

    def peek(self) -> Iterator[Any]:
        """The batches to come, one after the other, which stay to be given out."""
        for place in count():
            if place == len(self.kept):
                try:
                    self.kept.append(next(self.rest))
                except StopIteration:
                    return
            yield self.kept[place]

    def __iter__(self) -> Iterator[Any]:
        """Every batch once: those that were looked at, then the rest."""
        while self.kept:
            yield self.kept.pop(0)
        yield from self.rest


def is_one_shot(loader: Any) -> bool:
    """Whether what is read from a loader is gone: an iterator, or a stream that holds one."""
    if hasattr(loader, "__next__"):
        return True
    dataset = getattr(loader, "dataset", None)
    if not isinstance(dataset, IterableDataset):
        return False
    return hasattr(dataset, "__next__") or any(hasattr(value, "__next__") for value in vars(dataset).values())


def wrapped(loader: Any, name: str) -> Any:
    """The loader itself, or a Replay of it where reading would eat it; refuses what cannot be iterated."""
    if loader is None or isinstance(loader, Replay):
        return loader
    samples = isinstance(loader, Dataset) and not isinstance(loader, IterableDataset)
    if samples or (not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__")):
        raise SetupError(
            f"{name} is a {type(loader).__name__}; expected a DataLoader or any iterable of batches. "
            f"Pass torch.utils.data.DataLoader(dataset, batch_size=...)."
        )
    return Replay(loader) if is_one_shot(loader) else loader


def is_indexed(loader: Any) -> bool:
    """Whether batches can be made here from the data set, by index, without the loader's workers."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
    )


def batches(loader: Any, most: int, name: str) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """Up to ``most`` batches with their indices in the data set; none is taken from the user.

    Raises SetupError that names the sample where the data set raises, and where the loader is empty.
    """
    number = 0
    try:
        for found in islice(raw_batches(loader), most):
            yield found
            number += 1
    except (SetupError, GeneratorExit):
        raise
    except Exception as error:
        raise SetupError(
            f"{name} raised {type(error).__name__} in batch {number}: {error}; expected a batch. "
            f"Run next(iter({name})) to see it alone."
        ) from error
    if not number and most:
        raise SetupError(
            f"{name} is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
        )


def raw_batches(loader: Any) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """Batches by the way that fits the loader: kept ones, made by index, or read from a plain iterable."""
    if isinstance(loader, Replay):
        yield from ((batch, None) for batch in loader.peek())
    elif is_indexed(loader):
        yield from indexed_batches(loader)
    elif isinstance(loader, DataLoader) and type(loader).__iter__ is DataLoader.__iter__:
        plain = DataLoader(loader.dataset, loader.batch_size, collate_fn=loader.collate_fn, drop_last=loader.drop_last)
        yield from ((batch, None) for batch in plain)
    else:
        yield from ((batch, None) for batch in loader)


def indexed_batches(loader: DataLoader[Any]) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """Batches made by index in this process, in the order of the loader's own sampler."""
    order = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    for chosen in order:
        indices = tuple(chosen) if isinstance(chosen, (list, tuple)) else (chosen,)
        samples = [read(loader.dataset, index) for index in indices]
        yield loader.collate_fn(samples if loader.batch_sampler is not None else samples[0]), indices


def read(dataset: Any, index: Any) -> Any:
    """One sample; raises SetupError naming it where the data set cannot give it."""
    try:
        return dataset[index]
    except Exception as error:
        raise SetupError(
            f"sample {index} of the data set raised {type(error).__name__}: {error}; expected a sample. "
            f"Run dataset[{index}] to see it alone."
        ) from error


def take(loader: Any, indices: Iterable[int]) -> Any:
    """A batch of the samples at ``indices``, collated as the loader does it."""
    samples = [read(loader.dataset, index) for index in indices]
    try:
        return loader.collate_fn(samples)
    except Exception as error:
        raise refused(samples, error) from error
