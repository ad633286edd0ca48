"""Training loops on two ranks: twelve planted faults of distributed training, each with its healthy twin."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import nbdebug

SAMPLES, FEATURES, BATCH = 512, 20, 16
_EVENT_SECONDS = 3.0
debuggers: list[nbdebug.Debugger] = []  # also those of loops that raise
event_times: list[float] = []


def points(samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    """Return noisy points of two classes."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, FEATURES, generator=generator)
    return x, (x[:, :3].sum(1) + 0.5 * torch.randn(samples, generator=generator) > 0).long()


def network(*layers: nn.Module) -> nn.Sequential:
    """Return a small classifier with some layers in its middle."""
    return nn.Sequential(nn.Linear(FEATURES, 32), *layers, nn.ReLU(), nn.Linear(32, 2))


def sampled_loader(dataset: Dataset[Any], batch_size: int = BATCH, **options: Any) -> DataLoader[Any]:
    """Return a loader that gives each rank its part of a dataset."""
    return DataLoader(dataset, batch_size, sampler=DistributedSampler(dataset, **options))


def train(
    model: nn.Module,
    loader: DataLoader[Any],
    *,
    epochs: int = 4,
    forward: nn.Module | None = None,
    before_step: Callable[[], None] = lambda: None,
    sets_epoch: bool = True,
    loss_fn: nn.Module | None = None,
    weigh: Callable[[Tensor, Tensor], Tensor] = lambda loss, _: loss,
    rate: float = 0.3,
) -> None:
    """Train under a watch."""
    loss_fn = loss_fn or nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), rate)
    debugger = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    debuggers.append(debugger)
    with debugger.watch(final_tests=False):
        for epoch in range(epochs):
            if sets_epoch and isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                loss = weigh(loss_fn((forward or model)(x), y), y)
                loss.backward()
                before_step()
                optimizer.step()


def gradients(rank: int, faulty: bool) -> None:
    """A loop without a wrapper, which averages the gradients itself, or forgets it."""
    torch.manual_seed(0)
    model = network()

    def average() -> None:
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
            parameter.grad /= distributed.get_world_size()

    train(model, sampled_loader(TensorDataset(*points())), before_step=(lambda: None) if faulty else average)


def same_data(rank: int, faulty: bool) -> None:
    """A loader without a sampler for ranks."""
    torch.manual_seed(rank)
    dataset = TensorDataset(*points())
    loader = DataLoader(dataset, BATCH, shuffle=True) if faulty else sampled_loader(dataset)
    train(DistributedDataParallel(network()), loader)


class SlowPoints(Dataset[Any]):
    """Points of which each takes some seconds to read."""

    def __init__(self, seconds: float) -> None:
        self.data, self.seconds = points(), seconds

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.seconds)
        return self.data[0][index], self.data[1][index]


def straggler(rank: int, faulty: bool) -> None:
    """A rank that reads its samples slowly; in the twin, all do."""
    dataset = SlowPoints(0.001 if rank == 1 or not faulty else 0.0)
    train(DistributedDataParallel(network()), sampled_loader(dataset))


def clipping(rank: int, faulty: bool) -> None:
    """Gradients that are clipped while a GradScaler has scaled them."""
    model = DistributedDataParallel(network())
    loader, loss_fn = sampled_loader(TensorDataset(*points())), nn.CrossEntropyLoss()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.3), torch.amp.GradScaler("cpu")
    debugger = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    debuggers.append(debugger)
    with debugger.watch(final_tests=False):
        for epoch in range(4):
            loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(loss_fn(model(x), y)).backward()  # type: ignore[no-untyped-call]
                if not faulty:
                    scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                scaler.step(optimizer)
                scaler.update()


