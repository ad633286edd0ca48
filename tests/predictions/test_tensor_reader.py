"""Tests of get_tensor_reader: batches indexed directly from the tensors of a dataset."""

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


def make_tensor_dataset() -> TensorDataset:
    dtypes = torch.float32, torch.bfloat16, torch.uint8, torch.complex64
    columns = [torch.randint(0, 99, (ROWS, 3, 2)).to(dtype) for dtype in dtypes]
    return TensorDataset(*columns, torch.arange(ROWS), torch.randn(3, ROWS).T, torch.zeros(ROWS, 0))


def make_nested_subset() -> Dataset[Any]:
    return Subset(Subset(make_tensor_dataset(), [*range(3, ROWS)]), np.array([4, 2, 9, -1]))  # type: ignore[arg-type]


READABLE_LOADERS: dict[str, DataLoader[Any]] = {
    "in order": DataLoader(make_tensor_dataset(), batch_size=4),
    "drop_last": DataLoader(make_tensor_dataset(), batch_size=4, drop_last=True),
    "batch sampler with negative indices": DataLoader(make_tensor_dataset(), batch_sampler=[[3, 1, 1], [-1, 2]]),
    "index arrays": DataLoader(make_tensor_dataset(), batch_sampler=[np.array([3, 1]), torch.tensor([2])]),
    "slices": DataLoader(make_tensor_dataset(), batch_sampler=[[slice(0, 2), slice(3, 5)], [slice(1, 4)]]),
    "nested subset": DataLoader(make_nested_subset(), batch_size=3),
    "int16 indices": DataLoader(make_tensor_dataset(), batch_sampler=[np.array([3, 1], np.int16), np.array([2])]),
}


@pytest.mark.parametrize("name", READABLE_LOADERS)
def test_tensor_reader_yields_same_batches_as_loader(name: str) -> None:
    loader = READABLE_LOADERS[name]
    reader = get_tensor_reader(loader)
    assert reader is not None
    for actual_batch, expected_batch in zip(reader, loader, strict=True):
        assert type(actual_batch) is type(expected_batch)
        for actual, expected in zip(actual_batch, expected_batch, strict=True):
            assert actual.dtype == expected.dtype
            assert actual.stride() == expected.stride()
            assert torch.equal(actual, expected)


class NegatingDataset(TensorDataset):
    """Negates its inputs when they are read."""

    def __getitem__(self, index: Any) -> Any:
        x, y = super().__getitem__(index)
        return -x, y


class TensorSubclass(Tensor):
    """A tensor class that may override indexing."""


def make_pair_dataset(dataset_class: type[TensorDataset] = TensorDataset) -> TensorDataset:
    return dataset_class(torch.randn(ROWS, 2), torch.arange(ROWS) % 3)


UNREADABLE_LOADERS: dict[str, DataLoader[Any]] = {
    "dataset subclass": DataLoader(NegatingDataset(torch.ones(4, 2), torch.ones(4)), 2),
    "subset of dataset subclass": DataLoader(Subset(NegatingDataset(torch.ones(4, 2), torch.ones(4)), [1, 2]), 2),
    "tensor subclass": DataLoader(TensorDataset(torch.ones(4, 2).as_subclass(TensorSubclass)), 2),
    "sparse": DataLoader(TensorDataset(torch.eye(4).to_sparse()), 2),
    "custom collate_fn": DataLoader(make_pair_dataset(), 2, collate_fn=lambda samples: samples),
    "workers": DataLoader(make_pair_dataset(), 2, num_workers=1),
    "batch_size=None": DataLoader(make_pair_dataset(), batch_size=None),
}


@pytest.mark.parametrize("name", UNREADABLE_LOADERS)
def test_tensor_reader_of_custom_dataset_or_loader_is_none(name: str) -> None:
    assert get_tensor_reader(UNREADABLE_LOADERS[name]) is None


def test_collect_predictions_of_dataset_with_own_getitem_uses_its_samples() -> None:
    loader = DataLoader(make_pair_dataset(NegatingDataset), batch_size=4)
    model = nn.Linear(2, 3)
    table = collect_predictions(Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), loader)
    x = loader.dataset.tensors[0]  # type: ignore[attr-defined]
    assert torch.equal(torch.from_numpy(table.prediction), model(-x).argmax(1))


def test_collect_predictions_with_index_out_of_range_names_sample() -> None:
    loader = DataLoader(make_pair_dataset(), batch_sampler=[[1, 2], [3, ROWS]])
    with pytest.raises(SetupError, match=rf"sample {ROWS} of the dataset raised IndexError"):
        collect_predictions(Setup(nn.Linear(2, 3), loader, loss_fn=nn.CrossEntropyLoss()), loader)
