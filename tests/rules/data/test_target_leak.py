"""D115 tells a feature that is the target from one that predicts it well."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=DRAWN)
REAL = 3 * X[:, :1] + 0.1 * torch.randn(200, 1, generator=DRAWN)
CLASS = X[:, :3].argmax(1)
SERIES = torch.randn(300, generator=DRAWN).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 12] for i in range(280)])


def table(column: Tensor, target: Tensor) -> Setup:
    loss_fn = nn.MSELoss() if target.is_floating_point() else nn.CrossEntropyLoss()
    x = torch.cat([X[:, :3], column.reshape(200, 1).float()], 1)
    return minimal_setup(network(1 if target.is_floating_point() else 3), x, target, loss_fn)


def series(ahead: int) -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 1))
    return minimal_setup(model, WINDOWS[..., None], SERIES[11 + ahead : 291 + ahead, None], nn.MSELoss())


@pytest.mark.parametrize(
    "setup",
    [
        table(REAL, REAL),
        table(2.5 * REAL + 7, REAL),
        table(CLASS, CLASS),
        table(torch.tensor([0.3, -2.0, 5.0])[CLASS], CLASS),
        series(0),
    ],
    ids=["the target", "in other units", "the class", "under other numbers", "a window that reaches too far"],
)
def test_the_target_among_the_inputs_is_found(setup: Setup) -> None:
    assert len(fault_messages(setup, "D115")) == 1


@pytest.mark.parametrize(
    "setup",
    [
        table(X[:, 3], REAL),
        table(X[:, 0] + 0.01 * X[:, 3], REAL),
        table((CLASS > 0).float(), CLASS),
        series(1),
        minimal_setup(nn.Linear(1, 1), X[:, :1], 2 * X[:, :1] + 1, nn.MSELoss()),
        minimal_setup(nn.Linear(4, 4), X, X, nn.MSELoss()),
    ],
    ids=["noise", "a good feature", "part of the classes", "the next step", "a line", "an autoencoder"],
)
def test_features_that_only_predict_are_left_alone(setup: Setup) -> None:
    assert fault_messages(setup, "D115") == []
