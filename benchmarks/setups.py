"""Training setups of several sizes, on random inputs with labels that can be learned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from models import Transformer, teacher_labels
from models import mlp as create_mlp
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup


def create_setup(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> Setup:
    """Return a setup with shuffled batches, cross-entropy and Adam."""
    loader = DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))


def train(setup: Setup, steps: int) -> None:
    """Train for ``steps`` steps, at most one epoch."""
    for _, (x, y) in zip(range(steps), setup.train_loader, strict=False):
        setup.optimizers[0].zero_grad()
        setup.loss(setup.model(x), setup.split_batch((x, y))).backward()
        setup.optimizers[0].step()


def conv_block(in_channels: int, out_channels: int) -> list[nn.Module]:
    """Return a convolution, batch normalization and ReLU."""
    conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(out_channels), nn.ReLU()]


def mlp() -> Setup:
    """784-512-512-10, batches of 128."""
    model, x = create_mlp(), torch.randn(5000, 784)
    return create_setup(model, x, teacher_labels(x), 128)


def digits() -> Setup:
    """A small CNN on images of 8 × 8, batches of 32; its short steps make fixed costs visible."""
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    x = torch.rand(1500, 1, 8, 8)
    return create_setup(model, x, teacher_labels(x), 32)


def cnn() -> Setup:
    """Eight convolutions on images of 3 × 32 × 32, batches of 64."""
    body = [*conv_block(3, 16), *[layer for _ in range(3) for layer in conv_block(16, 16)], nn.MaxPool2d(2)]
    body += [*conv_block(16, 32), *[layer for _ in range(3) for layer in conv_block(32, 32)], nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*body, nn.Flatten(), nn.Linear(32, 10))
    x = torch.randn(1000, 3, 32, 32)
    return create_setup(model, x, teacher_labels(x), 64)


def transformer() -> Setup:
    """Four encoder layers of width 128 on 64 tokens, batches of 32."""
    x = torch.randint(0, 1000, (1000, 64))
    return create_setup(Transformer(1000, 10, 128, 4, feedforward=512), x, teacher_labels(x), 32)


SETUPS: dict[str, Callable[[], Setup]] = {"digits": digits, "mlp": mlp, "cnn": cnn, "transformer": transformer}
