"""Six small training programs with different kinds of state, on which tools must change nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

ITEMS, BATCH = 48, 8


class Program(NamedTuple):
    """A model, its loss, its optimizer and a function that builds a shuffling loader of its data."""

    model: nn.Module
    loss_fn: nn.Module
    optimizer: torch.optim.Optimizer
    loader: Callable[..., DataLoader[Any]]


class TiedLanguageModel(nn.Module):
    """A language model whose input and output embedding are one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.output = nn.Linear(6, 11, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token, of shape (batch, 11)."""
        return self.output(self.embedding(tokens).mean(1))


class StatefulLSTM(nn.Module):
    """An LSTM that counts its calls, averages its inputs in a hidden buffer and caches its last state."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, dropout=0.3, batch_first=True)
        self.head = nn.Linear(5, 3)
        self.register_buffer("mean", torch.zeros(4), persistent=False)
        self.batch_sizes: list[int] = []
        self.cache: dict[str, Tensor] = {}

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of shape (batch, 3)."""
        self.calls += 1
        self.batch_sizes.append(len(inputs))
        self.mean.lerp_(inputs.mean((0, 1)), 0.1)
        states, _ = self.lstm(inputs - self.mean)
        self.cache["last"] = states[:, -1]
        return self.head(states[:, -1])


def mlp() -> Program:
    """A plain perceptron with Adam."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    return _program(model, torch.randn(ITEMS, 5), partial(torch.optim.Adam, lr=0.01))


def batch_norm() -> Program:
    """A convolutional network with batch normalization and SGD with momentum."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))
    return _program(model, torch.randn(ITEMS, 1, 6, 6), partial(torch.optim.SGD, lr=0.05, momentum=0.9))


def dropout() -> Program:
    """A perceptron with dropout, with AdamW in two groups."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))
    groups = [{"params": model[0].parameters(), "lr": 0.001}, {"params": model[3].parameters()}]
    return _program(model, torch.randn(ITEMS, 5), lambda _: torch.optim.AdamW(groups, lr=0.01))


def tied() -> Program:
    """A language model with tied embeddings and SGD with momentum."""
    torch.manual_seed(3)
    tokens = torch.randint(0, 11, (ITEMS, 4))
    return _program(TiedLanguageModel(), tokens, partial(torch.optim.SGD, lr=0.1, momentum=0.9), classes=11)


def frozen() -> Program:
    """A frozen body, its batch normalization in eval mode, below a trained head."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    model[:2].requires_grad_(False)
    model[1].eval()
    return _program(model, torch.randn(ITEMS, 5), lambda _: torch.optim.Adam(model[3].parameters(), lr=0.01))


def lstm() -> Program:
    """A recurrent network with state in Python attributes, with RMSprop."""
    torch.manual_seed(5)
    return _program(StatefulLSTM(), torch.randn(ITEMS, 7, 4), partial(torch.optim.RMSprop, lr=0.005))


PROGRAMS: dict[str, Callable[[], Program]] = {
    program.__name__: program for program in (mlp, batch_norm, dropout, tied, frozen, lstm)
}


def train(program: Program, loader: Any, steps: int) -> list[float]:
    """Train for ``steps`` steps, restarting the loader when it ends, and return the losses."""
    losses: list[float] = []
    while len(losses) < steps:
        for inputs, targets in loader:
            losses.append(step(program, inputs, targets))
            if len(losses) == steps:
                break
    return losses


def step(program: Program, inputs: Tensor, targets: Tensor) -> float:
    """One training step by a closure, which every optimizer accepts; returns the loss."""

    def closure() -> Tensor:
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.model(inputs), targets)
        loss.backward()
        return loss

    return float(program.optimizer.step(closure).detach())


def _program(model: nn.Module, inputs: Tensor, optimizer: Callable[..., Any], classes: int = 3) -> Program:
    data = TensorDataset(inputs, torch.randint(0, classes, (len(inputs),)))
    loader = partial(DataLoader, data, batch_size=BATCH, shuffle=True)
    return Program(model, nn.CrossEntropyLoss(), optimizer(model.parameters()), loader)
