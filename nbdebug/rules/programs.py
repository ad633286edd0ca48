"""The smallest whole programs, on which the rules show what they find and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup


def points(classes: int = 3) -> tuple[Tensor, Tensor]:
    """Sixty-four points in four dimensions and a class for each that a linear layer can tell, all classes present."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=generator)
    return x, (x @ torch.randn(4, classes, generator=generator)).argmax(1)


def network(outputs: int, *tail: nn.Module) -> nn.Sequential:
    """Two layers, with ``tail`` after the head; the same weights each time, and the global generator as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs), *tail)


def program(model: nn.Module, x: Tensor, y: Tensor, loss_fn: Callable[..., Any], **given: Any) -> Setup:
    """A set-up of batches of sixteen, trained by Adam unless ``optimizers`` are given."""
    given.setdefault("optimizers", (torch.optim.Adam(model.parameters(), lr=1e-2),))
    return Setup(model, DataLoader(TensorDataset(x, y), batch_size=16), loss_fn=loss_fn, **given)


def classifier(*tail: nn.Module, loss_fn: Callable[..., Any] | None = None, **given: Any) -> Setup:
    """Three classes and cross-entropy, unless another ``loss_fn`` is given."""
    return program(network(3, *tail), *points(), loss_fn or nn.CrossEntropyLoss(), **given)


def regressor(*tail: nn.Module, loss_fn: Callable[..., Any] | None = None, **given: Any) -> Setup:
    """One real-valued target, of shape (samples, 1), and squared error, unless another ``loss_fn`` is given."""
    x, _ = points()
    return program(network(1, *tail), x, x.sum(1, keepdim=True) / 2, loss_fn or nn.MSELoss(), **given)
