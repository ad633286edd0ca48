"""Tests of G403 and G411 on deep models with weight decay: which of the two is the cause."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug import Debugger
from nbdebug.finding import Finding
from tests.rules.rule_findings import own_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(256, 20, generator=GENERATOR)
Y = (X[:, :4].sum(1) > 0).long()


class Convolutions(nn.Module):
    """Means over the neighbors of a ring, each with a linear map."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(20 if i == 0 else 32, 32) for i in range(depth))
        self.head = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.maps:
            mapped = layer(x)
            x = torch.relu((mapped + mapped.roll(1, 0) + mapped.roll(-1, 0)) / 3)
        return self.head(x)


def stacked(activation: Callable[[], nn.Module], depth: int, *, fits: bool = False) -> nn.Sequential:
    """Return a plain stack of layers; with ``fits``, its weights keep the size of the activations."""
    pairs = ([nn.Linear(20 if i == 0 else 32, 32), activation()] for i in range(depth))
    model = nn.Sequential(*(module for pair in pairs for module in pair), nn.Linear(32, 2))
    for layer in model if fits else ():
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    return model


def explanations(model: Callable[[], nn.Module], decay: float, rate: float = 1e-2) -> dict[str, Finding]:
    """Return the findings of a watched run by their code, as the rules state them."""
    torch.manual_seed(0)
    network, loss_fn = model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay)
    loader = DataLoader(TensorDataset(X, Y), batch_size=64, shuffle=True)
    debugger = Debugger(network, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(every=5, final_tests=False):
        for _ in range(50):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(network(x), y).backward()
                optimizer.step()
    return {code: finding for code in ("G403", "G410", "G411") for finding in own_findings(debugger, code)[:1]}


TOO_DEEP: dict[str, tuple[Callable[[], nn.Module], float]] = {
    "sigmoid": (lambda: stacked(nn.Sigmoid, 10), 1e-3),
    "tanh": (lambda: stacked(nn.Tanh, 20), 1e-3),
    "ReLU": (lambda: stacked(nn.ReLU, 20), 5e-4),
    "strong decay": (lambda: stacked(nn.ReLU, 20), 1e-2),
    "means of neighbors": (lambda: Convolutions(16), 5e-4),
}


@pytest.mark.parametrize("name", TOO_DEEP)
def test_vanishing_gradient_explains_weights_that_shrank(name: str) -> None:
    findings = explanations(*TOO_DEEP[name])
    assert {"G411", "G410"} <= set(findings["G403"].explains)
    assert "G403" not in findings["G411"].explains
    assert findings["G403"].cause.endswith("Smaller weights shrink the gradient further.")


TOO_STRONG: dict[str, tuple[Callable[[], nn.Module], float]] = {
    "shallow": (lambda: stacked(nn.ReLU, 3), 1.0),
    "shallow sigmoid": (lambda: stacked(nn.Sigmoid, 2), 1.0),
    "deep with fitting weights": (lambda: stacked(nn.ReLU, 12, fits=True), 0.1),
    "deeper with fitting weights": (lambda: stacked(nn.ReLU, 20, fits=True), 0.1),
}


@pytest.mark.parametrize("name", TOO_STRONG)
def test_decay_above_all_gradients_is_the_cause(name: str) -> None:
    findings = explanations(*TOO_STRONG[name])
    assert "G403" in findings["G411"].explains
    assert "G403" not in findings or "G411" not in findings["G403"].explains
    assert "Weight decay" in findings["G411"].cause
