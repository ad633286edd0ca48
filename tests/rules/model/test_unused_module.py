"""Tests of M315: registered modules that are never called, and modules that only seem unused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.model.unused_module import bad
from tests.rules.rule_findings import checkup_findings, rule_findings


def findings(model: nn.Module) -> list[Finding]:
    return checkup_findings(minimal_setup(model, *points(), nn.CrossEntropyLoss()), "M315")


class NetworkWithExtras(nn.Module):
    """A network with extra modules that it does not call."""

    def __init__(self, **extras: nn.Module) -> None:
        super().__init__()
        self.net = network(3)
        for name, module in extras.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class PredictMethod(NetworkWithExtras):
    def predict(self, x: Tensor) -> Tensor:
        return self.softmax(self(x))


class GetattrAccess(NetworkWithExtras):
    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, "dr" + "op")(self.net(x))


class DirectForward(NetworkWithExtras):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop.forward(self.net(x))


class ConditionalCall(NetworkWithExtras):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.net(x)) if len(x) > 10_000 else self.net(x)


class AttentionClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(1)
        return self.head(self.attention(x, x, x)[0].squeeze(1))


@pytest.mark.parametrize(
    "part", [nn.Dropout(0.5), nn.ReLU(), nn.BatchNorm1d(8, affine=False), nn.Sequential(nn.GELU(), nn.MaxPool1d(2))]
)
def test_unused_module_that_is_never_called_is_warning(part: nn.Module) -> None:
    (finding,) = findings(NetworkWithExtras(extra=part))
    assert finding.severity == "warning"
    assert finding.where.module == "extra"


def test_unused_module_inside_block_has_full_path() -> None:
    (finding,) = findings(nn.Sequential(NetworkWithExtras(drop=nn.Dropout(0.1)), nn.Linear(3, 3)))
    assert finding.where.module == "0.drop"


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "used by another method": lambda: PredictMethod(softmax=nn.Softmax(1)),
    "accessed by getattr": lambda: GetattrAccess(drop=nn.Dropout(0.1)),
    "forward called directly": lambda: DirectForward(drop=nn.Dropout(0.1)),
    "used sometimes": lambda: ConditionalCall(drop=nn.Dropout(0.1)),
    "a loss kept in the model": lambda: NetworkWithExtras(criterion=nn.CrossEntropyLoss()),
    "inside a torch module": AttentionClassifier,
    "all used": lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_unused_module_ignores_modules_used_elsewhere(name: str) -> None:
    assert findings(HEALTHY[name]()) == []


def test_unused_module_with_parameters_is_disconnected_parameter() -> None:
    report = Debugger.of(
        minimal_setup(NetworkWithExtras(extra=nn.Linear(4, 4)), *points(), nn.CrossEntropyLoss())
    ).checkup()
    assert [finding.code for finding in report.faults] == ["M301"]


def test_unused_module_of_activation_ranks_before_stacked_linear() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    model = NetworkWithExtras(act=nn.ReLU())
    model.net = net
    report = Debugger.of(minimal_setup(model, *points(), nn.CrossEntropyLoss())).checkup()
    assert [finding.code for finding in report.faults] == ["M315", "M308"]


def test_m315_cause_claims_nothing_about_the_place_of_creation() -> None:
    (finding,) = rule_findings(bad(), "M315")
    assert finding.cause == "A module affects the output only if the forward pass calls it."
