"""Tests of D105 on targets of shape (steps, samples) beside outputs of shape (samples, steps, classes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = torch.randint(3, 8, (40,), generator=GENERATOR).tolist()
SAMPLES = [torch.randint(1, 20, (length,), generator=GENERATOR) for length in LENGTHS]


def collate(batch_first: bool) -> Callable[[list[Tensor]], tuple[Tensor, Tensor]]:
    def pad(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
        words = pad_sequence(samples, batch_first=True)
        tags = pad_sequence([words % 4 for words in samples], batch_first=batch_first, padding_value=-100)
        return words, tags

    return pad


def flattened(scores: Tensor, tags: Tensor) -> Tensor:
    return F.cross_entropy(scores.reshape(-1, 4), tags.reshape(-1))


def transposed(scores: Tensor, tags: Tensor) -> Tensor:
    return F.cross_entropy(scores.reshape(-1, 4), tags.t().reshape(-1))


@pytest.mark.parametrize(
    ("batch_first", "loss_fn", "count"), [(False, flattened, 1), (False, transposed, 0), (True, flattened, 0)]
)
def test_targets_that_meet_outputs_of_other_samples_are_reported(batch_first: bool, loss_fn: Any, count: int) -> None:
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 4))
    loader = DataLoader(SAMPLES, 16, collate_fn=collate(batch_first))  # type: ignore[arg-type]
    findings = rule_findings(Setup(model, loader, loss_fn=loss_fn), "D105")
    assert ["in the order in which they are stored" in finding.message for finding in findings] == [True] * count
