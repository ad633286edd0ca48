"""Training set-ups of several sizes, on random data whose labels can be learned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup


def set_up(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> Setup:
    """Cross-entropy and Adam over shuffled batches."""
    loader = DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))


def labels(x: Tensor) -> Tensor:
    """One of ten classes for each sample, by a random linear map."""
    flat = x.flatten(1).float()
    return ((flat - flat.mean(0)) @ torch.randn(flat.shape[1], 10)).argmax(1)


def mlp() -> Setup:
    """784-512-512-10, batches of 128."""
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x = torch.randn(5000, 784)
    return set_up(model, x, labels(x), 128)


def digits() -> Setup:
    """A small network on 8 x 8 pictures, batches of 32: so small that each fixed cost shows."""
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    x = torch.rand(1500, 1, 8, 8)
    return set_up(model, x, labels(x), 32)


def conv(cin: int, cout: int) -> list[nn.Module]:
    """Convolution, batch normalization, ReLU."""
    return [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]


def cnn() -> Setup:
    """Eight convolutions on 3 x 32 x 32, batches of 64."""
    body = [*conv(3, 16), *[layer for _ in range(3) for layer in conv(16, 16)], nn.MaxPool2d(2)]
    body += [*conv(16, 32), *[layer for _ in range(3) for layer in conv(32, 32)], nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*body, nn.Flatten(), nn.Linear(32, 10))
    x = torch.randn(1000, 3, 32, 32)
    return set_up(model, x, labels(x), 64)


class Classifier(nn.Module):
    """A Transformer encoder with a mean over time and a head."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the mean state."""
        logits: Tensor = self.head(self.encoder(self.embed(tokens)).mean(1))
        return logits


def transformer() -> Setup:
    """Four layers of width 128 on 64 tokens, batches of 32."""
    x = torch.randint(0, 1000, (1000, 64))
    return set_up(Classifier(), x, labels(x), 32)


PROGRAMS: dict[str, Callable[[], Setup]] = {"digits": digits, "mlp": mlp, "cnn": cnn, "transformer": transformer}
