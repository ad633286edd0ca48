"""Changes of the samples of both loaders: another split without copies, and no samples with missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, RandomSampler, SequentialSampler

from nbdebug.setup.loaders import is_map_style
from nbdebug.tensors.pytree import tree_leaves
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.changed_loaders import keep_samples, rebuild_loader

_MAX_SAMPLES = 50_000  # that are read one by one
_LOADERS = ("train_loader", "val_loader")


def split_again(treated: TreatedSetup, _: None) -> bool:
    """Divide the samples of both loaders at random into parts of the same relative sizes.

    All copies of a sample are in one part, and in the validation split only one of them.
    """
    loaders = [getattr(treated.setup, name) for name in _LOADERS]
    if not all(map(_is_readable, loaders)):
        return False
    data: ConcatDataset[Any] = ConcatDataset([loader.dataset for loader in loaders])
    if len(data) > _MAX_SAMPLES:
        return False
    copies: dict[tuple[Any, ...], list[int]] = {}
    for index in range(len(data)):
        copies.setdefault(_content(data[index]), []).append(index)
    groups = list(copies.values())
    share, order = len(loaders[0].dataset) / len(data), torch.randperm(len(groups)).tolist()
    cut = round(share * len(order))
    train = [index for number in order[:cut] for index in groups[number]]  # copies may be oversampling
    for name, loader, indices in zip(_LOADERS, loaders, (train, [groups[i][0] for i in order[cut:]]), strict=True):
        setattr(treated, name, keep_samples(rebuild_loader(loader, dataset=data, shuffle=False), indices))
    treated.train_loader = rebuild_loader(treated.train_loader, shuffle=True)
    return True


def drop_non_finite(treated: TreatedSetup, _: None) -> bool:
    """Leave out the samples with NaN or infinity."""
    return _keep(treated, lambda sample: all(bool(leaf.isfinite().all()) for leaf in _tensors(sample)))


def _keep(treated: TreatedSetup, is_kept: Callable[[Any], bool]) -> bool:
    changed = False
    for name in _LOADERS:
        loader = getattr(treated.setup, name)
        if not _is_readable(loader) or len(loader.dataset) > _MAX_SAMPLES:
            continue
        kept = [index for index in range(len(loader.dataset)) if is_kept(loader.dataset[index])]
        if 0 < len(kept) < len(loader.dataset):
            setattr(treated, name, keep_samples(loader, kept))
            changed = True
    return changed


def _is_readable(loader: Any) -> bool:
    """Check whether a loader draws all samples of a dataset by their indices."""
    has_batches = is_map_style(loader) and isinstance(loader, DataLoader) and loader.batch_size is not None
    return has_batches and type(loader.sampler) in (RandomSampler, SequentialSampler)


def _content(sample: Any) -> tuple[Any, ...]:
    """Return what tells a sample from others: the bytes of its tensors, and all other values."""
    leaves = (leaf for _, leaf in tree_leaves(sample))
    return tuple(leaf.numpy().tobytes() if isinstance(leaf, Tensor) else repr(leaf) for leaf in leaves)


def _tensors(sample: Any) -> Iterator[Tensor]:
    numbers = (int, float, np.ndarray, np.generic, Tensor)
    yield from (torch.as_tensor(leaf) for _, leaf in tree_leaves(sample) if isinstance(leaf, numbers))
