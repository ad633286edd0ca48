"""Three models in training, on random data that a teacher labeled: a run counts its steps and their time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

After = Callable[[int, float], object]
BATCHES = 16
# Freed memory goes back to the system at once, so that a peak is what was held together.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}


class Block(nn.Module):
    """Two convolutions around a shortcut, with one in-place ReLU that is used twice."""

    def __init__(self, given: int, gives: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(given, gives, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(gives)
        self.conv2 = nn.Conv2d(gives, gives, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(gives)
        self.relu = nn.ReLU(inplace=True)
        fits = stride == 1 and given == gives
        away = nn.Sequential(nn.Conv2d(given, gives, 1, stride, bias=False), nn.BatchNorm2d(gives))
        self.shortcut = nn.Identity() if fits else away

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y = self.relu(y + self.shortcut(x))
        return y


def mlp() -> nn.Module:
    """784-512-512-10."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def resnet() -> nn.Module:
    """ResNet-20 of He et al. for 3 x 32 x 32."""
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    sizes = [(16, 16, 1)] * 3 + [(16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
    blocks = [Block(*size) for size in sizes]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Transformer(nn.Module):
    """Four encoder layers of width 256 on 64 tokens, and a head on their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        self.position = nn.Parameter(torch.randn(64, 256) * 0.02)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the mean state."""
        logits: Tensor = self.head(self.encoder(self.embed(tokens) + self.position).mean(1))
        return logits


@dataclass
class Run:
    """A model in training. Its random numbers are its own, so that runs may take turns in one process."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[tuple[Tensor, Tensor]]
    loss_fn: nn.Module = field(default_factory=nn.CrossEntropyLoss)
    losses: list[float] = field(default_factory=list)
    random: Tensor = field(default_factory=torch.get_rng_state)

    def steps(self, count: int, after: After) -> list[tuple[float, float]]:
        """CPU seconds of the process and wall seconds of each of so many steps; ``after`` is called in each."""
        times = []
        with self.own_random():
            for _ in range(count):
                cpu, wall = time.process_time(), time.perf_counter()
                self.step(after)
                times.append((time.process_time() - cpu, time.perf_counter() - wall))
        return times

    def step(self, after: After) -> None:
        """One step as it stands in every tutorial."""
        x, y = self.batches[len(self.losses) % len(self.batches)]
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        after(len(self.losses), self.losses[-1])

    @contextmanager
    def own_random(self) -> Iterator[None]:
        """The random numbers of torch go on where this run left them."""
        others = torch.get_rng_state()
        torch.set_rng_state(self.random)
        yield
        self.random = torch.get_rng_state()
        torch.set_rng_state(others)

    def same_as(self, other: Run) -> bool:
        """Whether another run has come to the same losses and weights, bit for bit."""
        pairs = zip(self.model.state_dict().values(), other.model.state_dict().values(), strict=True)
        return self.losses == other.losses and all(torch.equal(a, b) for a, b in pairs)


def labeled(x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Batches with one of ten classes for each sample, by a random linear map; ``x`` is (batches, size, …)."""
    flat = x.flatten(2).float()
    y = ((flat - flat.mean((0, 1))) @ torch.randn(flat.shape[2], 10)).argmax(2)
    return list(zip(x, y, strict=True))


def start(name: str) -> Run:
    """The run of a model from its first step on, the same each time."""
    torch.manual_seed(0)
    if name == "mlp":
        model, x = mlp(), torch.randn(BATCHES, 128, 784)
        return Run(model, torch.optim.Adam(model.parameters(), 1e-3), labeled(x))
    if name == "resnet":
        model, x = resnet(), torch.randn(BATCHES, 64, 3, 32, 32)
        descent = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
        return Run(model, descent, labeled(x))
    model, x = Transformer(), torch.randint(0, 1000, (BATCHES, 32, 64))
    return Run(model, torch.optim.AdamW(model.parameters(), 3e-4), labeled(x))


# Timed steps in a block, and steps before them that are not timed.
STEPS = {"mlp": (200, 60), "resnet": (20, 6), "transformer": (12, 4)}
