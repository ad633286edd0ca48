"""Tests of L208: a large initial loss, which is expected of scaled cosines but not of other scaled scores."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages

X, Y = points()
ScoreFunction = Callable[[Tensor, Tensor], Tensor]


class ScaledScores(nn.Module):
    """Scores of features and class weights, times 64."""

    def __init__(self, score: ScoreFunction) -> None:
        super().__init__()
        self.body, self.weight, self.score = nn.Linear(4, 16), nn.Parameter(torch.randn(3, 16)), score

    def forward(self, x: Tensor) -> Tensor:
        return 64 * self.score(torch.relu(self.body(x)), self.weight)


def scaled_score_setup(score: ScoreFunction) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(ScaledScores(score), X, Y, nn.CrossEntropyLoss())


COSINES: dict[str, ScoreFunction] = {
    "normalize and linear": lambda h, w: F.linear(F.normalize(h), F.normalize(w)),
    "normalize and matrix product": lambda h, w: F.normalize(h, dim=-1) @ F.normalize(w, dim=-1).t(),
    "division by norms": lambda h, w: (h / h.norm(dim=1, keepdim=True)) @ (w / w.norm(dim=1, keepdim=True)).t(),
    "with a margin": lambda h, w: torch.cos(
        torch.acos(F.linear(F.normalize(h), F.normalize(w)).clamp(-0.9, 0.9)) + 0.1
    ),
}


@pytest.mark.parametrize("name", COSINES)
def test_initial_loss_off_of_scaled_cosines_is_quiet(name: str) -> None:
    assert fault_messages(scaled_score_setup(COSINES[name]), "L208") == []


UNBOUNDED_SCORES: dict[str, ScoreFunction] = {
    "matrix product": lambda h, w: h @ w.t(),
    "only features normalized": lambda h, w: F.linear(F.normalize(h), w),
}


@pytest.mark.parametrize("name", UNBOUNDED_SCORES)
def test_initial_loss_off_of_other_scaled_scores_is_reported(name: str) -> None:
    assert len(fault_messages(scaled_score_setup(UNBOUNDED_SCORES[name]), "L208")) == 1
