"""Tests of D115: an input that contains the target, and inputs that only predict it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=GENERATOR)
TARGET = 3 * X[:, :1] + 0.1 * torch.randn(200, 1, generator=GENERATOR)
LABELS = X[:, :3].argmax(1)
SERIES = torch.randn(300, generator=GENERATOR).cumsum(0)
WINDOWS = torch.stack([SERIES[i : i + 12] for i in range(280)])


def table_setup(column: Tensor, target: Tensor) -> Setup:
    loss_fn = nn.MSELoss() if target.is_floating_point() else nn.CrossEntropyLoss()
    x = torch.cat([X[:, :3], column.reshape(200, 1).float()], 1)
    return minimal_setup(network(1 if target.is_floating_point() else 3), x, target, loss_fn)


def forecast_setup(ahead: int) -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 1))
    return minimal_setup(model, WINDOWS[..., None], SERIES[11 + ahead : 291 + ahead, None], nn.MSELoss())


@pytest.mark.parametrize(
    "setup",
    [
        table_setup(TARGET, TARGET),
        table_setup(2.5 * TARGET + 7, TARGET),
        table_setup(LABELS, LABELS),
        table_setup(torch.tensor([0.3, -2.0, 5.0])[LABELS], LABELS),
        forecast_setup(0),
    ],
    ids=["the target", "in other units", "the class", "class under other numbers", "a window that reaches too far"],
)
def test_target_leak_of_target_among_inputs_is_reported(setup: Setup) -> None:
    assert len(fault_messages(setup, "D115")) == 1


@pytest.mark.parametrize(
    "setup",
    [
        table_setup(X[:, 3], TARGET),
        table_setup(X[:, 0] + 0.01 * X[:, 3], TARGET),
        table_setup((LABELS > 0).float(), LABELS),
        forecast_setup(1),
        minimal_setup(nn.Linear(1, 1), X[:, :1], 2 * X[:, :1] + 1, nn.MSELoss()),
        minimal_setup(nn.Linear(4, 4), X, X, nn.MSELoss()),
    ],
    ids=["noise", "a good feature", "part of the classes", "the next step", "a line", "an autoencoder"],
)
def test_target_leak_of_merely_predictive_features_is_quiet(setup: Setup) -> None:
    assert fault_messages(setup, "D115") == []


BINARY = (X[:, 0] + X[:, 1] > 0).long()
NOISE = 0.05 * torch.randn(200, generator=GENERATOR)


@pytest.mark.parametrize(
    ("x", "y", "severities"),
    [
        (torch.cat([X[:, :3], (1.0 - 2 * BINARY + NOISE)[:, None]], 1), BINARY, ["warning"]),
        (X, (X[:, 0] > 0).long(), []),
        (X + 20 * BINARY[:, None], BINARY, []),
        (X, BINARY, []),
    ],
    ids=["noisy class column", "one column decides without a gap", "all columns decide", "two columns decide"],
)
def test_target_leak_warns_of_a_noisy_class_column_only(x: Tensor, y: Tensor, severities: list[str]) -> None:
    findings = rule_findings(minimal_setup(network(2), x, y, nn.CrossEntropyLoss()), "D115")
    assert [finding.severity for finding in findings] == severities
