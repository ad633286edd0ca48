"""Small training runs, and the data and networks that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.records import Record
from tests.rules.training_record import record_training

Loss = Callable[[], Tensor]
SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


@dataclass
class TrainingRun:
    """A model, its optimizer, a function that returns the loss of the next batch, and the options of the loop."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Loss
    steps: int = 150
    clip: float | None = None
    scheduler: Any = None
    after: Callable[[int], Any] = lambda _: None
    closure: bool = False

    def train(self) -> None:
        for step in range(self.steps):
            if self.closure:
                self.optimizer.step(self.compute_gradients)
            else:
                self.compute_gradients()
                self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.after(step)

    def compute_gradients(self) -> Tensor:
        """Return the loss of one batch after its backward pass, with clipped gradients if ``clip``."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return loss


def record_run(run: TrainingRun, batch_size: int = 32, every: int | None = None) -> Record:
    """Train and return the record."""
    with record_training(run.model, run.optimizer, batch_size, every) as record:
        run.train()
    return record


def batches(*data: Tensor, size: int = 32) -> Iterator[tuple[Tensor, ...]]:
    """Yield random batches without end."""
    while True:
        for rows in torch.randperm(len(data[0])).split(size):
            yield tuple(tensor[rows] for tensor in data)


def supervised(model: nn.Module, data: tuple[Tensor, Tensor], loss_fn: Callable[..., Tensor] = F.cross_entropy) -> Loss:
    """Return a function that returns the loss of the next random batch."""
    stream = batches(*data)

    def loss() -> Tensor:
        x, y = next(stream)
        return loss_fn(model(x), y)

    return loss


def class_points(width: int = 16, classes: int = 4, noise: float = 0.0) -> tuple[Tensor, Tensor]:
    """Points, and their classes by a slightly curved map."""
    x = torch.randn(512, width)
    scores = x @ torch.randn(width, classes) + 0.3 * x.square() @ torch.randn(width, classes)
    return x, (scores + noise * torch.randn_like(scores)).argmax(1)


def regression_data(width: int = 8) -> tuple[Tensor, Tensor]:
    """Points, and a smooth function of them with unit variance."""
    x = torch.randn(512, width)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(512, 1)
    return x, y / y.std()


def stripe_images(classes: int = 3) -> tuple[Tensor, Tensor]:
    """Noisy images with horizontal stripes, vertical stripes, or none."""
    y = torch.randint(classes, (256,))
    stripes = torch.sin(torch.arange(12.0) * 1.5)
    kinds = torch.stack([stripes.expand(12, 12), stripes.expand(12, 12).T, torch.zeros(12, 12)])
    return kinds[y].unsqueeze(1) + 0.5 * torch.randn(256, 1, 12, 12), y


def sentences(length: int = 12, vocabulary: int = 20) -> tuple[Tensor, Tensor]:
    """Token sequences in which the previous token mostly determines the next, and the shifted sequences."""
    table = torch.randperm(vocabulary)
    tokens = [torch.randint(vocabulary, (256,))]
    for _ in range(length):
        noise = torch.rand(256) < 0.1
        tokens.append(torch.where(noise, torch.randint(vocabulary, (256,)), table[tokens[-1]]))
    sequences = torch.stack(tokens, 1)
    return sequences[:, :-1], sequences[:, 1:]


def number_sequences(length: int = 40, summed: int = 8) -> tuple[Tensor, Tensor]:
    """Sequences of numbers, and the scaled sum of their last ``summed`` values."""
    x = torch.randn(256, length, 1)
    return x, x[:, -summed:].sum(1) / summed**0.5


def token_loss(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def mlp(
    depth: int, activation: type[nn.Module], width: int = 32, inputs: int = 16, outputs: int = 4, norm: Any = None
) -> nn.Sequential:
    """A multilayer perceptron; ``norm`` makes the layer before each activation."""
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Linear(width if i else inputs, width), *([norm(width)] if norm else []), activation()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def reinitialize(model: nn.Module, initialize: Callable[[Tensor], Any], bias: float | None = None) -> nn.Module:
    """Reinitialize all matrices of a model by ``initialize``, and set its biases to ``bias``."""
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            initialize(layer.weight)
            if layer.bias is not None and bias is not None:
                nn.init.constant_(layer.bias, bias)
    return model


class ResidualNetwork(nn.Module):
    """A residual network; ``zero`` initializes the branches to zero."""

    def __init__(self, depth: int = 6, width: int = 32, zero: bool = False, norm: bool = False) -> None:
        super().__init__()
        self.entrance, self.head = nn.Linear(16, width), nn.Linear(width, 4)
        self.blocks = nn.ModuleList(self.branch(width, zero, norm) for _ in range(depth))

    def branch(self, width: int, zero: bool, norm: bool) -> nn.Sequential:
        last = nn.Linear(width, width)
        if zero:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        first: Iterable[nn.Module] = [nn.LayerNorm(width)] if norm else []
        return nn.Sequential(*first, nn.Linear(width, width), nn.ReLU(), last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.entrance(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class ConvNet(nn.Module):
    """Convolutions with ReLU, and batch normalization if ``norm``."""

    def __init__(self, norm: bool = True, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i in range(3):
            layers.append(nn.Conv2d(width if i else 1, width, 3, padding=1))
            layers += [nn.BatchNorm2d(width)] if norm else []
            layers += [nn.ReLU(), nn.MaxPool2d(2)] if i < 2 else [nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean((2, 3)))


class LanguageModel(nn.Module):
    """A causal pre-norm language model."""

    def __init__(self, vocabulary: int = 20, width: int = 32, tied: bool = False, depth: int = 2) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(12, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embed.weight, std=0.1)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.norm(self.body(self.embed(x) + self.positions, mask=mask, is_causal=True)))


class RecurrentNetwork(nn.Module):
    """A regressor on the last state of a recurrent layer."""

    def __init__(self, cell: Callable[..., nn.Module] = nn.RNN, width: int = 32, scale: float | None = None) -> None:
        super().__init__()
        self.body, self.head = cell(1, width, batch_first=True), nn.Linear(width, 1)
        if scale is not None:
            nn.init.orthogonal_(self.body.weight_hh_l0, gain=scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])
