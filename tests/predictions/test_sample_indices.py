"""Tests of the dataset index of each row, for loaders of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler, SequentialSampler

from nbdebug.exceptions import SetupError
from nbdebug.predictions.collection import collect_predictions
from nbdebug.predictions.table import PredictionTable
from nbdebug.setup import Setup

ROWS = 21


class NumberedDataset(Dataset[Any]):
    """Samples that hold their own index."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: Any) -> Any:
        number = torch.as_tensor(index)
        return number[..., None].float(), number % 3

    def iterate(self) -> Iterator[Any]:
        yield from (self[index] for index in range(len(self)))


class ReversedSampler(Sampler[int]):
    """A custom sampler."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(ROWS - 1, -1, -1))

    def __len__(self) -> int:
        return ROWS


def collect(loader: Any, **options: Any) -> PredictionTable:
    torch.manual_seed(0)
    setup = Setup(nn.Linear(1, 3), loader, loss_fn=nn.CrossEntropyLoss())
    add_number = lambda batch, output: {"number": batch.args[0][:, 0]}  # noqa: E731
    return collect_predictions(setup, setup.train_loader, more=add_number, **options)


LOADERS: dict[str, dict[str, Any]] = {
    "in order": {"batch_size": 4},
    "shuffled": {"batch_size": 4, "shuffle": True},
    "drop_last": {"batch_size": 4, "shuffle": True, "drop_last": True},
    "workers": {"batch_size": 4, "shuffle": True, "num_workers": 2},
    "persistent workers": {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": True},
    "custom sampler": {"batch_size": 4, "sampler": ReversedSampler()},
    "list as sampler": {"batch_size": 2, "sampler": [5, 3, 1]},
    "batches in a list": {"batch_sampler": [[3, 1], [0, 2, 4]]},
    "numpy batches": {"batch_sampler": [np.array([3, 1]), np.array([2])]},
    "batched by dataset": {"batch_size": None, "sampler": BatchSampler(SequentialSampler(range(ROWS)), 4, False)},
}


@pytest.mark.parametrize("name", LOADERS)
def test_sample_indices_of_dataloader_match_rows(name: str) -> None:
    loader = DataLoader(NumberedDataset(), **LOADERS[name])
    sampler = loader.batch_sampler, loader.sampler
    table = collect(loader)
    assert table.index is not None
    assert table.index.tolist() == table.columns["number"].tolist()
    assert (loader.batch_sampler, loader.sampler) == sampler
    if name == "drop_last":
        assert len(table) == 20


def test_collect_predictions_does_not_advance_partly_read_loader() -> None:
    loader = DataLoader(NumberedDataset(), batch_size=4, num_workers=1, persistent_workers=True)
    batches = iter(loader)
    first_targets = next(batches)[1].tolist()
    assert collect(loader).index.tolist() == list(range(ROWS))
    assert first_targets + [value for _, target in batches for value in target.tolist()] == [
        index % 3 for index in range(ROWS)
    ]


class StreamDataset(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return NumberedDataset().iterate()


class SkippingLoader(DataLoader[Any]):
    """A loader that skips its first batch."""

    def __iter__(self) -> Any:
        yield from list(super().__iter__())[1:]


def drop_first_sample(samples: list[Any]) -> Any:
    """Collate all samples of a batch but the first."""
    return torch.utils.data.default_collate(samples[1:] or samples)


@pytest.mark.parametrize(
    ("make_loader", "reason"),
    [
        (lambda: DataLoader(StreamDataset(), batch_size=7), "an iterable dataset has no indices"),
        (lambda: [NumberedDataset()[torch.arange(7)]], "a list does not provide dataset indices"),
        (lambda: iter([NumberedDataset()[torch.arange(7)]]), "the loader can be read only once"),
        (lambda: SkippingLoader(NumberedDataset(), batch_size=7), "SkippingLoader overrides __iter__"),
        (
            lambda: DataLoader(NumberedDataset(), 7, collate_fn=drop_first_sample),
            "the batches do not match the indices",
        ),
        (lambda: DataLoader(NumberedDataset(), 7, num_workers=2, in_order=False), "in_order=False returns batches in"),
    ],
    ids=["iterable dataset", "list", "iterator", "overridden __iter__", "collate_fn drops samples", "in_order=False"],
)
def test_sample_indices_that_are_unknown_are_none_with_reason(make_loader: Any, reason: str) -> None:
    table = collect(make_loader())
    assert table.index is None
    assert table.notes[-1].startswith(reason)
    assert table.notes[-1].endswith(
        "so samples cannot be shown, tagged by index or made a subset. Pass index=, or a DataLoader of a dataset"
    )


def test_sample_indices_passed_by_user_are_stored() -> None:
    batches = [NumberedDataset()[torch.tensor([4, 2])], NumberedDataset()[torch.tensor([9])]]
    table = collect(batches, index=[4, 2, 9])
    assert table.index.tolist() == table.columns["number"].tolist()
    assert not any("cannot be shown" in note for note in table.notes)
    with pytest.raises(SetupError, match="index has 2 rows; expected 3"):
        collect(batches, index=[4, 2])
