"""G415: samples that become alike on the way, and those that only seem to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import network
from nbdebug.rules.signal.collapsed_representation import bad
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, setup_builder


class Deep(nn.Module):
    """Twenty narrow layers; ``skip`` adds what went in to what comes out."""

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


class ByHand(nn.Module):
    """Weights that are far smaller than the biases, without any module."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.shift = nn.Parameter(1e-5 * torch.randn(8, 4)), nn.Parameter(torch.ones(8))
        self.second = nn.Parameter(torch.randn(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(F.linear(x, self.first, self.shift)), self.second)


class LastStep(nn.Module):
    """A recurrent layer of which only the last state is used."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.lstm, self.head = nn.Embedding(20, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(self.table(x))[0][:, -1])


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    layers = [one for _ in range(12) for one in (nn.Conv2d(4, 4, 3, padding=1), nn.Sigmoid())]
    return nn.Sequential(nn.Conv2d(1, 4, 3), *layers, nn.Flatten(), nn.Linear(64, 3))


def tokens(padding: int) -> Tensor:
    drawn = torch.randint(1, 20, (64, 6), generator=torch.Generator().manual_seed(0))
    return F.pad(drawn, (0, padding))


def zero_head() -> nn.Module:
    model = network(3)
    nn.init.zeros_(model.get_parameter("2.weight"))
    return model


def two_sigmoids() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 3))


POINTS = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
FAULTS: dict[str, tuple[Callable[[], Setup], str | None]] = {
    "sigmoids in a sequential": (bad, None),
    "module list and functional relu": (setup_builder(Deep()), "layers"),
    "bfloat16": (setup_builder(Deep().bfloat16(), POINTS.bfloat16()), "layers"),
    "convolutions": (setup_builder(convolutional(), torch.rand(64, 1, 6, 6)), None),
    "parameters by hand": (setup_builder(ByHand()), None),
    "last state after padding": (setup_builder(LastStep(), tokens(60)), "lstm"),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "residual": setup_builder(Deep(skip=True)),
    "batch normalization in eval mode": setup_builder(Deep(norm=nn.BatchNorm1d)),
    "a head of zeros": setup_builder(zero_head()),
    "last state without padding": setup_builder(LastStep(), tokens(0)),
    "samples that hardly differ": setup_builder(network(3), 300 + 1e-3 * POINTS),
    "two sigmoids": setup_builder(two_sigmoids()),
}


@pytest.mark.parametrize("name", FAULTS)
def test_samples_that_become_alike_are_found(name: str) -> None:
    build, module = FAULTS[name]
    (one,) = checkup_findings(build(), "G415")
    assert module is None or (one.where.module or "").startswith(module)
    assert one.evidence["apart"][-1] <= 2**-11


@pytest.mark.parametrize("name", HEALTHY)
def test_samples_that_stay_apart_draw_nothing(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "G415") == []
