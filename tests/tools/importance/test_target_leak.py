"""A feature that alone decides is handed to the rule of leaks; one that is only strong is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rule_engine import checkup as checkups
from nbdebug.setup import Setup
from nbdebug.tools.importance import importance

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=DRAWN)
LOGIT = 1.6 * X[:, 0] + 0.8 * X[:, 1]
Y = (LOGIT + torch.randn(400, generator=DRAWN) > 0).long()
FLIPPED = torch.rand(400, generator=DRAWN) < 0.02


def found(last: Tensor, weights: list[float], y: Tensor = Y, loss_fn: nn.Module | None = None) -> list[Finding]:
    """What is said of a model with such weights for four features and a last one."""
    x = torch.cat([X, last[:, None].float()], 1)
    model = nn.Linear(5, 1 if y.is_floating_point() else 2)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
        model.weight[-1] = torch.tensor(weights)
    loader = DataLoader(TensorDataset(x, y), batch_size=100)
    names = ["sex", "class", "age", "fare", "boat"]
    setup = Setup(model, loader, loader, loss_fn=loss_fn or nn.CrossEntropyLoss(), feature_names=names)
    return list(checkups.judge_result(setup, importance=importance(setup, repeats=2)))


def test_a_planted_leak_is_found() -> None:
    leak = torch.where(FLIPPED, 1 - Y, Y) - 0.5
    (one,) = found(leak, [0.3, 0.2, 0, 0, 8.0])
    assert (one.code, one.severity, one.evidence["feature"]) == ("D115", "warning", "boat")
    assert one.evidence["skill alone"] > 0.85
    assert "depends almost entirely on boat" in one.message


def test_one_of_real_numbers_is_found() -> None:
    y = (LOGIT + X[:, 2])[:, None]
    leak = y[:, 0] + 0.1 * X[:, 3]
    (one,) = found(leak, [0, 0, 0, 0, 1.0], y, nn.MSELoss())
    assert one.evidence["feature"] == "boat"


@pytest.mark.parametrize(
    ("last", "weights"),
    [
        (X[:, 2] * X[:, 3], [1.6, 0.8, 0, 0, 0]),
        (torch.where(FLIPPED, 1 - Y, Y) - 0.5, [1.6, 0.8, 0, 0, 0.1]),
        (torch.where(torch.rand(400, generator=DRAWN) < 0.2, 1 - Y, Y) - 0.5, [0, 0, 0, 0, 4.0]),
    ],
    ids=["strong features", "a leak that the model does not go by", "the one good feature"],
)
def test_strong_features_are_left_alone(last: Tensor, weights: list[float]) -> None:
    assert found(last, weights) == []


def test_an_exact_copy_is_told_once() -> None:
    (one,) = found(2 * Y + 1, [0, 0, 0, 0, 8.0])
    assert one.severity == "error"
