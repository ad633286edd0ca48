"""Tests of G408: activations that grow or decay with depth at initialization, and sound initializations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, train, training_setup
from tests.rules.rule_findings import rule_faults, rule_findings

X = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def findings(model: nn.Module) -> list[Finding]:
    setup = minimal_setup(model, X, Y, F.cross_entropy)
    return rule_findings(setup, "G408")


def mlp(depth: int, act: Callable[[], nn.Module] = nn.ReLU, norm: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(16, 16), *([nn.LayerNorm(16)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Linear(16, 2))


def reinitialize(model: nn.Module, initialize: Callable[[Tensor], object]) -> nn.Module:
    """Reinitialize the matrices and kernels of a model, and set the biases to zero."""
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)) and layer.bias is not None:
            initialize(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


class ResidualNetwork(nn.Module):
    """Residual branches, each of which increases the sum slightly."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(depth)])
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = x + branch(x)
        scores: Tensor = self.head(x)
        return scores


class ConvNet(nn.Module):
    """Convolutions in functional style, without normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(1 if n == 0 else 8, 8, 3, padding=1) for n in range(6)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(-1, 1, 4, 4)
        for conv in self.convs:
            x = F.relu(conv(x))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


FAULTS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "standard normal": (lambda: reinitialize(mlp(11), lambda p: nn.init.normal_(p)), "activations grow"),
    "uniform in 0 to 1": (lambda: reinitialize(mlp(6), lambda p: nn.init.uniform_(p)), "activations grow"),
    "large kernels": (lambda: reinitialize(ConvNet(), lambda p: nn.init.normal_(p, std=1.5)), "activations grow"),
    "wide normal, few layers": (
        lambda: reinitialize(mlp(4), lambda p: nn.init.normal_(p, std=1.3)),
        "activations grow",
    ),
    "normal with std 0.01": (
        lambda: reinitialize(mlp(6), lambda p: nn.init.normal_(p, std=0.01)),
        "activations shrink",
    ),
    "small kernels": (lambda: reinitialize(ConvNet(), lambda p: nn.init.normal_(p, std=0.01)), "activations shrink"),
    "small uniform, tanh": (
        lambda: reinitialize(mlp(6, nn.Tanh), lambda p: nn.init.uniform_(p, -0.02, 0.02)),
        "activations shrink",
    ),
}


class OrthogonalRecurrent(nn.Module):
    """A recurrent layer over sequences of 32 steps, with orthogonal recurrent weights times a gain."""

    def __init__(self, gain: float, cell: bool = False) -> None:
        super().__init__()
        options = {"nonlinearity": "relu"}
        self.rnn: nn.Module = nn.RNNCell(1, 16, **options) if cell else nn.RNN(1, 16, batch_first=True, **options)
        nn.init.orthogonal_(next(p for n, p in self.rnn.named_parameters() if n.startswith("weight_hh")), gain)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.repeat(1, 2).unsqueeze(2)
        state = torch.zeros(len(x), 16)
        if isinstance(self.rnn, nn.RNN):
            return self.head(self.rnn(steps)[0][:, -1])
        for step in steps.unbind(1):
            state = self.rnn(step, state)
        return self.head(state)


@pytest.mark.parametrize("cell", [False, True])
def test_init_scale_of_growing_recurrent_state_is_reported_at_module(cell: bool) -> None:
    (finding,) = findings(OrthogonalRecurrent(2.5, cell))
    assert finding.where.module == "rnn"
    assert "32 steps" in finding.message
    assert not findings(OrthogonalRecurrent(1.0, cell))


@pytest.mark.parametrize("name", FAULTS)
def test_init_scale_of_badly_scaled_weights_is_warning(name: str) -> None:
    build, direction = FAULTS[name]
    (finding,) = findings(build())
    assert direction in finding.message
    assert finding.severity == "warning"
    assert finding.where.module is not None


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return nn.Sequential(nn.Unflatten(1, (4, 4)), nn.Linear(4, 16), body, nn.Flatten(), nn.Linear(64, 2))


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "torch default, deep": lambda: mlp(12),
    "torch default, tanh": lambda: mlp(10, nn.Tanh),
    "he": lambda: reinitialize(mlp(12), lambda p: nn.init.kaiming_normal_(p, nonlinearity="relu")),
    "he, few layers": lambda: reinitialize(mlp(4), lambda p: nn.init.kaiming_normal_(p)),
    "xavier": lambda: reinitialize(mlp(8, nn.Tanh), lambda p: nn.init.xavier_uniform_(p)),
    "layer norm, out of scale": lambda: reinitialize(mlp(8, norm=True), lambda p: nn.init.normal_(p)),
    "residual": lambda: ResidualNetwork(8),
    "convolutions": ConvNet,
    "transformer": transformer,
}


@pytest.mark.parametrize("name", HEALTHY)
def test_init_scale_ignores_sound_initializations(name: str) -> None:
    assert not findings(HEALTHY[name]())


def test_reinitialize_of_normalized_network_puts_weights_out_of_scale() -> None:
    """The normalized network is a useful case only if its weights are out of scale."""
    model = HEALTHY["layer norm, out of scale"]()
    assert float(next(model.parameters()).std()) > 0.8


class UnrolledCell(nn.Module):
    """A recurrent cell that is unrolled over a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(9, 16), nn.GRUCell(16, 16), nn.Linear(16, 3)

    def forward(self, words: Tensor) -> Tensor:
        state = torch.zeros(len(words), 16)
        for word in self.embed(words).unbind(1):
            state = self.cell(word, state)
        return self.head(state)


