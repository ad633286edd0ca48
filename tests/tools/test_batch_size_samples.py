"""The samples that a batch-size search is fed with, and the gradient-noise scale that they tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.rules.examples import classifier, network, points
from nbdebug.setup import Setup
from nbdebug.tools.batch_size import batch_size
from nbdebug.tools.batch_size.noise_scale import noise_scale_from_norms


class Words(Dataset[dict[str, Any]]):
    """Sentences of different lengths, each with a class."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"tokens": torch.arange(1 + index % 7), "label": index % 3}


def padded(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch as a tree, padded to its longest sentence."""
    tokens = nn.utils.rnn.pad_sequence([one["tokens"] for one in samples], batch_first=True)
    return {"text": {"tokens": tokens}, "labels": torch.tensor([one["label"] for one in samples])}


class Bag(nn.Module):
    """Computes its own loss from a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.sizes = nn.EmbeddingBag(8, 3), []

    def forward(self, text: dict[str, Tensor], labels: Tensor) -> dict[str, Tensor]:
        return {"loss": nn.functional.cross_entropy(self.bag(text["tokens"]), labels)}


def test_trees_are_made_by_the_users_own_collate_function() -> None:
    seen: list[int] = []

    def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
        seen.append(len(samples))
        return padded(samples)

    result = batch_size(Setup(Bag(), DataLoader(Words(), 4, collate_fn=collate)), noise=False)
    assert [one.size for one in result.sizes] == [8, 16, 32, 40]
    assert set(seen) == {8, 16, 32, 40}


def test_a_step_function_gets_the_batch_as_it_was_collated() -> None:
    model = Bag()
    setup = Setup(model, DataLoader(Words(), 4, collate_fn=padded), step_fn=lambda batch: model(**batch)["loss"])
    assert [one.size for one in batch_size(setup, noise=False).sizes] == [8, 16, 32, 40]


class Stream(IterableDataset[tuple[Tensor, int]]):
    """Samples without indices."""

    def __iter__(self) -> Any:
        return (((torch.full((4,), float(i))), i % 3) for i in range(20))


@pytest.mark.parametrize(
    "loader",
    [DataLoader(Stream(), 4), [(points()[0][:6], points()[1][:6])], iter([(points()[0][:6], points()[1][:6])])],
)
def test_loaders_without_indices_serve_too(loader: Any) -> None:
    setup = Setup(network(3), loader, loss_fn=nn.CrossEntropyLoss())
    result = batch_size(setup, most=32)
    assert [one.size for one in result.sizes] == [8, 16, 32]
    assert "not measured" in str(result.noise)
    assert len(list(setup.train_loader)) in (1, 5)


def test_the_noise_scale_of_known_gradients_is_found() -> None:
    random = torch.Generator().manual_seed(0)
    mean, deviation, pairs = torch.full((50,), 0.2), 1.5, []
    for _ in range(16):
        gradients = mean + deviation * torch.randn(64, 50, generator=random)
        small = gradients.view(8, 8, 50).mean(1)
        pairs.append((float(small.square().sum(1).mean()), float(small.mean(0).square().sum())))
    true = 50 * deviation**2 / float(mean.square().sum())
    got = noise_scale_from_norms(pairs, 8, 64)
    assert got.low is not None
    assert got.high is not None
    assert got.low < true < got.high
    assert got.high < 2 * got.low


def test_a_gradient_of_nothing_but_noise_has_no_scale() -> None:
    pairs, random = [], torch.Generator().manual_seed(1)
    for _ in range(16):
        small = torch.randn(8, 8, 50, generator=random).mean(1)
        pairs.append((float(small.square().sum(1).mean()), float(small.mean(0).square().sum())))
    got = noise_scale_from_norms(pairs, 8, 64)
    assert got.value is None
    assert got.high is None
    assert got.low is not None
    assert "cannot be distinguished from noise" in str(got)


def test_a_gradient_below_its_own_noise_has_not_even_a_lower_bound() -> None:
    with pytest.raises(NotChecked, match="cannot be distinguished from noise"):
        noise_scale_from_norms([(8.0, 0.5 + 0.01 * i) for i in range(4)], 8, 64)


def test_the_noise_scale_is_that_of_the_weights_as_they_are() -> None:
    torch.manual_seed(0)
    x = torch.randn(2000, 10)
    y, model, loss_fn = (x @ torch.randn(10, 3)).argmax(1), nn.Linear(10, 3), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    wrong = (model(x).softmax(1) - nn.functional.one_hot(y, 3)).detach()
    each = torch.cat([(wrong[:, :, None] * x[:, None, :]).flatten(1), wrong], 1)
    mean = each.mean(0)
    true = float((each - mean).square().sum(1).mean() / mean.square().sum())
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
    setup = Setup(model, loader, loss_fn=loss_fn, optimizers=(optimizer,))
    got = batch_size(setup, most=8).noise
    assert got.low is not None
    assert got.high is not None
    assert got.low < true < got.high


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        (classifier(loss_fn=nn.CrossEntropyLoss(reduction="sum")), "not a mean"),
        (classifier(nn.BatchNorm1d(3)), "batch normalization"),
        (classifier(), "256 different samples"),
    ],
)
def test_a_noise_scale_that_would_mean_nothing_is_not_given(setup: Setup, why: str) -> None:
    assert why in batch_size(setup, most=8).noise.why
