"""Small data sets that can be learned: digits, photographs, tumors, patients, sentences, points."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_sample_images
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

PAD = 0


def loader(*tensors: Tensor, batch_size: int = 32, shuffle: bool = True, **options: Any) -> DataLoader[Any]:
    """Return a loader over the rows of tensors."""
    return DataLoader(TensorDataset(*tensors), batch_size=batch_size, shuffle=shuffle, **options)


def split(*tensors: Tensor, batch_size: int = 32) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return a shuffled training loader of four fifths of the rows, and an ordered one of the rest."""
    cut = len(tensors[0]) * 4 // 5
    train, rest = [t[:cut] for t in tensors], [t[cut:] for t in tensors]
    return loader(*train, batch_size=batch_size), loader(*rest, batch_size=batch_size, shuffle=False)


@cache
def digits(count: int = 480) -> tuple[Tensor, Tensor]:
    """Gray images (count, 1, 8, 8) from 0 to 1, and their digits."""
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x[:count] / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(y[:count])


@cache
def patches(size: int = 64) -> tuple[Tensor, Tensor]:
    """Patches (80, 3, size, size) of two photographs, scaled for EfficientNet-Lite, and their photograph."""
    samples, photos = [], load_sample_images().images
    for label, photo in enumerate(photos):
        picture = (torch.tensor(photo.copy()).permute(2, 0, 1) / 255 - 0.498) / 0.502
        tiles = picture.unfold(1, size, size).unfold(2, size, size).flatten(1, 2).transpose(0, 1)
        samples += [(tile, label) for tile in tiles[:40]]
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    return torch.stack([samples[i][0] for i in order]), torch.tensor([samples[i][1] for i in order])


@cache
def tumors() -> tuple[Tensor, Tensor]:
    """Thirty standardized measurements of 569 tumors, and whether each is benign."""
    x, y = load_breast_cancer(return_X_y=True)
    return torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)


@cache
def diabetes() -> tuple[Tensor, Tensor]:
    """Ten standardized measurements of 442 patients, and their standardized progression (442, 1)."""
    x, y = load_diabetes(return_X_y=True)
    return torch.tensor(x * len(x) ** 0.5, dtype=torch.float32), torch.tensor((y - y.mean()) / y.std()).float()[:, None]


@cache
def sentences(count: int = 256, length: int = 12, vocabulary: int = 20) -> Tensor:
    """Token ids (count, length); each determines the next with a probability of 3 in 4."""
    g = torch.Generator().manual_seed(1)
    follower = torch.randperm(vocabulary - 3, generator=g)
    words = [torch.randint(vocabulary - 3, (count,), generator=g)]
    for _ in range(length - 1):
        random_words = torch.randint(vocabulary - 3, (count,), generator=g)
        words.append(torch.where(torch.rand(count, generator=g) < 0.75, follower[words[-1]], random_words))
    return torch.stack(words, 1) + 3


@cache
def padded(count: int = 256, length: int = 12) -> tuple[Tensor, Tensor]:
    """Sentences with 0 to length - 4 padded positions at the end, and their lengths."""
    words = sentences(count, length).clone()
    lengths = torch.randint(4, length + 1, (count,), generator=torch.Generator().manual_seed(2))
    words[torch.arange(length) >= lengths[:, None]] = PAD
    return words, lengths


@cache
def moons(count: int = 512) -> tuple[Tensor, Tensor]:
    """Points of the plane on two half circles, and their half circle."""
    g = torch.Generator().manual_seed(3)
    angle, label = torch.rand(count, generator=g) * torch.pi, torch.randint(2, (count,), generator=g)
    side = 1.0 - 2 * label
    x = torch.stack([torch.cos(angle) * side + label, torch.sin(angle) * side + 0.5 * label], 1)
    return x + 0.1 * torch.randn(count, 2, generator=g), label
