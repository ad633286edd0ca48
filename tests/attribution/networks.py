"""Small models for explanations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Convolutions with one in-place ReLU that is used again, and a sum made in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.relu, self.head = nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.stem(x))
        y = self.norm(self.conv(x))
        y += x
        return self.head(self.relu(y).mean((2, 3)))


class Sequence(nn.Module):
    """Token ids through an embedding with places, attention and normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        return self.head(self.block(self.embed(tokens) + self.place(places)).mean(1))


class Mixed(nn.Module):
    """Columns of categories, each with an embedding of its own, beside real numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Embedding(5, 3), nn.Embedding(7, 3)
        self.numbers = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        state = self.numbers(numbers) + self.one(kinds[:, 0]) + self.two(kinds[:, 1])
        return self.head(state)


class Additive(nn.Module):
    """A sum of a function of each feature, whose Shapley values are known."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0]))

    def terms(self, x: Tensor) -> Tensor:
        """What each feature adds."""
        return torch.stack([x[:, 0].sin(), x[:, 1] ** 3, x[:, 2].exp(), x[:, 3]], 1) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return self.terms(x).sum(1)


class Recurrent(nn.Module):
    """A GRU over a series."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(2, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"states": None, "logits": self.head(self.gru(x)[0][:, -1])}


class Hidden(nn.Module):
    """A layer under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            state = self.body(x).relu()
        return self.head(state)


class Writing(nn.Module):
    """Writes into what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x *= 2
        return self.body(F.relu(x, inplace=True)), x


class Steps(nn.Module):
    """Rounds its input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.round())


def mlp(width: int = 4, inplace: bool = False) -> nn.Module:
    """Two hidden layers with dropout and batch normalization."""
    return nn.Sequential(
        nn.Linear(width, 16), nn.BatchNorm1d(16), nn.ReLU(inplace), nn.Dropout(0.5), nn.Linear(16, 16), nn.SiLU(),
        nn.Linear(16, 3),
    )  # fmt: skip
