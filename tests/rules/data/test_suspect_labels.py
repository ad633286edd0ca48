"""Tests of D111: wrong labels are reported with their indices, ambiguous ones are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.images[:900], dtype=torch.float32)[:, None] / 16
CLASSES = torch.tensor(DIGITS.target[:900])
ROWS = torch.randn(900, 6, generator=GENERATOR)
SEPARATE = (ROWS[:, 0] > 0).long()
ROWS[:, 0] += 3 * (2 * SEPARATE - 1)
TOKENS = torch.randint(0, 10, (900, 14), generator=GENERATOR) + 10 * (CLASSES % 3)[:, None]


class NamedSamples(Dataset[Any]):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def relabeled(labels: Tensor, share: float, seed: int = 0) -> Tensor:
    """Replace a share of the labels by another class at random."""
    generator = torch.Generator().manual_seed(seed)
    classes = int(labels.max()) + 1
    other = (labels + torch.randint(1, classes, labels.shape, generator=generator)) % classes
    return torch.where(torch.rand(labels.shape, generator=generator) < share, other, labels)


def overlapping(spread: float, classes: int = 5) -> tuple[Tensor, Tensor]:
    """Clusters that overlap, so that many samples are ambiguous."""
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(0, classes, (900,), generator=generator)
    centers = torch.randn(classes, 6, generator=generator)
    return centers[labels] + spread * torch.randn(900, 6, generator=generator), labels


def logistic() -> tuple[Tensor, Tensor]:
    """Two classes whose probability depends smoothly on a feature."""
    x = torch.randn(900, 6, generator=torch.Generator().manual_seed(3))
    return x, torch.bernoulli((2 * x[:, 0]).sigmoid(), generator=torch.Generator().manual_seed(4)).long()


def noisy_product() -> tuple[Tensor, Tensor]:
    """Two classes by a noisy score with a product that the learner hardly finds."""
    generator = torch.Generator().manual_seed(20)
    x = torch.randn(600, 30, generator=generator)
    score = x[:, 0] + 0.8 * x[:, 1] * x[:, 2].sign() - x[:, 3] + 1.2 * torch.randn(600, generator=generator)
    return x, (score > 0).long()


def build(x: Tensor, y: Tensor, dataset: Callable[..., Dataset[Any]] = TensorDataset, binary: bool = False) -> Setup:
    if not x.is_floating_point():
        model: nn.Module = nn.Sequential(nn.Embedding(40, 4), nn.Flatten(), nn.Linear(56, 3))
    else:
        model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 1 if binary else int(y.max()) + 1))
    loss_fn = nn.BCEWithLogitsLoss() if binary else nn.CrossEntropyLoss()
    y = y.float()[:, None] if binary else y
    return Setup(model, DataLoader(dataset(x, y), 32, shuffle=True), loss_fn=loss_fn)


WRONG: dict[str, tuple[Tensor, Tensor, dict[str, Any]]] = {
    "images, four percent": (IMAGES, relabeled(CLASSES, 0.04), {}),
    "images, four tenths": (IMAGES, relabeled(CLASSES, 0.4), {}),
    "samples by index": (IMAGES, relabeled(CLASSES, 0.1), {"dataset": NamedSamples}),
    "two classes, one logit": (ROWS, relabeled(SEPARATE, 0.1), {"binary": True}),
    "one class in six becomes the first": (
        IMAGES,
        torch.where(torch.rand(900, generator=GENERATOR) < 0.16, 0, CLASSES),
        {},
    ),
    "tokens": (TOKENS, relabeled(CLASSES % 3, 0.2), {}),
}
RIGHT: dict[str, tuple[Tensor, Tensor, dict[str, Any]]] = {
    "images": (IMAGES, CLASSES, {}),
    "two classes": (ROWS, SEPARATE, {"binary": True}),
    "overlapping clusters": (*overlapping(0.9), {}),
    "mostly overlapping clusters": (*overlapping(2.0), {}),
    "two overlapping clusters": (*overlapping(1.2, 2), {}),
    "smooth probability": (*logistic(), {"binary": True}),
    "noisy product": (*noisy_product(), {"binary": True}),
    "random labels of two classes": (ROWS, torch.randint(0, 2, (900,), generator=GENERATOR), {"binary": True}),
    "random labels of a rare class": (ROWS, (torch.rand(900, generator=GENERATOR) < 0.06).long(), {"binary": True}),
    "a task too hard for the learner": (TOKENS, TOKENS[:, 0] * TOKENS[:, 7] % 2 + TOKENS[:, 3] % 2, {}),
    "random labels": (IMAGES, torch.randint(0, 10, (900,), generator=GENERATOR), {}),
}
TRUE_LABELS = {"two classes, one logit": SEPARATE, "tokens": CLASSES % 3}


@pytest.mark.parametrize("name", WRONG)
def test_suspect_labels_of_wrong_labels_lists_them(name: str) -> None:
    x, y, options = WRONG[name]
    (finding,) = rule_faults(build(x, y, **options), "D111")
    listed = [item["sample"] for item in finding.evidence["samples"]]
    is_wrong = y != TRUE_LABELS.get(name, CLASSES)
    assert finding.severity == "warning"
    assert float(is_wrong[listed].float().mean()) >= 0.9
    assert 0.5 * int(is_wrong.sum()) <= finding.evidence["contradicted"] <= 1.1 * int(is_wrong.sum())


@pytest.mark.parametrize("name", RIGHT)
def test_suspect_labels_of_ambiguous_samples_is_quiet(name: str) -> None:
    x, y, options = RIGHT[name]
    assert rule_faults(build(x, y, **options), "D111") == []
