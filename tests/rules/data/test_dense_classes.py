"""Tests of rules on classes for targets with a class at each position: masks and tags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.measurements import Measurements

_CODES = ("D101", "D105", "D106", "D110", "D119", "L207", "L214")
Split = tuple[Tensor, Tensor]


def make_masks(count: int, seed: int, classes: int, size: int, interval: int = 1) -> Split:
    """Noisy images with a square of each class but the first, in one of ``interval`` images."""
    generator = torch.Generator().manual_seed(seed)
    images, masks = (
        0.3 * torch.rand(count, 1, 16, 16, generator=generator),
        torch.zeros(count, 16, 16, dtype=torch.long),
    )
    for index in range(0, count, interval):
        for label in range(1, classes):
            row, column = torch.randint(0, 10, (2,), generator=generator).tolist()
            square = (index, slice(row, row + size), slice(column, column + size))
            masks[square] = label
            images[:, 0][square] = 0.3 + 0.6 * label / classes + 0.1 * torch.rand(size, size, generator=generator)
    return images, masks


def make_states(count: int, seed: int) -> Split:
    """Series whose state at each step follows from the values of the step."""
    series = torch.randn(count, 12, 8, generator=torch.Generator().manual_seed(seed))
    return series, series[:, :, :4].argmax(2)


def convolutions(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, outputs, 3, padding=1))


def layers(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs))


def pixel_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output[:, 0], target.float())


def dice_loss(output: Tensor, target: Tensor) -> Tensor:
    shares = output.sigmoid()[:, 0]
    return 1 - (2 * (shares * target).sum() + 1) / (shares.sum() + target.sum() + 1)


def overlap_loss(output: Tensor, target: Tensor) -> Tensor:
    shares = output.sigmoid()[:, 0]
    both = (shares * target).sum((1, 2))
    return 1 - ((both + 1e-6) / (shares.sum((1, 2)) + target.sum((1, 2)) - both + 1e-6)).mean()


def step_loss(output: Tensor, target: Tensor, **options: Any) -> Tensor:
    return F.cross_entropy(output.transpose(1, 2), target, **options)


def make_debugger(
    model: nn.Module,
    make: Callable[..., Split],
    loss_fn: Callable[..., Any],
    change: Callable[[Tensor], Tensor] | None = None,
    val_change: Callable[[Tensor], Tensor] | None = None,
) -> Debugger:
    """A debugger of 200 training and 60 validation samples, whose targets are changed."""
    loaders = []
    for seed, count, change_targets in ((0, 200, change), (1, 60, val_change)):
        inputs, targets = make(count, seed)
        targets = change_targets(targets) if change_targets is not None else targets
        loaders.append(DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=seed == 0))
    return Debugger(model, *loaders, loss_fn=loss_fn)


squares = partial(make_masks, classes=3, size=5)
two_classes = partial(make_masks, classes=2, size=5)
lesions = partial(make_masks, classes=2, size=1, interval=10)


def merge_classes(targets: Tensor) -> Tensor:
    return targets.clamp(max=1)


def permute(targets: Tensor) -> Tensor:
    return targets[torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))]


def hide_border(targets: Tensor) -> Tensor:
    targets[:, :2] = 255
    return targets


FOREGROUND = nn.CrossEntropyLoss(ignore_index=0)
FAULTS: dict[str, tuple[str, Callable[[], Debugger]]] = {
    "rare class": ("D106", lambda: make_debugger(convolutions(2), lesions, nn.CrossEntropyLoss())),
    "rare class, one output": ("D106", lambda: make_debugger(convolutions(1), lesions, pixel_loss)),
    "class is ignored": ("L214", lambda: make_debugger(convolutions(2), two_classes, FOREGROUND)),
    "state is ignored": (
        "L214",
        lambda: make_debugger(layers(2), make_states, partial(step_loss, ignore_index=1), merge_classes, merge_classes),
    ),
    "missing class": ("D119", lambda: make_debugger(convolutions(3), squares, nn.CrossEntropyLoss(), merge_classes)),
    "missing state": ("D119", lambda: make_debugger(layers(4), make_states, step_loss, merge_classes)),
    "head too large": ("L207", lambda: make_debugger(convolutions(300), squares, nn.CrossEntropyLoss())),
    "head of states too large": ("L207", lambda: make_debugger(layers(100), make_states, step_loss)),
    "unrelated masks": ("D105", lambda: make_debugger(convolutions(3), squares, nn.CrossEntropyLoss(), permute)),
    "unrelated states": ("D105", lambda: make_debugger(layers(4), make_states, step_loss, permute)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_checkup_of_fault_in_dense_classes_reports_it(fault: str) -> None:
    code, make = FAULTS[fault]
    torch.manual_seed(0)
    report = make().checkup(select=_CODES)
    assert [finding.code for finding in report.faults][:1] == [code], str(report)


WEIGHTED = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 500.0]))
HEALTHY: dict[str, Callable[[], Debugger]] = {
    "masks": lambda: make_debugger(convolutions(3), squares, nn.CrossEntropyLoss()),
    "background of 90 percent": lambda: make_debugger(convolutions(2), two_classes, nn.CrossEntropyLoss()),
    "weighted pixels": lambda: make_debugger(convolutions(2), lesions, WEIGHTED),
    "overlap of each sample": lambda: make_debugger(convolutions(1), lesions, overlap_loss),
    "dice": lambda: make_debugger(convolutions(1), lesions, dice_loss),
    "unlabeled border": lambda: make_debugger(
        convolutions(3), squares, nn.CrossEntropyLoss(ignore_index=255), hide_border, hide_border
    ),
    "background is ignored": lambda: make_debugger(convolutions(3), squares, FOREGROUND),
    "states": lambda: make_debugger(layers(4), make_states, step_loss),
}


@pytest.mark.parametrize("program", HEALTHY)
def test_checkup_of_healthy_dense_classes_has_no_faults(program: str) -> None:
    torch.manual_seed(0)
    report = HEALTHY[program]().checkup(select=_CODES)
    assert [str(finding) for finding in report.faults] == []


def test_class_counts_of_masks_count_samples_and_positions() -> None:
    counts = Measurements(make_debugger(convolutions(2), lesions, nn.CrossEntropyLoss()).setup)["class_counts"]
    assert counts.is_dense
    assert counts.splits["train"] == {0: 200, 1: 20}
    assert counts.sampled == {0: 200 * 256 - 20, 1: 20}
    assert counts.sizes == {"train": 200, "val": 60}
