"""D104 looks at the data where they meet weights, in any style of model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

X, Y = points()
CE = nn.CrossEntropyLoss()
PICTURES = torch.randint(0, 256, (64, 3, 8, 8), generator=torch.Generator().manual_seed(0)).float()
TABLE = X * torch.tensor([1.0, 50.0, 4e4, 1.0]) + torch.tensor([0.0, 200.0, 1e5, 2.0])


class Functional(nn.Module):
    """Weights as plain parameters, and whatever is done to the input first."""

    def __init__(self, before: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        self.before = before
        self.weight = nn.Parameter(torch.randn(3, 4) / 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.before(x), self.weight)


class Product(Functional):
    """The same with an operator."""

    def forward(self, x: Tensor) -> Tensor:
        return self.before(x) @ self.weight.t()


class Recurrent(nn.Module):
    """The last state of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class Attentive(nn.Module):
    """Attention straight on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x, x, x)[0].mean(1))


class Tokens(nn.Module):
    """Large token numbers go through an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5000, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens).mean(1))


def pictures(*first: nn.Module) -> nn.Sequential:
    return nn.Sequential(*first, nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def by_name() -> Setup:
    batches = [{"pixels": PICTURES[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(pictures(), batches, loss_fn=CE)


def said(setup: Setup) -> list[Finding]:
    return list(Debugger.of(setup).checkup(select=["D104"]))


def of(model: nn.Module, x: Tensor, y: Tensor = Y) -> Callable[[], Setup]:
    return lambda: minimal_setup(model, x, y, CE)


FRAMES = TABLE.unsqueeze(1).expand(64, 5, 4).contiguous()
FAULTY: dict[str, Callable[[], Any]] = {
    "table": of(network(3), TABLE),
    "functional": of(Functional(), TABLE),
    "operator": of(Product(), TABLE),
    "reduced precision": of(network(3).bfloat16(), TABLE.bfloat16()),
    "recurrent": of(Recurrent(), FRAMES),
    "attention": of(Attentive(), FRAMES),
    "8-bit pictures": of(pictures(), PICTURES),
    "8-bit pictures, flat": of(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), PICTURES),
    "dictionary": by_name,
    "divided twice": of(pictures(), PICTURES / 255 / 255),
    "columns apart before a normalization": of(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), TABLE),
}
HEALTHY: dict[str, Callable[[], Any]] = {
    "unit scale": of(network(3), X),
    "scaled in forward": of(Functional(lambda x: (x - TABLE.mean(0)) / TABLE.std(0)), TABLE),
    "pixels scaled by a layer": of(pictures(nn.Identity()), PICTURES / 255),
    "batch norm first": of(nn.Sequential(nn.BatchNorm1d(4), network(3)), TABLE),
    "norm without weights first": of(nn.Sequential(nn.LayerNorm(4, elementwise_affine=False), network(3)), TABLE),
    "token numbers": of(Tokens(), torch.randint(0, 5000, (64, 6))),
    "four-bit pictures": of(pictures(), (PICTURES / 16).floor()),
    "one-hot": of(network(3), F.one_hot(Y, 4).float()),
    "rare flags": of(network(3), (X > 2).float()),
}


@pytest.mark.parametrize("name", FAULTY)
def test_raw_units_are_found(name: str) -> None:
    torch.manual_seed(0)
    found = said(FAULTY[name]())
    assert [one.severity for one in found] == ["warning"] * len(found)
    assert found


@pytest.mark.parametrize("name", HEALTHY)
def test_what_the_model_scales_itself_is_left_alone(name: str) -> None:
    torch.manual_seed(0)
    assert said(HEALTHY[name]()) == []


def test_one_scale_that_a_normalization_takes_away_is_a_note() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3))
    assert [one.severity for one in said(minimal_setup(model, PICTURES, Y, CE))] == ["note"]


def test_the_cause_and_the_columns_are_named() -> None:
    names = ["rooms", "area", "income", "floor"]
    (found,) = said(minimal_setup(network(3), TABLE, Y, CE, feature_names=names))
    assert "feature income" in found.message
    assert found.where.module == "0"
    (found,) = said(of(pictures(), PICTURES)())
    assert "/ 255" in found.fix
