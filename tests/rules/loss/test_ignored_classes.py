"""Tests of L214 on a class of positions that the loss ignores although the inputs predict it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SAMPLES, SIDE, LAST = 60, 16, 3
GENERATOR = torch.Generator().manual_seed(0)
TONES = torch.tensor([[-1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, -1.0, -1.0], [1.0, -1.0, 1.0]])
FIELD, OTHER = F.avg_pool2d(torch.randn(2 * SAMPLES, 1, SIDE + 8, SIDE + 8, generator=GENERATOR), 9, 1)[:, 0].split(
    SAMPLES
)
FIELD, OTHER = 9 * FIELD, 9 * OTHER
KINDS = (FIELD > -0.3).long() + (FIELD > 0.3).long() + (FIELD > 1.0).long()


def pictures(kinds: Tensor, noise: float = 0.3) -> Tensor:
    light = TONES[kinds].permute(0, 3, 1, 2)
    return light + noise * torch.randn(light.shape, generator=torch.Generator().manual_seed(1))


IMAGES = pictures(KINDS)
PADDED = torch.arange(SIDE) >= 10 + torch.arange(SAMPLES)[:, None, None] % 4
BORDERS = F.max_pool2d(KINDS[:, None].float(), 3, 1, 1)[:, 0] != KINDS
UNKNOWN = OTHER < 0.3


def setup(images: Tensor, kinds: Tensor, loss_fn: Any, classes: int = 4) -> Setup:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, classes, 1))
    return Setup(model, DataLoader(TensorDataset(images, kinds), 20), loss_fn=loss_fn)


def messages(setup: Setup) -> list[str]:
    return [f.message for f in checkup_findings(setup, "L214") if "balanced accuracy" in f.message]


def own_loss(scores: Tensor, kinds: Tensor) -> Tensor:
    return F.cross_entropy(scores, kinds, ignore_index=3)


OPTION = nn.CrossEntropyLoss(ignore_index=0)
FAULTY: dict[str, tuple[Any, int]] = {"an option": (OPTION, 0), "a call": (own_loss, 3)}


@pytest.mark.parametrize("name", FAULTY)
def test_class_that_the_inputs_predict_is_reported_at_the_index(name: str) -> None:
    loss_fn, label = FAULTY[name]
    (finding,) = checkup_findings(setup(IMAGES, (KINDS + label) % 4, loss_fn), "L214")
    assert (finding.severity, finding.evidence["class"]) == ("note", label)
    assert f"ignore_index={label}" in (finding.where.source or "")


def without_first(change: Callable[[Tensor], Tensor]) -> Tensor:
    """Return classes of 1 and above, some of which are replaced by the ignored 0."""
    return change(KINDS.clamp(min=1))


HEALTHY: dict[str, tuple[Tensor, Tensor, Any, int]] = {
    "nothing ignored": (IMAGES, KINDS, nn.CrossEntropyLoss(), 4),
    "no class": (IMAGES, torch.where(UNKNOWN, -100, KINDS), nn.CrossEntropyLoss(), 4),
    "padding": (
        IMAGES.masked_fill(PADDED[:, None], 0.0),
        without_first(lambda kinds: kinds.masked_fill(PADDED, 0)),
        OPTION,
        4,
    ),
    "borders between objects": (IMAGES, without_first(lambda kinds: kinds.masked_fill(BORDERS, 0)), OPTION, 4),
    "positions without annotation": (IMAGES, without_first(lambda kinds: kinds.masked_fill(UNKNOWN, 0)), OPTION, 4),
    "without a channel": (IMAGES, torch.where(KINDS == 0, 3, KINDS - 1), nn.CrossEntropyLoss(ignore_index=LAST), 3),
    "a class weight of zero": (*(IMAGES, KINDS, nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0, 1.0, 1.0])), 4),),
    "a rare class": (IMAGES, torch.where((KINDS == 0) & (FIELD > -0.4), 0, KINDS.clamp(min=1)), OPTION, 4),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_label_that_is_no_class_to_learn_is_quiet(name: str) -> None:
    images, kinds, loss_fn, classes = HEALTHY[name]
    assert messages(setup(images, kinds, loss_fn, classes)) == []
