"""D101 and D102 speak where torch's own error would be cryptic, whatever operation raises it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

X, Y = points()
STRAY = Y.clone()
STRAY[37] = 7
FRAMES, TAGS = torch.randn(64, 5, 4), (torch.arange(320) % 3).reshape(64, 5)


def gathered(output: Tensor, target: Tensor) -> Tensor:
    return -output.log_softmax(1).gather(1, target.unsqueeze(1)).mean()


def indexed(output: Tensor, target: Tensor) -> Tensor:
    return -output.log_softmax(1)[torch.arange(len(target)), target].mean()


def one_hot(output: Tensor, target: Tensor) -> Tensor:
    return -(F.one_hot(target, 3) * output.log_softmax(1)).sum(1).mean()


def by_hand(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(F.log_softmax(output, dim=1), target)


class Late(Dataset[Any]):
    """Gives a stray class far from its first batches."""

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": X[index % 64], "labels": torch.tensor(3 if index == 431 else int(Y[index % 64]))}


class Tagger(nn.Module):
    """Scores with the classes on the second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).transpose(1, 2)


def with_loss(loss_fn: Callable[..., Any], labels: Tensor = STRAY) -> Callable[[], Setup]:
    return lambda: Setup(network(3), [(X[32:48], labels[32:48])], loss_fn=loss_fn)


FAULTY: dict[str, Callable[[], Setup]] = {
    "torch's own": with_loss(nn.CrossEntropyLoss()),
    "partial": with_loss(partial(F.cross_entropy, label_smoothing=0.1)),
    "gather": with_loss(gathered),
    "indexing": with_loss(indexed),
    "one-hot": with_loss(one_hot),
    "log-softmax and nll": with_loss(by_hand),
    "far from the first batch": lambda: Setup(network(3), DataLoader(Late(), 16), loss_fn=nn.CrossEntropyLoss()),
    "tags": lambda: minimal_setup(Tagger(), FRAMES, TAGS.clone().fill_diagonal_(3), nn.CrossEntropyLoss()),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "ignored": with_loss(nn.CrossEntropyLoss(ignore_index=7)),
    "ignored by a partial": with_loss(partial(F.cross_entropy, ignore_index=7)),
    "padding of -100": with_loss(nn.CrossEntropyLoss(), torch.where(STRAY == 7, -100, STRAY)),
    "by hand": with_loss(gathered, Y),
    "tags": lambda: minimal_setup(Tagger(), FRAMES, TAGS, nn.CrossEntropyLoss()),
}


def loud(setup: Setup) -> list[str]:
    return [
        one.code for one in Debugger.of(setup).checkup() if one.code in ("D101", "D102") and one.severity == "error"
    ]


@pytest.mark.parametrize("name", FAULTY)
def test_a_class_out_of_range_is_found(name: str) -> None:
    assert loud(FAULTY[name]()) == ["D101"]


@pytest.mark.parametrize("name", HEALTHY)
def test_classes_in_range_are_left_alone(name: str) -> None:
    assert loud(HEALTHY[name]()) == []


@pytest.mark.parametrize(
    ("labels", "loss_fn"),
    [
        (Y.float(), by_hand),
        (F.one_hot(Y, 3), F.cross_entropy),
        (Y.to(torch.int16), by_hand),
        (Y.unsqueeze(1), lambda o, t: F.cross_entropy(o, t)),
    ],
    ids=["expected Long", "expected floating point", "int16", "column"],
)
def test_a_dtype_error_is_told_as_a_matter_of_labels(labels: Tensor, loss_fn: Any) -> None:
    assert loud(minimal_setup(network(3), X, labels, loss_fn)) == ["D102"]


def pair(train: Tensor, val: Tensor) -> Setup:
    loaders = [DataLoader(TensorDataset(X[part], y), 16) for part, y in ((slice(40), train), (slice(40, 64), val))]
    return Setup(network(3), loaders[0], loaders[1], loss_fn=nn.CrossEntropyLoss())


def test_labels_that_were_scaled_away_are_found() -> None:
    assert loud(pair((Y[:40] / 255).long(), Y[40:])) == ["D102"]


@pytest.mark.parametrize("val", [Y[40:], torch.zeros(24, dtype=torch.int64)], ids=["several classes", "one class"])
def test_one_class_is_a_fault_only_beside_several(val: Tensor) -> None:
    train = Y[:40] if int(val.max()) else torch.zeros(40, dtype=torch.int64)
    assert loud(pair(train, val)) == []


def test_a_token_beyond_the_embedding_is_told_with_the_next_act() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 3))
    tokens = torch.full((64, 3), 5)
    with pytest.raises(nbdebug.SetupError, match="expected indices from 0 to num_embeddings - 1"):
        Debugger.of(minimal_setup(model, tokens, Y, nn.CrossEntropyLoss())).checkup()
