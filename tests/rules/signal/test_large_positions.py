"""Tests of G408: positions that drown the tokens, and large positions that do not hinder learning."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

LENGTH = 6
SINUSOIDS = torch.stack([torch.sin(torch.arange(LENGTH) / 10 ** (k / 8) + k % 2) for k in range(16)], dim=1)


class Reader(nn.Module):
    """A classifier of tokens with one attention, and positions of some scale."""

    def __init__(self, scale: float, std: float, learned: bool) -> None:
        super().__init__()
        self.words, self.learned, self.scale = nn.Embedding(8, 16), nn.Embedding(LENGTH, 16) if learned else None, scale
        nn.init.normal_(self.words.weight, std=std)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, words: Tensor) -> Tensor:
        places = self.learned(torch.arange(LENGTH)) if self.learned is not None else SINUSOIDS
        scores: Tensor = self.head(self.layer(self.words(words) + self.scale * places).mean(1))
        return scores


def setup_of(scale: float, std: float = 1.0, learned: bool = True) -> Setup:
    """Learn the remainder of the first word."""
    words = torch.randint(0, 8, (96, LENGTH), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    setup = minimal_setup(Reader(scale, std, learned), words, words[:, 0] % 4, nn.CrossEntropyLoss())
    setup.optimizers[0].param_groups[0]["lr"] = 3e-3
    return setup


@pytest.mark.parametrize("learned", [True, False])
def test_positions_that_drown_tokens_fire(learned: bool) -> None:
    (finding,) = rule_faults(setup_of(150.0, learned=learned), "G408")
    assert "Positions make up" in finding.message
    assert "self.scale * places" in (finding.where.source or "")


@pytest.mark.parametrize(
    ("scale", "std", "learned"),
    [(1.0, 1.0, True), (1.0, 1.0, False), (0.02, 0.02, True), (1.0, 0.1, True), (6.0, 1.0, True)],
)
def test_positions_of_usual_scales_do_not_fire(scale: float, std: float, learned: bool) -> None:
    assert rule_faults(setup_of(scale, std, learned), "G408") == []
