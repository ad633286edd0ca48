"""What a small training run is, and the data and networks that many of them share."""

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
class Trial:
    """A model, its optimizer, what gives the loss of the next batch, and what else its loop does."""

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
                self.optimizer.step(self.pulled)
            else:
                self.pulled()
                self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.after(step)

    def pulled(self) -> Tensor:
        """The loss of one batch, whose gradients are there, clipped where the loop clips."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return loss


def record_of(trial: Trial, batch_size: int = 32, every: int | None = None) -> Record:
    """The record of the whole run."""
    with record_training(trial.model, trial.optimizer, batch_size, every) as record:
        trial.train()
    return record


def seeded(seed: int, build: Callable[[bool], Trial], fixed: bool, every: int | None = None) -> Record:
    """The record of a run that is built and trained from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return record_of(build(fixed), every=every)


def batches(*data: Tensor, size: int = 32) -> Iterator[tuple[Tensor, ...]]:
    """Random batches without end."""
    while True:
        for rows in torch.randperm(len(data[0])).split(size):
            yield tuple(one[rows] for one in data)


def supervised(model: nn.Module, data: tuple[Tensor, Tensor], loss_fn: Callable[..., Tensor] = F.cross_entropy) -> Loss:
    """The loss of one random batch after another."""
    stream = batches(*data)

    def loss() -> Tensor:
        x, y = next(stream)
        return loss_fn(model(x), y)

    return loss


def points(width: int = 16, classes: int = 4, noise: float = 0.0) -> tuple[Tensor, Tensor]:
    """Points and the class that a linear map with a little curvature gives them."""
    x = torch.randn(512, width)
    scores = x @ torch.randn(width, classes) + 0.3 * x.square() @ torch.randn(width, classes)
    return x, (scores + noise * torch.randn_like(scores)).argmax(1)


def values(width: int = 8) -> tuple[Tensor, Tensor]:
    """Points and a smooth function of them, near unit variance."""
    x = torch.randn(512, width)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(512, 1)
    return x, y / y.std()


def pictures(classes: int = 3) -> tuple[Tensor, Tensor]:
    """Noisy pictures of stripes: across, down, or neither."""
    y = torch.randint(classes, (256,))
    stripes = torch.sin(torch.arange(12.0) * 1.5)
    kinds = torch.stack([stripes.expand(12, 12), stripes.expand(12, 12).T, torch.zeros(12, 12)])
    return kinds[y].unsqueeze(1) + 0.5 * torch.randn(256, 1, 12, 12), y


def sentences(length: int = 12, vocabulary: int = 20) -> tuple[Tensor, Tensor]:
    """Token sequences in which each token mostly follows from the one before, and the next tokens."""
    table = torch.randperm(vocabulary)
    tokens = [torch.randint(vocabulary, (256,))]
    for _ in range(length):
        noise = torch.rand(256) < 0.1
        tokens.append(torch.where(noise, torch.randint(vocabulary, (256,)), table[tokens[-1]]))
    whole = torch.stack(tokens, 1)
    return whole[:, :-1], whole[:, 1:]


def series(length: int = 40, summed: int = 8) -> tuple[Tensor, Tensor]:
    """Sequences of numbers, and the sum of their last ones."""
    x = torch.randn(256, length, 1)
    return x, x[:, -summed:].sum(1) / summed**0.5


def token_loss(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def stack(
    depth: int, act: type[nn.Module], width: int = 32, inputs: int = 16, outputs: int = 4, norm: Any = None
) -> nn.Sequential:
    """A plain deep network; ``norm`` makes what stands before each activation."""
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Linear(width if i else inputs, width), *([norm(width)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def drawn(model: nn.Module, act: Callable[[Tensor], Any], bias: float | None = None) -> nn.Module:
    """The same model, with all its matrices drawn by ``act`` and its biases at a constant."""
    for one in model.modules():
        if isinstance(one, (nn.Linear, nn.Conv2d)):
            act(one.weight)
            if one.bias is not None and bias is not None:
                nn.init.constant_(one.bias, bias)
    return model


class Residual(nn.Module):
    """Blocks that add to what goes in; ``zero`` starts each branch at nothing."""

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
    """Convolutions with ReLU, batch normalization where asked."""

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


class Transformer(nn.Module):
    """A causal language model with normalization first."""

    def __init__(self, vocabulary: int = 20, width: int = 32, tied: bool = False, depth: int = 2) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(12, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embed.weight, std=0.1)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.norm(self.body(self.embed(x) + self.places, mask=mask, is_causal=True)))


class Recurrent(nn.Module):
    """A recurrent network read at its last step."""

    def __init__(self, kind: Callable[..., nn.Module] = nn.RNN, width: int = 32, scale: float | None = None) -> None:
        super().__init__()
        self.body, self.head = kind(1, width, batch_first=True), nn.Linear(width, 1)
        if scale is not None:
            nn.init.orthogonal_(self.body.weight_hh_l0, gain=scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])