def test_init_scale_ignores_samples_with_equal_first_step() -> None:
    words = torch.randint(1, 9, (64, 6), generator=torch.Generator().manual_seed(0))
    words[:, 0] = 0
    assert rule_findings(minimal_setup(UnrolledCell(), words, words[:, 1] % 3, nn.CrossEntropyLoss()), "G408") == []


def scaled(model: nn.Module, factor: float) -> nn.Module:
    """Multiply every parameter of a model."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    return model


@pytest.mark.parametrize(
    "model",
    [
        scaled(mlp(1), 0.01),
        scaled(mlp(3, nn.Tanh, norm=True), 0.01),
        scaled(nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(32, 2)), 0.01),
    ],
    ids=["one hidden layer", "scaled normalization", "convolution"],
)
def test_tiny_weights_in_every_layer_are_reported_at_any_depth(model: nn.Module) -> None:
    (finding,) = findings(model)
    assert "tiny" in finding.message


@pytest.mark.parametrize(
    "model",
    [
        mlp(1),
        scaled(mlp(1), 0.1),
        reinitialize(mlp(2), lambda weight: nn.init.normal_(weight, std=0.01)),
        reinitialize(mlp(2, norm=True), lambda weight: nn.init.normal_(weight, std=0.001)),
    ],
    ids=["default", "a tenth", "normal 0.01", "normalized"],
)
def test_small_or_normalized_weights_are_no_tiny_weights(model: nn.Module) -> None:
    assert findings(model) == []


@pytest.mark.parametrize(("lr", "epochs", "expected"), [(1e-4, 10, True), (3e-2, 40, False)])
def test_tiny_weights_are_withdrawn_if_the_run_learns_well(lr: float, epochs: int, expected: bool) -> None:
    torch.manual_seed(0)
    model = scaled(mlp(1), 0.01)
    setup = training_setup(model, (X, Y), (X, Y), nn.CrossEntropyLoss(), lr=lr)
    debugger = Debugger.of(setup)
    debugger.checkup(select=["G408"])
    with debugger.watch(final_tests=False):
        train(setup, epochs)
    assert ("G408" in {finding.code for finding in debugger.findings}) == expected


def scaled_norms(initialize: Callable[[Tensor], object]) -> nn.Module:
    """A network whose normalization layers have other scales than 1."""
    torch.manual_seed(0)
    model = mlp(4, norm=True)
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm):
            initialize(layer.weight)
    return model


def test_scales_of_normalization_layers_around_zero_are_reported() -> None:
    (finding,) = findings(scaled_norms(lambda scale: nn.init.normal_(scale, 0.0, 0.02)))
    assert finding.message.startswith("The scales of all 4 normalization layers are random numbers around zero")
    assert finding.where.module == "1"


@pytest.mark.parametrize(
    "initialize",
    [
        lambda scale: nn.init.normal_(scale, 1.0, 0.02),
        lambda scale: nn.init.constant_(scale, 0.1),
        nn.init.zeros_,
        lambda scale: nn.init.normal_(scale, 0.0, 1.0),
    ],
    ids=["around one", "small and positive", "zero", "large and random"],
)
def test_other_scales_of_normalization_layers_are_no_fault(initialize: Callable[[Tensor], object]) -> None:
    assert not [finding for finding in findings(scaled_norms(initialize)) if "normalization" in finding.message]


def test_two_normalization_layers_are_both_of_them() -> None:
    torch.manual_seed(0)
    model = mlp(2, norm=True)
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm):
            nn.init.normal_(layer.weight, 0.0, 0.02)
    (finding,) = findings(model)
    assert finding.message.startswith("The scales of both normalization layers are random numbers around zero")


@pytest.mark.parametrize(
    ("make", "is_reported"),
    [
        (lambda: scaled(mlp(1), 12.0), True),
        (lambda: reinitialize(mlp(1), lambda weight: nn.init.normal_(weight)), True),
        (lambda: scaled(mlp(1), 2.0), False),
        (lambda: mlp(1), False),
    ],
    ids=["times 12", "normal", "times 2", "default"],
)
def test_large_weights_of_few_layers_are_reported_if_new_ones_learn_more(
    make: Callable[[], nn.Module], is_reported: bool
) -> None:
    torch.manual_seed(0)
    setup = training_setup(make(), (X, Y), (X, Y), nn.CrossEntropyLoss(), lr=3e-3)
    found = rule_faults(setup, "G408")
    assert len(found) == is_reported
    if found:
        assert found[0].message.startswith("The weights of both layers are large")
        losses, renewed = found[0].evidence["loss"], found[0].evidence["loss with new weights"]
        start = min(losses[0], renewed[0])
        assert start - losses[1] < 0.5 * (start - renewed[1])


def test_large_weights_that_have_learned_are_not_reported() -> None:
    torch.manual_seed(0)
    setup = training_setup(scaled(mlp(1), 12.0), (X, Y), (X, Y), nn.CrossEntropyLoss(), lr=3e-2)
    train(setup, 60)
    assert rule_faults(setup, "G408") == []
