"""Tests of D103: missing targets and inputs, which are a note where the loss or the model handles them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
MANY_MISSING = X[:, :2].clone()
MANY_MISSING[::3, 0] = torch.nan
LATE_MISSING = X[:, :2].clone()
LATE_MISSING[61] = torch.nan
missing_targets = pytest.mark.parametrize(
    "target", [MANY_MISSING, LATE_MISSING], ids=["many", "one far from the first batch"]
)


def severities(setup: Setup) -> list[str | None]:
    return [finding.severity for finding in rule_findings(setup, "D103")]


def index_mask_loss(output: Tensor, target: Tensor) -> Tensor:
    is_known = ~target.isnan()
    return F.mse_loss(output[is_known], target[is_known])


def zero_fill_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output * target.isfinite(), target.nan_to_num())


@pytest.mark.parametrize("loss", [index_mask_loss, zero_fill_loss])
@missing_targets
def test_non_finite_targets_when_the_loss_masks_them_are_a_note(loss: Callable[..., Tensor], target: Tensor) -> None:
    assert severities(minimal_setup(network(2), X, target, loss)) == ["note"]


def late_mask_loss(output: Tensor, target: Tensor) -> Tensor:
    """A finite loss with NaN gradients: the error is computed before it is masked."""
    return torch.where(target.isnan(), 0.0, (output - target) ** 2).mean()


def zero_weight_loss(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2 * target.isfinite()).mean()


@pytest.mark.parametrize("loss", [zero_weight_loss, F.mse_loss])
@missing_targets
def test_non_finite_targets_that_reach_the_loss_are_an_error(loss: Callable[..., Tensor], target: Tensor) -> None:
    assert severities(minimal_setup(network(2), X, target, loss)) == ["error"]


class ImputingModel(nn.Module):
    """Replaces missing inputs by zeros and appends a mask of them."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(torch.cat([x.nan_to_num(), x.isnan().float()], 1))


def missing_input_setup(model: nn.Module) -> Setup:
    x = X.clone()
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.1] = torch.nan
    return minimal_setup(model, x, Y, nn.CrossEntropyLoss())


def test_non_finite_inputs_when_the_model_imputes_them_are_a_note() -> None:
    assert severities(missing_input_setup(ImputingModel())) == ["note"]
    assert severities(missing_input_setup(network(3))) == ["error"]


@pytest.mark.parametrize(
    ("rows", "value", "cause", "fix"),
    [
        (slice(None), torch.nan, "Column 1 is NaN in every sample, so a computation made it", "Divide by std + 1e-8"),
        (slice(3, 5), torch.nan, "Either values are missing in the source of these samples", "x[keep], y[keep]"),
        (slice(3, 5), torch.inf, "A computation such as a division by 0 or the logarithm of 0", "x[keep], y[keep]"),
    ],
    ids=["everywhere", "missing", "infinite"],
)
def test_cause_follows_the_kind_of_the_values_and_where_they_are(
    rows: slice, value: float, cause: str, fix: str
) -> None:
    x = X.clone()
    x[rows, 1] = value
    (finding,) = rule_findings(minimal_setup(network(3), x, Y, nn.CrossEntropyLoss()), "D103")
    assert finding.cause.startswith(cause)
    assert fix in finding.fix


def test_infinite_value_of_the_data_is_not_reported_again_for_a_step() -> None:
    x = X.clone()
    x[3, 1] = torch.inf
    setup = minimal_setup(network(3), x, Y, nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1)
    debugger = Debugger.of(replace(setup, optimizers=(optimizer,)))
    debugger.checkup()
    with debugger.watch():
        train(debugger.setup, 3)
    (finding,) = [finding for finding in debugger.findings if finding.code == "D103"]
    assert (finding.where.sample, finding.where.step) == (3, None)
