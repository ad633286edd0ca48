"""Tests of G415: samples that become alike in a hidden layer, and samples that only seem to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import network
from nbdebug.rules.signal.collapsed_representation import bad
from nbdebug.setup import Setup
from tests.rules.model.networks import zero_head_network
from tests.rules.rule_findings import checkup_findings, setup_builder


class DeepNetwork(nn.Module):
    """Twenty narrow layers, with skip connections if ``skip``."""

    def __init__(self, skip: bool = False, width: int = 12, norm: type[nn.Module] = nn.Identity) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.head = nn.Linear(4, width), nn.Linear(width, 3)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(20))
        norms = [nn.Identity() if norm is nn.Identity else norm(width) for _ in self.layers]
        self.norms, self.skip = nn.ModuleList(norms), skip

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.relu(norm(layer(x))) + (x if self.skip else 0)
        return self.head(x)


class ManualNetwork(nn.Module):
    """Parameters without modules, with weights far smaller than the biases."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.shift = nn.Parameter(1e-5 * torch.randn(8, 4)), nn.Parameter(torch.ones(8))
        self.second = nn.Parameter(torch.randn(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(F.linear(x, self.first, self.shift)), self.second)


class LastState(nn.Module):
    """A classifier of the last state of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.lstm, self.head = nn.Embedding(20, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(self.table(x))[0][:, -1])


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Conv2d(4, 4, 3, padding=1), nn.Sigmoid())]
    return nn.Sequential(nn.Conv2d(1, 4, 3), *layers, nn.Flatten(), nn.Linear(64, 3))


def tokens(padding: int) -> Tensor:
    words = torch.randint(1, 20, (64, 6), generator=torch.Generator().manual_seed(0))
    return F.pad(words, (0, padding))


def two_sigmoids() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 3))


POINTS = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
FAULTS: dict[str, tuple[Callable[[], Setup], str | None]] = {
    "sigmoids in a sequential": (bad, None),
    "module list and functional relu": (setup_builder(DeepNetwork()), "layers"),
    "bfloat16": (setup_builder(DeepNetwork().bfloat16(), POINTS.bfloat16()), "layers"),
    "convolutions": (setup_builder(convolutional(), torch.rand(64, 1, 6, 6)), None),
    "parameters without modules": (setup_builder(ManualNetwork()), None),
    "last state after padding": (setup_builder(LastState(), tokens(60)), "lstm"),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "residual": setup_builder(DeepNetwork(skip=True)),
    "batch normalization in eval mode": setup_builder(DeepNetwork(norm=nn.BatchNorm1d)),
    "zero-initialized head": setup_builder(zero_head_network()),
    "last state without padding": setup_builder(LastState(), tokens(0)),
    "samples that hardly differ": setup_builder(network(3), 300 + 1e-3 * POINTS),
    "two sigmoids": setup_builder(two_sigmoids()),
}


@pytest.mark.parametrize("name", FAULTS)
def test_collapsed_representation_of_similar_samples_is_reported_at_layer(name: str) -> None:
    build, module = FAULTS[name]
    (finding,) = checkup_findings(build(), "G415")
    assert module is None or (finding.where.module or "").startswith(module)
    assert finding.evidence["apart"][-1] <= 2**-11


@pytest.mark.parametrize("name", HEALTHY)
def test_collapsed_representation_ignores_distinct_samples(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "G415") == []
