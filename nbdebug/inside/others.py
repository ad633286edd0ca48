"""The samples that a path is held against, with their classes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.attribution.given import count, inputs_of, same_form
from nbdebug.attribution.problem import cut
from nbdebug.exceptions import SetupError
from nbdebug.inside.look import Look
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup

SAMPLES = 256
SECONDS, LEAST = 4.0, 16  # how long samples are run, so many at least
ROWS, NUMBERS = 32, 2**20  # samples, and numbers in them, that are run at once


@dataclass(frozen=True)
class Others:
    """Batches of samples and the classes of all of them in order, None where they are not known.

    ``guess`` says whether classes may be taken from the model, since there are no targets that say otherwise.
    """

    batches: tuple[Batch, ...]
    labels: Tensor | None = None
    guess: bool = False

    def __len__(self) -> int:
        return sum(count(one) for one in self.batches)

    def first(self, size: int) -> Others:
        """So many of them at most."""
        kept: list[Batch] = []
        for batch in self.batches:
            left = size - sum(count(one) for one in kept)
            if left > 0:
                kept.append(cut(batch, torch.arange(min(left, count(batch)))))
        return Others(tuple(kept), self.labels if self.labels is None else self.labels[:size], self.guess)

    def parts(self, limited: bool = True) -> Iterator[Batch]:
        """Some of them at a time; where that takes too long not all of them."""
        until, taken = time.perf_counter() + SECONDS, 0
        for batch in self.batches:
            widest = max(leaf[0].numel() for _, leaf in inputs_of(batch) if isinstance(leaf, Tensor) and leaf.dim())
            rows = max(1, min(ROWS, NUMBERS // max(widest, 1)))
            for start in range(0, count(batch), rows):
                if limited and taken >= LEAST and time.perf_counter() > until:
                    return
                part = cut(batch, torch.arange(start, min(start + rows, count(batch))))
                taken += count(part)
                yield part

    def without(self, sample: Batch) -> Others:
        """The same without a sample that is one of them."""
        kept: list[Batch] = []
        stays: list[Tensor] = []
        for batch in self.batches:
            keep = ~same(batch, sample)
            stays.append(keep)
            if bool(keep.any()):
                kept.append(batch if bool(keep.all()) else cut(batch, keep.nonzero()[:, 0]))
        labels = self.labels if self.labels is None else self.labels[torch.cat(stays)]
        return Others(tuple(kept), labels, self.guess)


def same(batch: Batch, sample: Batch) -> Tensor:
    """Which samples of a batch have the very inputs of a sample."""
    found = torch.ones(count(batch), dtype=torch.bool)
    for (_, many), (_, one) in zip(inputs_of(batch), inputs_of(sample), strict=False):
        if isinstance(many, Tensor) and many.dim() and len(many) == len(found):
            if many.shape[1:] != one.shape[1:]:
                return torch.zeros_like(found)
            found &= (many == one).flatten(1).all(1).cpu() if many.dim() > 1 else (many == one).cpu()
    return found


def others(given: Any, look: Look, background: Any, labels: Any, like: Batch | None = None) -> Others:
    """What is given to be compared with, else the first training samples of a Setup.

    Raises SetupError for neither, and for samples of another form than those of ``like``.
    """
    if isinstance(background, Others):
        return background
    if background is not None:
        batch = look.batch(background, "background")
        if like is not None and any(map(of_other_form, inputs_of(like), inputs_of(batch))):
            same_form(like, batch)
        classes = target_of(background) if labels is None and isinstance(background, Batch) else labels
        return Others((batch,), classes_of(classes, count(batch)), classes is None)
    if not isinstance(given, Setup):
        raise SetupError("background is None; expected samples to compare with. Pass background= and labels=.")
    return drawn(given, look)


def of_other_form(mine: tuple[str, Any], other: tuple[str, Any]) -> bool:
    """Whether an input of samples cannot stand for another one; the length of a sequence may differ."""
    one, two = mine[1], other[1]
    if not (isinstance(one, Tensor) and isinstance(two, Tensor)):
        return False
    table = one.dim() == 2 and one.is_floating_point()
    return one.dim() != two.dim() or (table and one.shape[1] != two.shape[1])


def drawn(setup: Setup, look: Look) -> Others:
    """The first samples of the training loader, which keeps them all, with their classes."""
    batches: list[Batch] = []
    labels: list[Tensor | None] = []
    guess = True
    with Preserve(*setup.owned, loaders=(setup.train_loader,)):
        for batch in setup.batches(SAMPLES, "train"):
            taken = min(count(batch), SAMPLES - sum(count(one) for one in batches))
            found = classes_of(target_of(batch), count(batch))
            guess = guess and target_of(batch) is None
            labels.append(None if found is None else found[:taken])
            batches.append(look.batch(cut(batch, torch.arange(taken))))
            if sum(count(one) for one in batches) >= SAMPLES:
                break
    known = [one for one in labels if one is not None]
    return Others(tuple(batches), torch.cat(known) if known and len(known) == len(labels) else None, guess)


def target_of(batch: Batch) -> Any:
    """The targets of a batch, or the labels among what the model itself is given to compute its loss."""
    return batch.kwargs.get("labels") if batch.target is None else batch.target


def classes_of(target: Any, size: int) -> Tensor | None:
    """A target as one class a sample; None where it is none, as in regression."""
    if target is None or (isinstance(target, (tuple, list)) and not all(isinstance(one, int) for one in target)):
        return None
    found = torch.as_tensor(target).detach().cpu()
    if found.dim() == 2 and found.shape == (size, found.shape[1]) and found.shape[1] > 1:
        one_hot = bool(((found == 0) | (found == 1)).all() and (found.sum(1) == 1).all())
        return found.argmax(1) if one_hot else None
    if found.numel() != size:
        return None
    found = found.reshape(-1)
    return found.long() if bool((found == found.round()).all() and (found >= 0).all()) else None
