"""Models that several benchmarks train, and labels that can be learned from random inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ResidualBlock(nn.Module):
    """Two convolutions with a shortcut; one in-place ReLU is called twice."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            projection = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return the activated sum of the residual and the shortcut."""
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y = self.relu(y + self.shortcut(x))
        return y


class Transformer(nn.Module):
    """A Transformer encoder on tokens, with mean pooling and a linear head.

    Without a ``length`` it has no position embedding.
    """

    def __init__(
        self,
        vocabulary: int,
        classes: int,
        width: int,
        layers: int,
        *,
        feedforward: int,
        dropout: float = 0.1,
        length: int | None = None,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = None if length is None else nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, feedforward, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        x = self.embed(tokens)
        if self.position is not None:
            x = x + self.position
        logits: Tensor = self.head(self.encoder(x).mean(1))
        return logits


def mlp(inputs: int = 784, hidden: int = 512, classes: int = 10, layers: int = 2) -> nn.Module:
    """Return a perceptron with ReLU hidden layers of equal width."""
    # The order in which the layers draw their initial weights is that of the losses in lr_grid_losses.json.
    middle = [module for _ in range(layers - 1) for module in (nn.Linear(hidden, hidden), nn.ReLU())]
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), *middle, nn.Linear(hidden, classes))


def resnet() -> nn.Module:
    """Return ResNet-20 of He et al. for inputs of 3 × 32 × 32."""
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    sizes = [(16, 16, 1)] * 3 + [(16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
    blocks = [ResidualBlock(*size) for size in sizes]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def transformer() -> nn.Module:
    """Return a Transformer of four layers and width 256 for 64 tokens."""
    return Transformer(1000, 10, 256, 4, feedforward=1024, length=64)


def teacher_labels(x: Tensor) -> Tensor:
    """Return one of ten classes per sample, computed by a random linear map."""
    features = x.flatten(1).float()
    return ((features - features.mean(0)) @ torch.randn(features.shape[1], 10)).argmax(1)
