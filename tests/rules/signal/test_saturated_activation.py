"""Tests of G402: saturated activations and attention, and gates and masks that are saturated by design."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import is_consequence
from nbdebug.rules.examples import points
from tests.rules.rule_findings import checkup_findings, setup_builder

SERIES = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(2))
Y = points()[1]


class ScaledAttention(nn.Module):
    """Manual attention with ``scale`` and ``mask`` for its scores."""

    def __init__(self, width: int, scale: float, mask: Callable[[Tensor], Tensor] = lambda scores: scores) -> None:
        super().__init__()
        self.query, self.key, self.head = nn.Linear(4, width), nn.Linear(4, width), nn.Linear(4, 3)
        self.scale, self.mask = scale, mask

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) * self.scale
        weights = torch.softmax(self.mask(scores), dim=-1)
        return self.head((weights @ x).mean(1))


def large_weights(layer: nn.Linear) -> nn.Linear:
    nn.init.normal_(layer.weight, std=30.0)
    return layer


def diagonal_mask(scores: Tensor) -> Tensor:
    return scores.masked_fill(~torch.eye(6, dtype=torch.bool), -torch.inf)


def closed_gate(layer: nn.Linear) -> nn.Linear:
    nn.init.constant_(layer.bias, -4.0)
    return layer


FAULTS: dict[str, tuple[nn.Module, str]] = {
    "unscaled scores": (ScaledAttention(1024, 10.0), "torch.softmax("),
    "large weights": (nn.Sequential(nn.Flatten(), large_weights(nn.Linear(24, 8)), nn.Sigmoid(), nn.Linear(8, 3)), "2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_saturated_activation_is_warning_at_its_location(name: str) -> None:
    model, location = FAULTS[name]
    (finding,) = checkup_findings(setup_builder(model, SERIES, Y)(), "G402")
    assert finding.severity == "warning"
    assert location in (finding.where.source or "") or location == finding.where.module


@pytest.mark.parametrize(
    ("layer", "scale", "cause", "fix"),
    [
        (large_weights(nn.Linear(24, 8)), 1.0, "The standard deviation of 1.weight is ", "xavier_uniform_"),
        (nn.Linear(24, 8), 300.0, "The inputs of 1 are large; its weights have a usual scale.", "Standardize"),
    ],
    ids=["weights", "inputs"],
)
def test_saturated_activation_tells_large_weights_from_large_inputs(
    layer: nn.Linear, scale: float, cause: str, fix: str
) -> None:
    model = nn.Sequential(nn.Flatten(), layer, nn.Tanh(), nn.Linear(8, 3))
    (finding,) = checkup_findings(setup_builder(model, scale * SERIES, Y)(), "G402")
    assert finding.cause.startswith(cause)
    assert fix in finding.fix


class Multiplication(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def tanh_layers(*deviations: float | None) -> nn.Sequential:
    """Return layers of 24 units with tanhs; None keeps the initialization of torch."""
    layers: list[nn.Module] = [nn.Flatten()]
    for deviation in deviations:
        layers += [nn.Linear(24, 24), nn.Tanh()]
        if deviation is not None:
            nn.init.normal_(layers[-2].get_parameter("weight"), std=deviation)
    return nn.Sequential(*layers, nn.Linear(24, 3))


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (tanh_layers(5.0, 5.0, 5.0), ["1.weight", "3.weight", "5.weight"]),
        (tanh_layers(5.0, None, 3.0), ["1.weight", "5.weight"]),
        (tanh_layers(None, 20.0), ["3.weight"]),
        (tanh_layers(4.0, None), ["1.weight"]),
    ],
    ids=["all", "two", "last", "first"],
)
def test_fix_of_saturated_activation_draws_all_large_weights(model: nn.Sequential, names: list[str]) -> None:
    (finding,) = checkup_findings(setup_builder(model, SERIES, Y)(), "G402")
    assert re.findall(r"\d\.weight", finding.fix) == names
    assert set(re.findall(r"\d\.weight", finding.cause)) == set(names)


@pytest.mark.parametrize("deviations", [(5.0, 5.0, 5.0), (5.0, None, 3.0), (None, 4.0)])
def test_saturation_in_training_is_due_to_that_before_training(deviations: tuple[float | None, ...]) -> None:
    torch.manual_seed(0)
    setup = setup_builder(tanh_layers(*deviations), SERIES, Y)()
    debugger = Debugger.of(setup)
    debugger.checkup()
    with debugger.watch(final_tests=False):
        for _ in range(40):
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                nn.functional.cross_entropy(setup.model(x), y).backward()
                setup.optimizers[0].step()
    first, second = (finding for finding in debugger.findings if finding.code == "G402")
    assert is_consequence(second.code, second.aspect, first.explains)
    assert not is_consequence(first.code, first.aspect, second.explains)


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        (tanh_layers(5.0), "The initial weights are large"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(24, 24), Multiplication(300.0), *tanh_layers(None)[1:]),
            "The inputs of these activations are large, and the weights before them have hardly grown",
        ),
        (
            nn.Sequential(nn.Flatten(), Multiplication(300.0), nn.Tanh(), nn.Linear(24, 3)),
            "The inputs of these activations are large.",
        ),
    ],
    ids=["weights", "inputs", "no weights before"],
)
def test_saturation_in_training_without_checkup_tells_initial_weights_from_inputs(model: nn.Module, cause: str) -> None:
    torch.manual_seed(0)
    setup = setup_builder(model, SERIES, Y)()
    debugger = Debugger.of(setup)
    with debugger.watch(final_tests=False):
        for _ in range(40):
            for x, y in setup.train_loader:
                setup.optimizers[0].zero_grad()
                nn.functional.cross_entropy(setup.model(x), y).backward()
                setup.optimizers[0].step()
    (finding,) = [finding for finding in debugger.findings if finding.code == "G402"]
    assert finding.cause.startswith(cause)


HEALTHY: dict[str, nn.Module] = {
    "scaled scores": ScaledAttention(1024, 1 / math.sqrt(1024)),
    "attention to the same position only": ScaledAttention(8, 1.0, diagonal_mask),
    "a gate that starts closed": nn.Sequential(
        nn.Flatten(), closed_gate(nn.Linear(24, 8)), nn.Sigmoid(), nn.Linear(8, 3)
    ),
    "probabilities at the end": nn.Sequential(nn.Flatten(), large_weights(nn.Linear(24, 3)), nn.Sigmoid()),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_saturated_activation_ignores_saturation_by_design(name: str) -> None:
    assert checkup_findings(setup_builder(HEALTHY[name], SERIES, Y)(), "G402") == []
