"""Tests of D122 on targets that change from one read of a sample to the next while the input does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

Sample = tuple[Tensor, Tensor]


def is_drawn() -> bool:
    return bool(torch.rand(()) < 0.5)


def mirrored(image: Tensor, center: Tensor) -> Sample:
    return image.flip(-1), torch.stack([1 - center[0], center[1]])


def lost_mirror(image: Tensor, center: Tensor) -> Sample:
    image.flip(-1)
    return image, torch.stack([1 - center[0], center[1]])


def flip_both(image: Tensor, center: Tensor) -> Sample:
    return mirrored(image, center) if is_drawn() else (image, center)


def flip_center_alone(image: Tensor, center: Tensor) -> Sample:
    return lost_mirror(image, center) if is_drawn() else (image, center)


def mirror_center_alone(image: Tensor, center: Tensor) -> Sample:
    return image, torch.stack([1 - center[0], center[1]]) if is_drawn() else center


def shift_center_alone(image: Tensor, center: Tensor) -> Sample:
    shift = 0.2 * torch.rand(2)
    return image, center + shift


def jitter_center(image: Tensor, center: Tensor) -> Sample:
    return image, center + 0.005 * torch.randn(2)


def draw_partner(image: Tensor, _: Tensor) -> Sample:
    return image, torch.randn(2)


def add_noise_to_image(image: Tensor, center: Tensor) -> Sample:
    return image + 0.1 * torch.randn_like(image), torch.stack([1 - center[0], center[1]]) if is_drawn() else center


class Spots(Dataset[Sample]):
    """Images of one bright spot each, with its position."""

    def __init__(self, read: Callable[[Tensor, Tensor], Sample], has_classes: bool = False) -> None:
        self.read, self.has_classes = read, has_classes
        generator = torch.Generator().manual_seed(0)
        self.cells = torch.randint(8, (200, 2), generator=generator)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, index: int) -> Sample:
        column, row = self.cells[index].tolist()
        image = torch.zeros(1, 8, 8)
        image[0, row, column] = 1.0
        if self.has_classes:
            return self.read(image, (self.cells[index, 0] > 3).long())
        return self.read(image, (self.cells[index] + 0.5) / 8)


def findings_of(dataset: Spots, outputs: int, loss: nn.Module) -> list[Finding]:
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, outputs))
    debugger = Debugger(model, DataLoader(dataset, batch_size=20, shuffle=True), loss_fn=loss)
    return [finding for finding in debugger.checkup().findings if finding.code == "D122"]


@pytest.mark.parametrize(
    ("read", "line", "severity"),
    [
        (flip_center_alone, "image.flip(-1)", "warning"),
        (mirror_center_alone, None, "warning"),
        (shift_center_alone, None, "note"),
    ],
)
def test_a_target_that_changes_alone_is_reported(read: Callable[..., Sample], line: str | None, severity: str) -> None:
    (finding,) = findings_of(Spots(read), 2, nn.MSELoss())
    assert finding.severity == severity
    assert "get another target when they are read again" in finding.message
    assert line is None or line in (finding.where.source or "")
    if line:
        assert "image = image.flip(-1)" in str(finding.fix)


@pytest.mark.parametrize("read", [flip_both, jitter_center, draw_partner, add_noise_to_image, lambda x, y: (x, y)])
def test_targets_that_may_change_are_silent(read: Callable[..., Sample]) -> None:
    assert not findings_of(Spots(read), 2, nn.MSELoss())


@pytest.mark.parametrize(("share", "is_reported"), [(0.2, True), (0.0, False), (1.0, False)])
def test_classes_are_reported_that_change_in_part(share: float, is_reported: bool) -> None:
    def relabel(image: Tensor, label: Tensor) -> Sample:
        return image, torch.randint(2, ()) if torch.rand(()) < share else label

    findings = findings_of(Spots(relabel, has_classes=True), 2, nn.CrossEntropyLoss())
    reported = [finding.severity for finding in findings if "when they are read again" in finding.message]
    assert reported == ["note"] * is_reported
