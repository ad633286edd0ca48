"""G408: signals that grow or shrink with depth because of how the weights were drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup

X = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def found(model: nn.Module, x: Tensor = X, loss: Callable[..., Tensor] = F.cross_entropy) -> list[Finding]:
    setup = minimal_setup(model, x, Y, loss)
    return [one for one in Debugger.of(setup).checkup(select=["G408"]) if one.code == "G408"]


def plain(depth: int, act: Callable[[], nn.Module] = nn.ReLU, norm: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(16, 16), *([nn.LayerNorm(16)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Linear(16, 2))


def drawn(model: nn.Module, draw: Callable[[Tensor], object]) -> nn.Module:
    """A model whose matrices and kernels are drawn anew, with biases of zero."""
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)) and layer.bias is not None:
            draw(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


class Residual(nn.Module):
    """Branches that are added, which make the sum grow a little with each."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(depth)])
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = x + branch(x)
        scores: Tensor = self.head(x)
        return scores


class Pictures(nn.Module):
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
    "standard normal": (lambda: drawn(plain(11), lambda p: nn.init.normal_(p)), "activations grow"),
    "uniform in 0 to 1": (lambda: drawn(plain(6), lambda p: nn.init.uniform_(p)), "activations grow"),
    "kernels of one": (lambda: drawn(Pictures(), lambda p: nn.init.normal_(p, std=1.5)), "activations grow"),
    "standard normal, of a few layers": (
        lambda: drawn(plain(4), lambda p: nn.init.normal_(p, std=1.3)),
        "activations grow",
    ),
    "a hundredth": (lambda: drawn(plain(6), lambda p: nn.init.normal_(p, std=0.01)), "activations shrink"),
    "tiny kernels": (lambda: drawn(Pictures(), lambda p: nn.init.normal_(p, std=0.01)), "activations shrink"),
    "tiny without a kink": (
        lambda: drawn(plain(6, nn.Tanh), lambda p: nn.init.uniform_(p, -0.02, 0.02)),
        "activations shrink",
    ),
}


class Recurrent(nn.Module):
    """A recurrent layer over sixty-four sequences, its recurrent weights an orthogonal matrix times a gain."""

    def __init__(self, gain: float, cell: bool = False) -> None:
        super().__init__()
        given = {"nonlinearity": "relu"}
        self.rnn: nn.Module = nn.RNNCell(1, 16, **given) if cell else nn.RNN(1, 16, batch_first=True, **given)
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
def test_a_recurrent_state_that_grows_with_every_step(cell: bool) -> None:
    (one,) = found(Recurrent(2.5, cell))
    assert one.where.module == "rnn"
    assert "32 steps" in one.message
    assert not found(Recurrent(1.0, cell))


@pytest.mark.parametrize("name", FAULTS)
def test_weights_drawn_out_of_scale(name: str) -> None:
    build, way = FAULTS[name]
    (one,) = found(build())
    assert way in one.message
    assert one.severity == "warning"
    assert one.where.module is not None


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "torch's own, deep": lambda: plain(12),
    "torch's own, tanh": lambda: plain(10, nn.Tanh),
    "he": lambda: drawn(plain(12), lambda p: nn.init.kaiming_normal_(p, nonlinearity="relu")),
    "he, of a few layers": lambda: drawn(plain(4), lambda p: nn.init.kaiming_normal_(p)),
    "xavier": lambda: drawn(plain(8, nn.Tanh), lambda p: nn.init.xavier_uniform_(p)),
    "normalized, whatever is drawn": lambda: drawn(plain(8, norm=True), lambda p: nn.init.normal_(p)),
    "residual": lambda: Residual(8),
    "convolutions": Pictures,
    "two layers out of scale": lambda: drawn(plain(1), lambda p: nn.init.normal_(p)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_sound_scales_are_quiet(name: str) -> None:
    assert not found(HEALTHY[name]())


def test_layer_norm_parameters_survive_the_draw() -> None:
    """The healthy normalized network must have been drawn out of scale, or it would show nothing."""
    model = HEALTHY["normalized, whatever is drawn"]()
    assert float(next(model.parameters()).std()) > 0.8


def test_a_transformer_is_quiet() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    model = nn.Sequential(nn.Unflatten(1, (4, 4)), nn.Linear(4, 16), body, nn.Flatten(), nn.Linear(64, 2))
    assert not found(model)


class Unrolled(nn.Module):
    """A cell over the steps of a sequence, of which the first is the same for all samples."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(9, 16), nn.GRUCell(16, 16), nn.Linear(16, 3)

    def forward(self, words: Tensor) -> Tensor:
        state = torch.zeros(len(words), 16)
        for word in self.embed(words).unbind(1):
            state = self.cell(word, state)
        return self.head(state)


def test_samples_that_begin_alike_are_no_growth() -> None:
    words = torch.randint(1, 9, (64, 6), generator=torch.Generator().manual_seed(0))
    words[:, 0] = 0
    report = Debugger.of(minimal_setup(Unrolled(), words, words[:, 1] % 3, nn.CrossEntropyLoss())).checkup(
        select=["G408"]
    )
    assert list(report) == []
