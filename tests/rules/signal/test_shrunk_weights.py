"""Tests of G403 and G411: on deep models with weight decay, which is the cause, and weights that a loop shrinks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
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


LOSSES = {"classes": (nn.CrossEntropyLoss(), Y), "values": (nn.MSELoss(), X[:, :2] * 2 - X[:, 2:4])}
Weights = list[nn.Parameter]


def no_penalty(weights: Weights) -> Tensor:
    return torch.zeros(())


def absolute(factor: float) -> Callable[[Weights], Tensor]:
    return lambda weights: factor * sum((w.abs().sum() for w in weights), torch.zeros(()))


def squared(factor: float) -> Callable[[Weights], Tensor]:
    return lambda weights: factor * sum((w.square().sum() for w in weights), torch.zeros(()))


def no_change(weights: Weights) -> None:
    pass


def clamp(bound: float) -> Callable[[Weights], None]:
    return lambda weights: [w.clamp_(-bound, bound) for w in weights] and None


def scale(factor: float) -> Callable[[Weights], None]:
    return lambda weights: [w.mul_(factor) for w in weights] and None


def soft_threshold(width: float) -> Callable[[Weights], None]:
    return lambda weights: [w.copy_(F.softshrink(w, width)) for w in weights] and None


def normalize_rows(weights: Weights) -> None:
    for weight in weights:
        if weight.dim() > 1:
            weight.div_(weight.norm(dim=1, keepdim=True))


def shrinkage_findings(
    penalty: Callable[[Weights], Tensor], change: Callable[[Weights], None], kind: str, *, shuffled: bool = False
) -> list[Finding]:
    """Return the findings of G411 on a loop that adds a penalty to the loss and changes weights after each step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    loss_fn, targets = LOSSES[kind]
    targets = targets[torch.randperm(len(targets))] if shuffled else targets
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(X, targets), batch_size=64, shuffle=True)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=False):
        for _ in range(25):
            for x, y in loader:
                optimizer.zero_grad()
                (loss_fn(model(x), y) + penalty([*model.parameters()])).backward()
                optimizer.step()
                with torch.no_grad():
                    change([*model.parameters()])
    return own_findings(debugger, "G411")


SHRINKING = {
    "absolute weights": (absolute(1.0), no_change, "classes"),
    "absolute weights in a regression": (absolute(1.0), no_change, "values"),
    "squared weights": (squared(1.0), no_change, "classes"),
    "a clamp": (no_penalty, clamp(0.01), "classes"),
    "a factor": (no_penalty, scale(0.5), "values"),
    "a soft threshold": (no_penalty, soft_threshold(0.02), "classes"),
}
LEARNING = {
    "a small penalty": (absolute(1e-4), no_change, "classes"),
    "a penalty that makes the weights sparse": (absolute(3e-3), no_change, "classes"),
    "a small penalty in a regression": (squared(1e-4), no_change, "values"),
    "a wide clamp": (no_penalty, clamp(0.3), "classes"),
    "rows of length one": (no_penalty, normalize_rows, "values"),
    "a factor near one": (no_penalty, scale(0.999), "classes"),
}


@pytest.mark.parametrize("name", SHRINKING)
def test_weights_of_all_layers_shrink_while_nothing_is_learned(name: str) -> None:
    (finding,) = shrinkage_findings(*SHRINKING[name])
    assert "outside the optimizer" in finding.cause
    assert "T607" in finding.explains


@pytest.mark.parametrize("name", LEARNING)
def test_small_weights_of_a_model_that_learns_are_not_reported(name: str) -> None:
    assert shrinkage_findings(*LEARNING[name]) == []


def test_labels_that_cannot_be_learned_do_not_shrink_weights() -> None:
    assert shrinkage_findings(no_penalty, no_change, "classes", shuffled=True) == []
    assert shrinkage_findings(squared(1e-3), no_change, "values", shuffled=True) == []
