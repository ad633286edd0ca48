"""Tests of D111: wrong labels are reported with their indices, ambiguous ones are not."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.measurements.reference import SplitLabels
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


def waves(
    seed: int, other: Callable[[Tensor], Tensor], rows: int = 600, noise: float = 0.5, varied: bool = False
) -> tuple[Tensor, Tensor]:
    """Return waves of random phases in four classes: two frequencies, and a sine or another form of it.

    A kernel learner knows only the phases that it has seen, and takes a wave for another form of the nearest one.
    """
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 4, (rows,), generator=generator)
    frequency = (3 + 2 * (kind % 2))[:, None] + 0.3 * torch.randn(rows, 1, generator=generator)
    phase = 2 * pi * torch.rand(rows, 1, generator=generator)
    sine = torch.sin(2 * pi * frequency * torch.arange(48) / 48 + phase)
    wave = torch.where((kind >= 2)[:, None], other(sine), sine) + noise * torch.randn(rows, 48, generator=generator)
    size = 0.6 + 0.8 * torch.rand(rows, 1, generator=torch.Generator().manual_seed(seed + 9)) if varied else 1
    return wave * size, kind


def rings(seed: int) -> tuple[Tensor, Tensor]:
    """Return three rings around each other in two of 24 columns."""
    generator = torch.Generator().manual_seed(seed)
    ring = torch.randint(0, 3, (600,), generator=generator)
    plane = torch.randn(600, 4, generator=generator)[:, :2]
    plane = plane / plane.norm(dim=1, keepdim=True) * (1 + 0.7 * ring[:, None])
    plane = plane + 0.1 * torch.randn(600, 2, generator=generator)
    return torch.cat([plane, torch.randn(600, 22, generator=generator)], 1), ring


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
    "square waves": (*waves(5, torch.sign), {}),
    "square waves of different sizes": (*waves(1, torch.sign, varied=True), {}),
    "square waves of different sizes, other rows": (*waves(4, torch.sign, varied=True), {}),
    "square waves of different sizes, third rows": (*waves(8, torch.sign, varied=True), {}),
    "rings": (*rings(3), {}),
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


def watched_codes(train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor]) -> tuple[set[str], set[str]]:
    """Return the codes of the findings on the data before and after a watched run of a small convolution."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Unflatten(1, (1, -1)),
        *(nn.Conv1d(1, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(16, 24, 7, padding=3), nn.BatchNorm1d(24), nn.ReLU()),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 4)),
    )
    loaders = DataLoader(TensorDataset(*train), 32, shuffle=True), DataLoader(TensorDataset(*val), 100)
    optimizer, loss_fn = torch.optim.Adam(model.parameters(), lr=3e-3), nn.CrossEntropyLoss()
    debugger = Debugger(model, *loaders, loss_fn=loss_fn, optimizer=optimizer)
    before = {finding.code for finding in debugger.checkup()}
    with debugger.watch():
        for _ in range(8):
            for x, y in loaders[0]:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    return before, {finding.code for finding in debugger.findings}


WAVES, VAL_WAVES = waves(100, torch.sign, rows=1800, varied=True), waves(1, torch.sign, varied=True)
WELL_SEPARATED = waves(101, torch.abs, rows=1800, noise=0.1), waves(2, torch.abs, noise=0.1)


def test_suspect_labels_of_validation_that_the_trained_network_predicts_are_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SplitLabels, "is_supported_by_trees", True)  # as if the trees had the same weakness
    before, after = watched_codes(WAVES, VAL_WAVES)
    assert "D111" in before
    assert "D111" not in after


def test_suspect_labels_of_validation_that_are_wrong_stay_after_a_run() -> None:
    train, (x, y) = WELL_SEPARATED
    before, after = watched_codes(train, (x, relabeled(y, 0.1)))
    assert "D111" in before
    assert "D111" in after