def loss_average(rank: int, faulty: bool) -> None:
    """Targets of which one rank ignores most, and a loss that each rank averages over its own."""
    x, y = points()
    y[1::2] = torch.where(torch.arange(SAMPLES // 2) % 4 > 0, -100, y[1::2])
    ranks = distributed.get_world_size()
    loader = DataLoader(Subset(TensorDataset(x, y), range(rank, SAMPLES, ranks)), BATCH, shuffle=True)
    model = DistributedDataParallel(network())
    if faulty:
        return train(model, loader)

    def weigh(loss_sum: Tensor, targets: Tensor) -> Tensor:
        count = (targets != -100).sum()
        distributed.all_reduce(count)
        return loss_sum * distributed.get_world_size() / count

    train(model, loader, loss_fn=nn.CrossEntropyLoss(reduction="sum"), weigh=weigh)


def batchnorm(rank: int, faulty: bool) -> None:
    """BatchNorm with four samples on each rank; the twin has GroupNorm, as SyncBatchNorm needs an accelerator."""
    norm = nn.BatchNorm1d(32) if faulty else nn.GroupNorm(4, 32)
    train(DistributedDataParallel(network(norm)), sampled_loader(TensorDataset(*points()), 4), rate=0.05)


class TwoHeads(nn.Module):
    """A classifier with a second head, which its output may leave out."""

    def __init__(self, uses_both: bool) -> None:
        super().__init__()
        self.body, self.head, self.auxiliary = nn.Linear(FEATURES, 32), nn.Linear(32, 2), nn.Linear(32, 2)
        self.uses_both = uses_both

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores."""
        features = self.body(x).relu()
        output: Tensor = self.head(features)
        return output + self.auxiliary(features) if self.uses_both else output


def unused(rank: int, faulty: bool) -> None:
    """A head that the loss does not use."""
    train(DistributedDataParallel(TwoHeads(not faulty)), sampled_loader(TensorDataset(*points())))


def uneven(rank: int, faulty: bool) -> None:
    """A rank with fewer samples than the other; in the twin, the loop runs under ``join``."""
    x, y = points()
    own = slice(0, SAMPLES // 2) if rank else slice(SAMPLES // 2, SAMPLES - 3 * BATCH)
    model = DistributedDataParallel(network())
    with nullcontext() if faulty else model.join():
        train(model, DataLoader(TensorDataset(x[own], y[own]), BATCH, shuffle=True), epochs=1, rate=1.0)


def epoch_not_set(rank: int, faulty: bool) -> None:
    """A DistributedSampler that is not given the number of the epoch."""
    loader = sampled_loader(TensorDataset(*points()))
    train(DistributedDataParallel(network()), loader, sets_epoch=not faulty, epochs=6)


def hooks_lost(rank: int, faulty: bool) -> None:
    """A loop that calls the module inside the wrapper."""
    model = DistributedDataParallel(network())
    train(model, sampled_loader(TensorDataset(*points())), forward=model.module if faulty else None)


def equal_seeds(rank: int, faulty: bool) -> None:
    """Dropout that draws the same numbers on all ranks."""
    torch.manual_seed(0)
    model = DistributedDataParallel(network(nn.Dropout(0.2)))
    if not faulty:
        torch.manual_seed(rank)
    train(model, sampled_loader(TensorDataset(*points())))


def unequal_seeds(rank: int, faulty: bool) -> None:
    """Samplers that shuffle by different seeds."""
    loader = sampled_loader(TensorDataset(*points()), seed=rank if faulty else 0)
    train(DistributedDataParallel(network()), loader)


def hang(rank: int, faulty: bool) -> None:
    """A rank that stands still in a step."""
    _train_until(rank, (lambda: time.sleep(20)) if faulty else lambda: None)


def dead_rank(rank: int, faulty: bool) -> None:
    """A rank that is killed in a step."""
    _train_until(rank, (lambda: os.kill(os.getpid(), signal.SIGKILL)) if faulty else lambda: None)


def _train_until(rank: int, event: Callable[[], None]) -> None:
    """Train, with an event in a step of rank 1 after three seconds."""
    started = time.monotonic()

    def before_step() -> None:
        if not event_times and time.monotonic() - started > _EVENT_SECONDS:
            event_times.append(time.time())
            if rank == 1:
                event()

    train(
        DistributedDataParallel(network()),
        sampled_loader(SlowPoints(0.001)),
        before_step=before_step,
        epochs=8,
    )


CASES: dict[str, tuple[Callable[[int, bool], None], str]] = {
    "gradients not averaged": (gradients, "O515"),
    "same data on every rank": (same_data, "O516"),
    "straggler": (straggler, "P807"),
    "clipping before unscale": (clipping, "O508"),
    "loss averaged per rank": (loss_average, "O518"),
    "BatchNorm not synchronized": (batchnorm, "M325"),
    "unused parameters": (unused, "O519"),
    "uneven inputs": (uneven, "O520"),
    "set_epoch forgotten": (epoch_not_set, "D117"),
    "hooks lost": (hooks_lost, "O521"),
    "seeds equal": (equal_seeds, "R909"),
    "seeds unequal": (unequal_seeds, "R910"),
    "hang": (hang, "P809"),
    "dead rank": (dead_rank, "P809"),
}
