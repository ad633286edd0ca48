"""Tests that training under watch is bit-identical to training without it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


class Residual(nn.Module):
    """Two convolutions with batch normalization and one shared in-place ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.act = nn.BatchNorm2d(4), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.second(self.act(self.first(x)))) + x)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))


def residual_network() -> nn.Module:
    return nn.Sequential(Residual(), Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 2, 32, batch_first=True)
    return nn.Sequential(nn.Flatten(2), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(256, 3))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def train(
    make_model: Callable[[], nn.Module], make_optimizer: Any, watch: Any
) -> tuple[list[float], dict[str, Tensor], Any, Tensor]:
    """Train for three epochs; return the losses, the states of model and optimizer, and the next random numbers."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 4, 8, 8), torch.arange(96) % 3)
    train_loader, val_loader = DataLoader(data, 16, shuffle=True), DataLoader(data, 32)
    model, loss_fn, losses = make_model(), nn.CrossEntropyLoss(), list[float]()
    optimizer = make_optimizer(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    with watch(model, train_loader, val_loader, loss_fn, optimizer, scheduler):
        for _ in range(3):
            model.train()
            for x, y in train_loader:
                optimizer.zero_grad()
                loss = loss_fn(model(x + 0.1 * torch.randn_like(x)), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
            model.eval()
            with torch.no_grad():
                losses += [F.cross_entropy(model(x), y).item() for x, y in val_loader]
            scheduler.step()
    return losses, copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()), torch.randn(4)


def no_watch(*_: Any) -> Any:
    return nullcontext()


def watch_model(model: Any, train_loader: Any, val_loader: Any, loss_fn: Any, optimizer: Any, scheduler: Any) -> Any:
    return nbdebug.watch(model, optimizer, every=1)


def watch_setup(model: Any, train_loader: Any, val_loader: Any, loss_fn: Any, optimizer: Any, scheduler: Any) -> Any:
    options = {"loss_fn": loss_fn, "optimizer": optimizer, "scheduler": scheduler}
    return nbdebug.Debugger(model, train_loader, val_loader, **options).watch(budget=1.0, every=2)


@pytest.mark.parametrize("watch", [watch_model, watch_setup])
@pytest.mark.parametrize("make_optimizer", [sgd, adam])
@pytest.mark.parametrize("make_model", [perceptron, residual_network, transformer])
def test_watched_training_is_bit_identical_to_unwatched_training(
    make_model: Any, make_optimizer: Any, watch: Any
) -> None:
    expected, actual = train(make_model, make_optimizer, no_watch), train(make_model, make_optimizer, watch)
    assert expected[0] == actual[0]
    assert all(torch.equal(expected[1][name], actual[1][name]) for name in expected[1])
    assert with_lists(expected[2]) == with_lists(actual[2])
    assert torch.equal(expected[3], actual[3])


def with_lists(tree: Any) -> Any:
    """Return a nested structure with its tensors converted to lists."""
    if isinstance(tree, Tensor):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: with_lists(value) for key, value in tree.items()}
    return [with_lists(item) for item in tree] if isinstance(tree, (list, tuple)) else tree
