"""One pass over a loader: what the model says of every sample, with the place of each in the data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import ignore_index, scores
from nbdebug.setup.modes import in_mode

Seen = Callable[[int], bool]


def collect(setup: Setup, loader: Any, seen: Seen = lambda _: False) -> Predictions:
    """The table of a loader's samples, in eval mode and without gradients; nothing of the user's is changed.

    ``seen`` is given the number of rows so far, and says whether to stop. Scores are copied from their device at the
    end of the pass only. Raises SetupError for an empty loader, and for outputs that are not scores of classes.
    """
    with Preserve(*setup.owned, loaders=(loader,)), in_mode(setup.eager, False), torch.inference_mode():
        outputs, targets, places = [], [], list[int]()
        for batch, indices in drawn(setup, loader):
            output = scores(setup.predict(batch))
            target = batch.target
            fits(output, target)
            outputs.append(output.detach())
            targets.append(target.detach())
            places += indices or ()
            if seen(sum(map(len, targets))):
                break
    if not outputs:
        raise SetupError("loader is empty; expected at least one batch. Check len(dataset), drop_last and the sampler.")
    count = sum(map(len, targets))
    table = Predictions.of(
        torch.cat(outputs),
        torch.cat(targets),
        class_names=setup.class_names,
        index=np.array(places) if len(places) == count else None,
        ignore_index=ignore_index(setup.loss_fn),
    )
    if table.index is not None:
        return table
    lost = "the loader does not tell which sample is which, so none can be shown"
    return table.replaced(notes=(*table.notes, lost))


def drawn(setup: Setup, loader: Any) -> Iterator[tuple[Batch, tuple[int, ...] | None]]:
    """The batches as the loader's own workers make them, with the places that its sampler gives out meanwhile."""
    listening = Places(loader) if can_listen(loader) else None
    if listening is None:
        yield from ((setup.split(raw), None) for raw in loader)
        return
    with listening:
        for number, raw in enumerate(loader):
            yield setup.split(raw), listening.given[number]


def can_listen(loader: Any) -> bool:
    """Whether a loader draws the places of its samples from a sampler of batches."""
    return isinstance(loader, DataLoader) and loader.batch_sampler is not None


class Places:
    """A block in which the places that a loader's sampler of batches gives out are kept, in order."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.given = loader, list[tuple[int, ...]]()

    def __enter__(self) -> Places:
        """Listens to the sampler: its class is exchanged for one that notes what it gives."""
        sampler = self.loader.batch_sampler
        self.kind = type(sampler)
        given = self.given

        class Heard(self.kind):  # type: ignore[name-defined, misc]
            def __iter__(self) -> Iterator[Any]:
                for chosen in super().__iter__():
                    given.append(tuple(chosen))
                    yield chosen

        sampler.__class__ = Heard
        return self

    def __exit__(self, *_: object) -> None:
        """Puts the class back."""
        self.loader.batch_sampler.__class__ = self.kind


def fits(output: Any, target: Any) -> None:
    """Refuses outputs that are not scores, and targets that are not a class for each of them."""
    if not isinstance(output, Tensor) or output.dim() not in (1, 2):
        said = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise SetupError(f"the model gives {said}; expected scores, samples × classes. Pass predictions= yourself.")
    if not isinstance(target, Tensor) or len(target) != len(output):
        said = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise SetupError(f"the target is {said}; expected a class for each of {len(output)} samples. Pass unpack=.")
