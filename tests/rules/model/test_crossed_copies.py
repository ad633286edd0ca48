"""Tests of M304: rows that are repeated for the heads of an attention, in or out of the order of the heads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
STEPS, HEADS = 6, 4
SERIES = torch.randn(48, STEPS, 8, generator=GENERATOR)
LENGTHS = 2 + torch.arange(48) % 5
Y = torch.arange(48) % 3


class Reader(nn.Module):
    """Layers for series of different lengths; ``is_right`` tells whether the rows of a sample meet."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.is_right = is_right
        self.attention = nn.MultiheadAttention(8, HEADS, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, HEADS, 8, batch_first=True)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def hidden(self, lengths: Tensor) -> Tensor:
        return (torch.arange(STEPS) >= lengths[:, None])[:, None, :].expand(-1, STEPS, -1)


class Tiled(Reader):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = self.hidden(lengths)
        mask = mask.repeat_interleave(HEADS, 0) if self.is_right else mask.repeat(HEADS, 1, 1)
        return self.head(self.attention(x, x, x, attn_mask=mask)[0].mean(1))


class TiledScores(Reader):
    """A mask of numbers for a layer of an encoder."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.zeros(len(x), STEPS, STEPS).masked_fill(self.hidden(lengths), float("-inf"))
        copies = [len(x), HEADS, STEPS, STEPS] if self.is_right else [HEADS, len(x), STEPS, STEPS]
        axis = 1 if self.is_right else 0
        return self.head(self.layer(x, src_mask=mask.unsqueeze(axis).expand(*copies).reshape(-1, STEPS, STEPS)).mean(1))


class WrittenOut(Reader):
    """Heads of a sample follow each other."""

    def split(self, x: Tensor) -> Tensor:
        return x.view(len(x), STEPS, HEADS, 2).transpose(1, 2).reshape(-1, STEPS, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        hidden = self.hidden(lengths)
        hidden = hidden.repeat_interleave(HEADS, 0) if self.is_right else hidden.repeat((HEADS, 1, 1))
        scores = self.split(self.query(x)) @ self.split(self.key(x)).transpose(1, 2)
        weights = scores.masked_fill(hidden, -1e9).softmax(-1)
        result = (weights @ self.split(self.value(x))).view(len(x), HEADS, STEPS, 2).transpose(1, 2)
        return self.head(result.reshape(len(x), STEPS, 8).mean(1))


class HeadsInTurn(Reader):
    """All samples of a head follow each other."""

    def split(self, x: Tensor) -> Tensor:
        return torch.cat(x.split(2, dim=-1), dim=0)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        hidden = self.hidden(lengths)
        hidden = torch.cat([hidden] * HEADS) if self.is_right else hidden.repeat_interleave(HEADS, dim=0)
        scores = self.split(self.query(x)) @ self.split(self.key(x)).transpose(1, 2)
        parts = torch.where(hidden, -1e9, scores).softmax(-1) @ self.split(self.value(x))
        return self.head(torch.cat(parts.split(len(x)), dim=-1).mean(1))


class Candidates(Reader):
    """Three candidates for each sample, each with the values of its sample."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        own = x.mean(1).repeat_interleave(3, 0) if self.is_right else x.mean(1).repeat(3, 1)
        choices = x[:, :3].reshape(-1, 8)
        return self.head(torch.relu(own + choices)).view(len(x), 3, 3).mean(1)


# By name: the model, and what the line that repeats the rows has, and the fix.
CASES: dict[str, tuple[type[Reader], str, str]] = {
    "tiled mask": (Tiled, "mask.repeat(HEADS, 1, 1)", "mask.repeat_interleave(HEADS, dim=0)"),
    "mask of numbers": (TiledScores, "mask.unsqueeze(axis)", "mask.repeat_interleave(4, dim=0)"),
    "written out": (WrittenOut, "hidden.repeat((HEADS, 1, 1))", "hidden.repeat_interleave(HEADS, dim=0)"),
    "heads in turn": (HeadsInTurn, "hidden.repeat_interleave(", "torch.cat([mask] * 4)"),
    "candidates": (Candidates, "x.mean(1).repeat(3, 1)", "x.mean(1).repeat_interleave(3, dim=0)"),
}


def setup_of(model: nn.Module) -> Setup:
    loader = DataLoader(TensorDataset(SERIES, LENGTHS, Y), batch_size=12, shuffle=True)
    return Setup(model, loader, loss_fn=F.cross_entropy, optimizers=(torch.optim.Adam(model.parameters()),))


@pytest.mark.parametrize("name", CASES)
def test_copies_in_another_order_are_an_error_at_the_line_that_makes_them(name: str) -> None:
    build, line, fix = CASES[name]
    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(build(False)), "M304")
    assert finding.severity == "error"
    assert line in (finding.where.source or "")
    assert "belongs to sample" in finding.cause
    assert "batch_first" not in finding.fix_text
    assert fix in finding.fix_text


@pytest.mark.parametrize("name", CASES)
def test_copies_in_the_order_of_the_other_rows_are_no_finding(name: str) -> None:
    torch.manual_seed(0)
    assert not rule_findings(setup_of(CASES[name][0](True)), "M304")


def test_attention_over_the_samples_keeps_its_own_cause() -> None:
    class OverSamples(Reader):
        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            x = x.transpose(0, 1)
            return self.head(self.attention(x, x, x)[0].mean(0))

    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(OverSamples(False)), "M304")
    assert "sequence axis" in finding.cause
