"""Tests of G416: gradients that are zero behind an operation, and gradients that are zero only at the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter, AlternatingHeads
from tests.rules.rule_findings import rule_findings
from tests.rules.signal.networks import HiddenFunction

X, Y = points()


class ZeroBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last, self.head = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 3)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.last(torch.relu(self.inner(x))))


def setup_of(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy) -> Setup:
    return minimal_setup(model, X, Y, loss)


def margin_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.relu(output.abs().sum(1) - 1e6).mean()


FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "inactive units": (lambda h: F.relu(h - 100.0), "F.relu(h - 100.0)"),
    "clamped": (lambda h: (h + 50).clamp(0, 1), "clamp(0, 1)"),
    "rounded": (torch.round, ""),
    "hard signs": (torch.sign, ""),
    "all dropped": (lambda h: F.dropout(h, 1.0), "F.dropout(h, 1.0)"),
    "times zero": (lambda h: h * torch.zeros(8), "torch.zeros(8)"),
    "softmax over one value": (lambda h: h.unsqueeze(-1).softmax(-1).squeeze(-1), "softmax(-1)"),
    "saturated in bfloat16": (lambda h: torch.sigmoid(h.bfloat16() + 200).float(), "torch.sigmoid"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_zero_gradient_points_to_line_where_gradient_ends(name: str) -> None:
    function, line = FAULTS[name]
    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(HiddenFunction(function)), "G416")
    assert finding.severity == "error"
    assert finding.evidence["parameters"] == ["body.weight", "body.bias"]
    assert line in (finding.where.source or "")


def test_zero_gradient_of_dropout_with_rate_one_points_to_module() -> None:
    (finding,) = rule_findings(setup_of(nn.Sequential(nn.Linear(4, 8), nn.Dropout(1.0), nn.Linear(8, 3))), "G416")
    assert finding.where.module == "1"


HEALTHY: dict[str, Callable[[], Setup]] = {
    "residual branch of zero": lambda: setup_of(ZeroBranch()),
    "low-rank adapter": lambda: setup_of(Adapter()),
    "alternating heads": lambda: minimal_setup(AlternatingHeads(), X, torch.randn(64, 1), nn.MSELoss()),
    "many inactive units": lambda: setup_of(HiddenFunction(lambda h: F.relu(h - 1.0))),
    "heavy dropout": lambda: setup_of(HiddenFunction(lambda h: F.dropout(h, 0.8))),
    "straight-through rounding": lambda: setup_of(HiddenFunction(lambda h: h + (h.round() - h).detach())),
    "bias in front of a normalization": lambda: setup_of(
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    ),
    "plain": classifier,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_zero_gradient_ignores_delayed_and_sparse_gradients(name: str) -> None:
    torch.manual_seed(0)
    assert rule_findings(HEALTHY[name](), "G416") == []


def test_zero_gradient_of_satisfied_margin_loss_is_note() -> None:
    assert {finding.severity for finding in rule_findings(setup_of(network(3), margin_loss), "G416")} == {"note"}


def network_with_biases(activation: nn.Module, value: float, kind: str = "linear") -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(4, 8), activation, nn.Linear(8, 8), activation, nn.Linear(8, 3)]
    if kind == "convolution":
        first = [nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 8, 3, padding=1), activation, nn.Conv1d(8, 8, 1), activation]
        layers = [*first, nn.Flatten(), nn.Linear(32, 3)]
    model = nn.Sequential(*layers)
    for layer in layers[:-1]:
        if isinstance(layer, (nn.Linear, nn.Conv1d)):
            nn.init.constant_(layer.bias, value)  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize(("kind", "name"), [("linear", "2.bias"), ("convolution", "3.bias")])
def test_zero_gradient_behind_negative_biases_names_them(kind: str, name: str) -> None:
    (finding,) = rule_findings(setup_of(network_with_biases(nn.ReLU(), -9.0, kind)), "G416")
    assert "bias is -9. With" in finding.cause
    assert f"model[{name[0]}].bias" in finding.fix


@pytest.mark.parametrize("function", [FAULTS["inactive units"][0], torch.round])
def test_zero_gradient_behind_another_operation_does_not_blame_biases(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model = HiddenFunction(function)
    nn.init.constant_(model.body.bias, -0.1)
    (finding,) = rule_findings(setup_of(model), "G416")
    assert "bias" not in finding.cause


@pytest.mark.parametrize("value", [0.0, -0.05])
def test_zero_gradient_of_small_negative_biases_is_quiet(value: float) -> None:
    assert rule_findings(setup_of(network_with_biases(nn.ReLU(), value)), "G416") == []


def test_zero_gradient_of_biases_ranks_above_its_consequences() -> None:
    report = Debugger.of(setup_of(network_with_biases(nn.ReLU(), -9.0))).checkup()
    assert next(finding.code for finding in report) == "G416"
    assert "M307" in [finding.code for finding in report]


def loss_of_rounded(output: Tensor, target: Tensor) -> Tensor:
    share = torch.round(torch.sigmoid(output))
    return (share - target).square().mean()


ROUNDED: dict[str, tuple[Setup, str, int]] = {
    "in the loss": (
        minimal_setup(network(1), X, X[:, :1], loss_of_rounded),
        "share = torch.sigmoid(output)",
        1,
    ),
    "inside the model": (setup_of(HiddenFunction(torch.round)), "x = x + (x.round() - x).detach()", 0),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_zero_gradient_of_rounding_is_one_finding_that_leaves_it_out_behind_all_parameters(name: str) -> None:
    setup, fix, edits = ROUNDED[name]
    debugger = Debugger.of(setup)
    debugger.checkup()
    optimizer = torch.optim.SGD(setup.model.parameters(), 0.1)
    with debugger.watch():
        for _ in range(3):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                setup.loss_fn(setup.model(x), y).backward()
                optimizer.step()
    (finding,) = (finding for finding in debugger.findings if finding.code == "G416")
    assert fix in finding.fix
    assert len(finding.edits) == edits


class BidirectionalClassifier(nn.Module):
    """A recurrent layer that reads both ways; ``reading`` takes a part of its output."""

    def __init__(self, layer: type[nn.RNNBase], reading: str) -> None:
        super().__init__()
        self.layer, self.reading = layer(4, 6, batch_first=True, bidirectional=True), reading
        self.head = nn.Linear(6 if reading == "one state" else 12, 3)

    def forward(self, x: Tensor) -> Tensor:
        output, state = self.layer(x)
        hidden = state[0] if isinstance(state, tuple) else state
        if self.reading == "one state":
            return self.head(hidden[-1])
        if self.reading == "last position":
            return self.head(output[:, -1])
        return self.head(torch.cat([hidden[-2], hidden[-1]], 1))


READINGS = {
    "one state": ("error", "hidden[-1]", 4, "no gradient reaches the output of the forward direction"),
    "last position": ("warning", "output[:, -1]", 1, "reads this direction after one step only"),
}


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("reading", READINGS)
def test_zero_gradient_of_direction_points_to_line_that_reads_the_other(layer: type[nn.RNNBase], reading: str) -> None:
    severity, line, count, reason = READINGS[reading]
    torch.manual_seed(0)
    x = torch.randn(64, 5, 4)
    setup = minimal_setup(BidirectionalClassifier(layer, reading), x, Y, F.cross_entropy)
    (finding,) = rule_findings(setup, "G416")
    assert finding.severity == severity
    assert len(finding.evidence["parameters"]) == count
    assert line in (finding.where.source or "")
    assert reason in finding.message
    both = minimal_setup(BidirectionalClassifier(layer, "both states"), x, Y, F.cross_entropy)
    assert rule_findings(both, "G416") == []


def ratio_to_itself(output: Tensor, target: Tensor) -> Tensor:
    new = output.log_softmax(1).gather(1, target[:, None])
    old = new
    ratio = (new - old).exp()
    return -(ratio * (target[:, None] - 1.0)).mean()


def test_gradients_that_cancel_are_named_where_the_terms_meet() -> None:
    (finding,) = rule_findings(setup_of(network(3), ratio_to_itself), "G416")
    assert "gradients whose sum is zero" in finding.message
    assert "ratio = (new - old).exp()" in str(finding.where.source)
    assert "cancel" in finding.cause


@pytest.mark.parametrize("writes", [True, False])
def test_model_that_returns_the_target_of_the_loss(*, writes: bool) -> None:
    model, targets = nn.Linear(4, 3), torch.randn(64, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    debugger = Debugger.of(minimal_setup(model, X, targets, nn.MSELoss(), optimizers=(optimizer,)))
    with debugger.watch(final_tests=False):
        for _ in range(8):
            for x, y in debugger.setup.train_loader:
                optimizer.zero_grad()
                written = y if writes else y.clone()
                written[:] = model(x)
                nn.functional.mse_loss(written, y).backward()
                optimizer.step()
    causes = [finding.cause for finding in debugger.findings if finding.code == "G416"]
    assert ["one tensor" in cause for cause in causes] == [True] * writes
