"""Tests of G416 on losses that are zero whatever the model returns, and on losses that are zero on these batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
Loss = Callable[[tuple[Tensor, Tensor], Tensor], Tensor]


class TwoViews(nn.Module):
    """The embeddings of a sample and of a shifted copy."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return F.normalize(self.body(x), dim=1), F.normalize(self.body(x + 0.1), dim=1)


def hardest(views: tuple[Tensor, Tensor], fill: float, margin: float = 1.0) -> Tensor:
    similarity = views[0] @ views[1].T
    others = similarity.clone()
    others.fill_diagonal_(fill)
    return F.relu(1 - similarity.diagonal() - (1 - others).max(1).values + margin).mean()


def wrong_sign_of_diagonal(views: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return hardest(views, float("-inf"))


def wrong_sign_of_mask(views: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    distance = torch.cdist(*views)
    is_same = target[:, None] == target
    nearest = distance.masked_fill(is_same, float("-inf")).amin(1)
    return (nearest + 0.5 - 2).clamp(min=0).mean()


def right_sign(views: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return hardest(views, float("inf"))


def no_pairs(views: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    is_pair = target[:, None] == target + 10
    return (torch.cdist(*views) * is_pair).sum() / is_pair.sum().clamp(min=1)


def met_margin(views: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.relu((views[0] - views[1]).square().sum(1) - 100).mean()


def negative_margin(views: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return hardest(views, float("inf"), margin=-10.0)


def setup_of(loss_fn: Loss) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(TwoViews(), X, Y, loss_fn)


@pytest.mark.parametrize(
    ("loss_fn", "source"),
    [(wrong_sign_of_diagonal, "others.fill_diagonal_(fill)"), (wrong_sign_of_mask, "masked_fill(is_same")],
)
def test_zero_gradient_of_loss_that_ignores_the_output_is_error(loss_fn: Loss, source: str) -> None:
    (finding,) = rule_findings(setup_of(loss_fn), "G416")
    assert finding.severity == "error"
    assert "does not depend on the output" in finding.message
    assert source in (finding.where.source or "")


@pytest.mark.parametrize("loss_fn", [right_sign, met_margin, negative_margin, no_pairs])
def test_zero_gradient_of_loss_that_depends_on_the_output_is_no_error(loss_fn: Loss) -> None:
    assert {finding.severity for finding in rule_findings(setup_of(loss_fn), "G416")} <= {"note"}
