"""Batches of tensors read in one go are, bit for bit, those that the loader gives; all other loaders are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.predictions.collection import collect_predictions
from nbdebug.predictions.sample_indices import get_tensor_reader
from nbdebug.setup import Setup

ROWS = 23


def tensors() -> TensorDataset:
    kinds = torch.float32, torch.bfloat16, torch.uint8, torch.complex64
    wide = [torch.randint(0, 99, (ROWS, 3, 2)).to(kind) for kind in kinds]
    return TensorDataset(*wide, torch.arange(ROWS), torch.randn(3, ROWS).T, torch.zeros(ROWS, 0))


def part() -> Dataset[Any]:
    return Subset(Subset(tensors(), [*range(3, ROWS)]), np.array([4, 2, 9, -1]))  # type: ignore[arg-type]


READ: dict[str, DataLoader[Any]] = {
    "in order": DataLoader(tensors(), batch_size=4),
    "drop_last": DataLoader(tensors(), batch_size=4, drop_last=True),
    "own order, from the end too": DataLoader(tensors(), batch_sampler=[[3, 1, 1], [-1, 2]]),
    "arrays": DataLoader(tensors(), batch_sampler=[np.array([3, 1]), torch.tensor([2])]),
    "slices": DataLoader(tensors(), batch_sampler=[[slice(0, 2), slice(3, 5)], [slice(1, 4)]]),
    "part of a part": DataLoader(part(), batch_size=3),
    "numbers of another kind": DataLoader(tensors(), batch_sampler=[np.array([3, 1], np.int16), np.array([2])]),
}


@pytest.mark.parametrize("name", READ)
def test_they_are_what_the_loader_gives(name: str) -> None:
    loader = READ[name]
    found = get_tensor_reader(loader)
    assert found is not None
    for mine, theirs in zip(found, loader, strict=True):
        assert type(mine) is type(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert one.dtype == other.dtype
            assert one.stride() == other.stride()
            assert torch.equal(one, other)


class Augmented(TensorDataset):
    """Makes its samples when they are asked for."""

    def __getitem__(self, index: Any) -> Any:
        x, y = super().__getitem__(index)
        return -x, y


class Own(Tensor):
    """A tensor that may do anything when it is indexed."""


def pairs(of: type[TensorDataset] = TensorDataset) -> TensorDataset:
    return of(torch.randn(ROWS, 2), torch.arange(ROWS) % 3)


LEFT: dict[str, DataLoader[Any]] = {
    "a data set of one's own": DataLoader(Augmented(torch.ones(4, 2), torch.ones(4)), 2),
    "a part of one": DataLoader(Subset(Augmented(torch.ones(4, 2), torch.ones(4)), [1, 2]), 2),
    "a tensor of one's own": DataLoader(TensorDataset(torch.ones(4, 2).as_subclass(Own)), 2),
    "sparse": DataLoader(TensorDataset(torch.eye(4).to_sparse()), 2),
    "own collate": DataLoader(pairs(), 2, collate_fn=lambda samples: samples),
    "workers": DataLoader(pairs(), 2, num_workers=1),
    "no batches": DataLoader(pairs(), batch_size=None),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_may_do_more_is_read_as_it_is(name: str) -> None:
    assert get_tensor_reader(LEFT[name]) is None


def test_what_is_made_when_asked_for_is_seen_by_the_model() -> None:
    loader = DataLoader(pairs(Augmented), batch_size=4)
    model = nn.Linear(2, 3)
    table = collect_predictions(Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), loader)
    x = loader.dataset.tensors[0]  # type: ignore[attr-defined]
    assert torch.equal(torch.from_numpy(table.prediction), model(-x).argmax(1))


def test_a_place_that_is_not_there_is_named() -> None:
    loader = DataLoader(pairs(), batch_sampler=[[1, 2], [3, ROWS]])
    with pytest.raises(SetupError, match=rf"sample {ROWS} of the dataset raised IndexError"):
        collect_predictions(Setup(nn.Linear(2, 3), loader, loss_fn=nn.CrossEntropyLoss()), loader)
