"""What holds the parameters back, and how many targets there are to pin them down."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.graph.switches import Switched
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_indexed
from nbdebug.setup.trees import tensors


@dataclass(frozen=True)
class Regularizers:
    """What regularizes, in words; the targets in the whole training set (0 if unknown) and the values of an input."""

    found: tuple[str, ...]
    targets: int
    width: int


@slow_measurement
def regularizers(setup: Setup, batches: list[Batch], train_calls: list[Switched]) -> Regularizers:
    """Weight decay, dropout and noise of the model in train mode, and samples that differ when they are read again."""
    groups = [group for one in setup.optimizers for group in one.param_groups]
    noise = [one.call for one in train_calls if one.on and one.kind != "batch statistics"]
    kinds = {
        "weight decay": any(group.get("weight_decay", 0.0) for group in groups),
        "noise in the model": bool(noise),
        "samples drawn anew": drawn_anew(setup.train_loader),
    }
    batch = batches[0]
    per_sample = sum(t.numel() for t in tensors(batch.targets)) / max(batch.size, 1)
    width = sum(t.numel() for t in tensors((batch.args, batch.kwargs))) // max(batch.size, 1)
    samples = samples_of(setup.train_loader, batch.size)
    return Regularizers(tuple(kind for kind, there in kinds.items() if there), int(samples * per_sample), width)


def samples_of(loader: Any, batch_size: int) -> int:
    """How many samples a loader gives in an epoch; 0 where it does not say."""
    dataset = getattr(loader, "dataset", None)
    if isinstance(dataset, Sized):
        return len(dataset)
    return len(loader) * batch_size if isinstance(loader, Sized) else 0


def drawn_anew(loader: Any) -> bool:
    """Whether the same sample read twice is not the same."""
    if not is_indexed(loader) or not isinstance(loader.dataset, Sized) or not len(loader.dataset):
        return False
    try:
        data: Any = loader.dataset
        once, again = (tensors(data[0]) for _ in range(2))
    except Exception:
        return False
    return len(once) != len(again) or not all(map(same, once, again))


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same values, NaN included."""
    return one.shape == other.shape and torch.allclose(
        one, other, rtol=0.0, atol=0.0, equal_nan=one.is_floating_point()
    )
