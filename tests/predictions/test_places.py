"""Loaders of all kinds: each row knows its sample, or it is said why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
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


class Numbered(Dataset[Any]):
    """Samples that hold their own place, so that a wrong one shows."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, at: Any) -> Any:
        place = torch.as_tensor(at)
        return place[..., None].float(), place % 3

    def stream(self) -> Iterator[Any]:
        yield from (self[at] for at in range(len(self)))


class Backwards(Sampler[int]):
    """A sampler of the user's own."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(ROWS - 1, -1, -1))

    def __len__(self) -> int:
        return ROWS


def passed(loader: Any, **options: Any) -> PredictionTable:
    torch.manual_seed(0)
    setup = Setup(nn.Linear(1, 3), loader, loss_fn=nn.CrossEntropyLoss())
    place = lambda batch, output: {"place": batch.args[0][:, 0]}  # noqa: E731
    return collect_predictions(setup, setup.train_loader, more=place, **options)


LOADERS: dict[str, dict[str, Any]] = {
    "in order": {"batch_size": 4},
    "shuffled": {"batch_size": 4, "shuffle": True},
    "drop_last": {"batch_size": 4, "shuffle": True, "drop_last": True},
    "workers": {"batch_size": 4, "shuffle": True, "num_workers": 2},
    "persistent": {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": True},
    "own sampler": {"batch_size": 4, "sampler": Backwards()},
    "list as sampler": {"batch_size": 2, "sampler": [5, 3, 1]},
    "batches in a list": {"batch_sampler": [[3, 1], [0, 2, 4]]},
    "numpy batches": {"batch_sampler": [np.array([3, 1]), np.array([2])]},
    "batched by the data set": {"batch_size": None, "sampler": BatchSampler(SequentialSampler(range(ROWS)), 4, False)},
}


@pytest.mark.parametrize("name", LOADERS)
def test_each_row_knows_its_sample(name: str) -> None:
    loader = DataLoader(Numbered(), **LOADERS[name])
    sampler = loader.batch_sampler, loader.sampler
    table = passed(loader)
    assert table.index is not None
    assert table.index.tolist() == table.columns["place"].tolist()
    assert (loader.batch_sampler, loader.sampler) == sampler
    if name == "drop_last":
        assert len(table) == 20


def test_a_loader_that_was_begun_goes_on_where_it_was() -> None:
    loader = DataLoader(Numbered(), batch_size=4, num_workers=1, persistent_workers=True)
    batches = iter(loader)
    first = next(batches)[1].tolist()
    assert passed(loader).index.tolist() == list(range(ROWS))
    assert first + [one for _, target in batches for one in target.tolist()] == [at % 3 for at in range(ROWS)]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return Numbered().stream()


class Skipping(DataLoader[Any]):
    """A loader that leaves batches out."""

    def __iter__(self) -> Any:
        yield from list(super().__iter__())[1:]


def dropping(samples: list[Any]) -> Any:
    """Leaves the first sample of each batch out."""
    return torch.utils.data.default_collate(samples[1:] or samples)


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (lambda: DataLoader(Stream(), batch_size=7), "an iterable dataset has no indices"),
        (lambda: [Numbered()[torch.arange(7)]], "a list does not provide dataset indices"),
        (lambda: iter([Numbered()[torch.arange(7)]]), "the loader can be read only once"),
        (lambda: Skipping(Numbered(), batch_size=7), "Skipping overrides __iter__"),
        (lambda: DataLoader(Numbered(), 7, collate_fn=dropping), "the batches do not match the indices"),
        (lambda: DataLoader(Numbered(), 7, num_workers=2, in_order=False), "in_order=False returns batches in"),
    ],
)
def test_where_places_are_lost_it_says_what_cannot_be_shown(loader: Any, why: str) -> None:
    table = passed(loader())
    assert table.index is None
    assert table.notes[-1].startswith(why)
    assert table.notes[-1].endswith(
        "so samples cannot be shown, tagged by index or made a subset. Pass index=, or a DataLoader of a dataset"
    )


def test_places_that_the_user_knows_are_taken() -> None:
    batches = [Numbered()[torch.tensor([4, 2])], Numbered()[torch.tensor([9])]]
    table = passed(batches, index=[4, 2, 9])
    assert table.index.tolist() == table.columns["place"].tolist()
    assert not any("cannot be shown" in note for note in table.notes)
    with pytest.raises(SetupError, match="index has 2 rows; expected 3"):
        passed(batches, index=[4, 2])


def test_columns_of_a_pass_must_fit() -> None:
    setup = Setup(nn.Linear(1, 3), DataLoader(Numbered(), 7), loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="more returned 1 values of 'a'; expected 7"):
        collect_predictions(setup, setup.train_loader, more=lambda batch, output: {"a": [1]})
    names = chain("a", repeat("b"))
    with pytest.raises(SetupError, match="more returned b; expected a"):
        collect_predictions(setup, setup.train_loader, more=lambda batch, output: {next(names): output[:, 0]})


class Layered(nn.Module):
    """A layer of each kind of output, the last of them written over in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.line, self.steps = nn.Conv2d(1, 4, 3), nn.Conv1d(1, 5, 3), nn.LSTM(6, 7)
        self.flat, self.unused = nn.Linear(36, 3), nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.conv(x)
        self.line(x.flatten(1)[:, None])
        self.steps(x[:, 0].transpose(0, 1))
        return self.flat(x.flatten(1)).relu_()


def test_the_embedding_is_the_pooled_output_of_a_layer() -> None:
    torch.manual_seed(0)
    x, model = torch.randn(10, 1, 6, 6), Layered()
    loader = DataLoader(torch.utils.data.TensorDataset(x, torch.zeros(10).long()), 4)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss())
    wanted = {
        "conv": model.conv(x).mean((2, 3)),
        "line": model.line(x.flatten(1)[:, None]).mean(2),
        "steps": model.steps(x[:, 0].transpose(0, 1))[0].mean(0),
        "flat": model.flat(x.flatten(1)),
    }
    for name, values in wanted.items():
        found = collect_predictions(setup, loader, embed=name).embedding
        np.testing.assert_allclose(found, values.detach().numpy(), atol=1e-6)
    assert collect_predictions(setup, loader, embed=model.conv).embedding.shape == (10, 4)
    assert collect_predictions(setup, loader).embedding is None
    assert not model.conv._forward_hooks
    with pytest.raises(SetupError, match=r"embed is 'cnov'; expected a layer of the model. Did you mean 'conv'\?"):
        collect_predictions(setup, loader, embed="cnov")
    with pytest.raises(SetupError, match="a Linear of another model"):
        collect_predictions(setup, loader, embed=nn.Linear(1, 1))
    with pytest.raises(SetupError, match="embed is 'unused', which returned no tensor"):
        collect_predictions(setup, loader, embed="unused")
