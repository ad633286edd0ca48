"""A watched run is, bit for bit, the run that it would have been."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


class Residual(nn.Module):
    """Two convolutions with batch normalization, and one in-place ReLU that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.act = nn.BatchNorm2d(4), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.second(self.act(self.first(x)))) + x)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(Residual(), Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 2, 32, batch_first=True)
    return nn.Sequential(nn.Flatten(2), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(256, 3))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def run(make: Callable[[], nn.Module], optimize: Any, watch: Any) -> tuple[list[float], dict[str, Tensor], Any, Tensor]:
    """Losses, weights and buffers, the state of the optimizer, and the next random numbers, after three epochs."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 4, 8, 8), torch.arange(96) % 3)
    train, val = DataLoader(data, 16, shuffle=True), DataLoader(data, 32)
    model, loss_fn, losses = make(), nn.CrossEntropyLoss(), list[float]()
    optimizer = optimize(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    with watch(model, train, val, loss_fn, optimizer, scheduler):
        for _ in range(3):
            model.train()
            for x, y in train:
                optimizer.zero_grad()
                loss = loss_fn(model(x + 0.1 * torch.randn_like(x)), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
            model.eval()
            with torch.no_grad():
                losses += [F.cross_entropy(model(x), y).item() for x, y in val]
            scheduler.step()
    return losses, copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()), torch.randn(4)


def unwatched(*_: Any) -> Any:
    from contextlib import nullcontext

    return nullcontext()


def alone(model: Any, train: Any, val: Any, loss_fn: Any, optimizer: Any, scheduler: Any) -> Any:
    return nbdebug.watch(model, optimizer, every=1)


def whole(model: Any, train: Any, val: Any, loss_fn: Any, optimizer: Any, scheduler: Any) -> Any:
    given = {"loss_fn": loss_fn, "optimizer": optimizer, "scheduler": scheduler}
    return nbdebug.Debugger(model, train, val, **given).watch(budget=1.0, every=2)


@pytest.mark.parametrize("watch", [alone, whole])
@pytest.mark.parametrize("optimize", [sgd, adam])
@pytest.mark.parametrize("make", [perceptron, convolutions, transformer])
def test_losses_weights_buffers_states_and_random_numbers(make: Any, optimize: Any, watch: Any) -> None:
    before, after = run(make, optimize, unwatched), run(make, optimize, watch)
    assert before[0] == after[0]
    assert all(torch.equal(before[1][name], after[1][name]) for name in before[1])
    assert flat(before[2]) == flat(after[2])
    assert torch.equal(before[3], after[3])


def flat(tree: Any) -> Any:
    """A tree with its tensors as lists of numbers."""
    if isinstance(tree, Tensor):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: flat(value) for key, value in tree.items()}
    return [flat(one) for one in tree] if isinstance(tree, (list, tuple)) else tree
