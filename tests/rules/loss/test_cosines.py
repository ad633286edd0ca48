"""L208 does not judge cosines times a scale, however they are written, and judges everything else."""

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
Score = Callable[[Tensor, Tensor], Tensor]


class Directions(nn.Module):
    """Scores from features and one direction for each class, times sixty-four."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.body, self.weight, self.score = nn.Linear(4, 16), nn.Parameter(torch.randn(3, 16)), score

    def forward(self, x: Tensor) -> Tensor:
        return 64 * self.score(torch.relu(self.body(x)), self.weight)


def of(score: Score) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(Directions(score), X, Y, nn.CrossEntropyLoss())


COSINES: dict[str, Score] = {
    "normalize and linear": lambda h, w: F.linear(F.normalize(h), F.normalize(w)),
    "normalize and a product": lambda h, w: F.normalize(h, dim=-1) @ F.normalize(w, dim=-1).t(),
    "lengths by norm": lambda h, w: (h / h.norm(dim=1, keepdim=True)) @ (w / w.norm(dim=1, keepdim=True)).t(),
    "with a margin": lambda h, w: torch.cos(
        torch.acos(F.linear(F.normalize(h), F.normalize(w)).clamp(-0.9, 0.9)) + 0.1
    ),
}


@pytest.mark.parametrize("name", COSINES)
def test_cosines_are_left_alone(name: str) -> None:
    assert fault_messages(of(COSINES[name]), "L208") == []


OTHERS: dict[str, Score] = {
    "a plain product": lambda h, w: h @ w.t(),
    "only the features are of length one": lambda h, w: F.linear(F.normalize(h), w),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_scores_on_a_large_scale_are_found(name: str) -> None:
    assert len(fault_messages(of(OTHERS[name]), "L208")) == 1
