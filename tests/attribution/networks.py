"""Small models with inputs that fit them, and random samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ResidualNetwork(nn.Module):
    """Convolutions with an in-place ReLU that is called twice, and an in-place sum."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.relu, self.head = nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.stem(x))
        y = self.norm(self.conv(x))
        y += x
        return self.head(self.relu(y).mean((2, 3)))


class TokenTransformer(nn.Module):
    """Token ids through token and position embeddings and a transformer layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        return self.head(self.block(self.embed(tokens) + self.position(positions)).mean(1))


class MixedInputModel(nn.Module):
    """Real numbers and two columns of categories, each with its own embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(5, 3), nn.Embedding(7, 3)
        self.numbers = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        state = self.numbers(numbers) + self.first(categories[:, 0]) + self.second(categories[:, 1])
        return self.head(state)


class AdditiveModel(nn.Module):
    """A sum of one function per feature; its Shapley values are known."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0]))

    def terms(self, x: Tensor) -> Tensor:
        """The term of each feature."""
        return torch.stack([x[:, 0].sin(), x[:, 1] ** 3, x[:, 2].exp(), x[:, 3]], 1) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return self.terms(x).sum(1)


class RecurrentModel(nn.Module):
    """A GRU over a series; returns a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(2, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"states": None, "logits": self.head(self.gru(x)[0][:, -1])}


class NoGradModel(nn.Module):
    """Runs its first layer under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            state = self.body(x).relu()
        return self.head(state)


class InputMutatingModel(nn.Module):
    """Writes into its input."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x *= 2
        return self.body(F.relu(x, inplace=True)), x


class RoundingModel(nn.Module):
    """Rounds its input; its gradient is zero everywhere."""

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


def random_samples(count: int, *shape: int, seed: int = 0) -> Tensor:
    """Normal values, independent of the global generator."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


X, BACKGROUND = random_samples(3, 4), random_samples(9, 4, seed=1)

MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "MLP": (mlp, lambda count: torch.randn(count, 4)),
    "in-place": (lambda: mlp(inplace=True), lambda count: torch.randn(count, 4)),
    "residual": (ResidualNetwork, lambda count: torch.randn(count, 1, 6, 6)),
    "writes into its input": (InputMutatingModel, lambda count: torch.randn(count, 4)),
    "recurrent": (RecurrentModel, lambda count: torch.randn(count, 5, 2)),
    "tokens": (TokenTransformer, lambda count: torch.randint(20, (count, 6))),
    "mixed": (MixedInputModel, lambda count: (torch.randn(count, 4), torch.randint(5, (count, 2)))),
    "no_grad": (NoGradModel, lambda count: torch.randn(count, 4)),
}


def backpropagate(model: nn.Module, inputs: Any) -> None:
    """Fill the gradients of the parameters from the sum of the logits; the inputs stay as they are."""
    output = model(*[part.clone() for part in (inputs if isinstance(inputs, tuple) else (inputs,))])
    logits = output["logits"] if isinstance(output, dict) else output[0] if isinstance(output, tuple) else output
    logits.sum().backward()
