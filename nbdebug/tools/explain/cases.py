"""The samples to be explained: of a place in the data set, or as they are given, with their true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from nbdebug.arguments import index
from nbdebug.attribution.given import as_batch, as_tensors, inputs_of
from nbdebug.exceptions import SetupError
from nbdebug.predictions.kinds import target_of
from nbdebug.preserve import Preserve
from nbdebug.samples.fetch import fetched
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_indexed
from nbdebug.setup.trees import described, tensors, transform
from nbdebug.setup.uncollated import refused

MOST = 64


@dataclass(frozen=True)
class Cases:
    """Samples as one batch; ``keys`` are their places in the data set, None for what was given."""

    batch: Batch
    keys: tuple[int | None, ...]
    loader: Any = None

    @property
    def truth(self) -> Tensor | None:
        """The true classes or values, one a sample, where there are such: the targets, or labels among the inputs."""
        target = target_of(self.batch)
        if not isinstance(target, Tensor) or target.numel() != len(self.keys):
            return None
        return target.detach().reshape(-1).cpu()


def cases(setup: Setup, given: Any, loader: Any) -> Cases:
    """The samples that a place, several places, or samples themselves stand for; raises SetupError for what is none."""
    if (places := as_places(given)) is not None:
        return at_places(setup, places, loader)
    if given is None or isinstance(given, (str, float)) or (isinstance(given, (list, tuple)) and not given):
        raise SetupError(f"sample is {given!r}; expected a place in the data set, or a sample. Pass a number.")
    return as_given(setup, given, next(iter(setup.batches(1))) if setup.has_data else None)


def as_places(given: Any) -> list[int] | None:
    """The places in the data set, of a number or several; None for anything else."""
    if isinstance(given, (bool, type)):
        raise SetupError(f"sample is {given}; expected a place in the data set, or a sample. Pass a number.")
    if (place := index(given)) is not None:
        return [place]
    plain = isinstance(given, (list, tuple, range)) and len(given) > 0
    if plain and all(isinstance(one, Integral) and not isinstance(one, bool) for one in given):
        return [int(one) for one in given]
    return None


def at_places(setup: Setup, places: Sequence[int], loader: Any) -> Cases:
    """The samples at places of a loader's data set, collated as the loader does."""
    if len(places) > MOST:
        raise SetupError(f"sample is {len(places)} places; expected up to {MOST}. Ask dbg.importance() for the whole.")
    if loader is None:
        raise SetupError(
            f"sample is {places[0]} and there is no loader; expected one, in whose data set that place is. Pass the "
            "sample itself, or train_loader= beside the model."
        )
    if not is_indexed(loader):
        raise SetupError(
            f"the loader is a {type(loader).__name__}, whose samples have no places; expected a DataLoader over a data "
            "set with an index. Pass the sample itself."
        )
    size = len(loader.dataset)
    if not size:
        raise SetupError("the data set has 0 samples; expected one at least. Look at what it reads.")
    for place in places:
        if not -size <= place < size:
            raise SetupError(f"sample is {place}; expected 0 to {size - 1}. Take one from the error browser.")
    keys = [place % size for place in places]
    samples = []
    for place, sample in fetched(loader.dataset, keys):
        if isinstance(sample, Exception):
            raise SetupError(
                f"sample {place} raised {type(sample).__name__}: {sample}; expected a sample. Mend the data set."
            ) from sample
        samples.append(sample)
    return collated(setup, samples, tuple(keys), loader)


def collated(setup: Setup, samples: list[Any], keys: tuple[int | None, ...], loader: Any) -> Cases:
    """Samples as the data set gives them, as one batch; samples that cannot stand in one raise SetupError."""
    collate = getattr(loader, "collate_fn", None) or torch.utils.data.default_collate
    try:
        with Preserve(*setup.owned):
            return Cases(setup.split(collate(samples)), keys, loader)
    except SetupError:
        raise
    except Exception as error:
        raise refused(samples, error, "Explain them one by one") from error


def as_given(setup: Setup, given: Any, first: Batch | None) -> Cases:
    """Samples themselves: a batch of inputs, a single input, or a sample with its target as the data set gives it."""
    if isinstance(given, Batch):
        return Cases(given, (None,) * given.size)
    if first is None:
        batch = as_batch(given, setup.eager)
        return Cases(batch, (None,) * len(tensors(batch.inputs)[0]))
    found = as_tensors(given)
    whole = isinstance(found, (tuple, list)) and len(found) > 1
    same = None if whole and len(found) != len(first.args) else alike(found, setup, first)
    if same is not None:
        return Cases(same, (None,) * len(tensors((same.args, same.kwargs))[0]))
    made = collated(setup, [tuple(found) if whole else found], (None,), setup.train_loader)
    if axes(made.batch) != axes(first):
        raise SetupError(
            f"sample is {described(given)}; expected {described(first.inputs)} as in the training data, or one. "
            "Pass a place in the data set, or such a tensor."
        )
    return made


def alike(given: Any, setup: Setup, first: Batch) -> Batch | None:
    """What is given as a batch, where its tensors have as many axes as those of the first batch, or one fewer."""
    wanted, have = axes(first), [one.dim() for one in tensors(given)]
    if have == wanted:
        return as_batch(given, setup.eager)
    if wanted and [dim + 1 for dim in have] == wanted:
        return as_batch(transform(given, lambda leaf: leaf[None] if isinstance(leaf, Tensor) else leaf), setup.eager)
    return None


def axes(batch: Batch) -> list[int]:
    """How many axes each tensor of the inputs has."""
    return [leaf.dim() for _, leaf in inputs_of(batch) if isinstance(leaf, Tensor)]
