"""Tests of M304 where samples are not along the first axis of inputs or outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

LENGTH, SAMPLES, FEATURES = 7, 8, 5


def length_first(samples: list[Any]) -> tuple[Tensor, Tensor]:
    """Collate as (length, batch, features)."""
    return torch.stack([x for x, _ in samples], 1), torch.stack([y for _, y in samples])


class LengthFirst(nn.Module):
    """A recurrent classifier of inputs with the length first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.GRU(FEATURES, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][-1])


class Reshaped(LengthFirst):
    """Takes a view for an exchange of axes."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0].reshape(x.shape[1], x.shape[0], -1)[:, -1])


class Normalized(LengthFirst):
    """Normalizes over the samples."""

    def forward(self, x: Tensor) -> Tensor:
        states = self.body(x)[0]
        return self.head(torch.softmax(states, dim=1)[-1])


class Attention(nn.Module):
    """Scores for each position as (length, batch, classes), from inputs with the batch first."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
        self.embed, self.head = nn.Linear(FEATURES, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.embed(x))).transpose(0, 1)


class ConnectionistLoss(nn.Module):
    """CTC of all labels of a batch one after another."""

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        lengths = torch.full((scores.shape[1],), LENGTH), torch.ones(scores.shape[1], dtype=torch.long)
        return nn.functional.ctc_loss(scores.log_softmax(2), labels, *lengths)


def setup_of(model: nn.Module) -> Setup:
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(40, LENGTH, FEATURES, generator=generator), torch.randint(1, 3, (40,), generator=generator)
    )
    is_length_first = isinstance(model, LengthFirst)
    loader = DataLoader(data, SAMPLES, collate_fn=length_first if is_length_first else None)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss() if is_length_first else ConnectionistLoss())


@pytest.mark.parametrize(
    ("model", "code"),
    [(Normalized(), "M304"), (Attention(batch_first=False), "M304"), (Reshaped(), "M309")],
    ids=["softmax", "attention", "view"],
)
def test_mixed_samples_along_any_axis_are_reported(model: nn.Module, code: str) -> None:
    (finding,) = rule_faults(setup_of(model), code)
    assert finding.severity == "error"


@pytest.mark.parametrize("code", ["M304", "M309"])
@pytest.mark.parametrize("model", [LengthFirst(), Attention(batch_first=True)], ids=["recurrent", "attention"])
def test_separate_samples_along_any_axis_are_not_reported(model: nn.Module, code: str) -> None:
    assert rule_faults(setup_of(model), code) == []
