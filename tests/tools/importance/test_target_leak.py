"""Tests of the target-leak rule (D115) on importances."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.rule_engine import checkup as checkups
from nbdebug.tools.importance import importance
from tests.tools.importance.setups import linear_model, make_setup

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=GENERATOR)
LOGIT = 1.6 * X[:, 0] + 0.8 * X[:, 1]
Y = (LOGIT + torch.randn(400, generator=GENERATOR) > 0).long()
FLIPPED = torch.rand(400, generator=GENERATOR) < 0.02


def judge_importance(
    last: Tensor, weights: list[float], y: Tensor = Y, loss_fn: nn.Module | None = None
) -> list[Finding]:
    """Findings about a model with these weights of the four features and of ``last``."""
    x = torch.cat([X, last[:, None].float()], 1)
    row = torch.tensor(weights)
    model = linear_model(row if y.is_floating_point() else torch.stack([0 * row, row]))
    names = ["sex", "class", "age", "fare", "boat"]
    setup = make_setup(model, x, y, batch_size=100, loss_fn=loss_fn or nn.CrossEntropyLoss(), feature_names=names)
    return list(checkups.judge_result(setup, importance=importance(setup, repeats=2)))


def test_target_leak_of_planted_feature_is_reported_as_warning() -> None:
    leak = torch.where(FLIPPED, 1 - Y, Y) - 0.5
    (finding,) = judge_importance(leak, [0.3, 0.2, 0, 0, 8.0])
    assert (finding.code, finding.severity, finding.evidence["feature"]) == ("D115", "warning", "boat")
    assert finding.evidence["skill alone"] > 0.85
    assert "depends almost entirely on boat" in finding.message


def test_target_leak_in_regression_is_reported() -> None:
    y = (LOGIT + X[:, 2])[:, None]
    leak = y[:, 0] + 0.1 * X[:, 3]
    (finding,) = judge_importance(leak, [0, 0, 0, 0, 1.0], y, nn.MSELoss())
    assert finding.evidence["feature"] == "boat"


@pytest.mark.parametrize(
    ("last", "weights"),
    [
        (X[:, 2] * X[:, 3], [1.6, 0.8, 0, 0, 0]),
        (torch.where(FLIPPED, 1 - Y, Y) - 0.5, [1.6, 0.8, 0, 0, 0.1]),
        (torch.where(torch.rand(400, generator=GENERATOR) < 0.2, 1 - Y, Y) - 0.5, [0, 0, 0, 0, 4.0]),
    ],
    ids=["strong features", "leak that the model does not use", "only useful feature"],
)
def test_target_leak_is_not_reported_for_strong_or_unused_features(last: Tensor, weights: list[float]) -> None:
    assert judge_importance(last, weights) == []


def test_target_leak_of_exact_copy_is_reported_once_as_error() -> None:
    (finding,) = judge_importance(2 * Y + 1, [0, 0, 0, 0, 8.0])
    assert finding.severity == "error"
