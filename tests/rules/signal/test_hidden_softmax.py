"""Tests of G408 for a softmax between layers, and for softmaxes whose shares weight activations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp, rings, train, training_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults, rule_findings

WIDTH = 48


def images() -> tuple[Tensor, Tensor]:
    """Noisy pictures of a horizontal or a vertical bar."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (256,), generator=generator)
    x = 0.3 * torch.randn(256, 1, 6, 6, generator=generator)
    x[y == 0, :, 2] += 1
    x[y == 1, :, :, 2] += 1
    return x, y


def setup(model: nn.Module, data: tuple[Tensor, Tensor] | None = None, lr: float = 3e-3) -> Setup:
    data = data or rings()
    return training_setup(model, data, data, nn.CrossEntropyLoss(), lr=lr)


class Shares(nn.Module):
    """A softmax that is written by hand."""

    def forward(self, x: Tensor) -> Tensor:
        exponentials = (x - x.amax(1, keepdim=True)).exp()
        return exponentials / exponentials.sum(1, keepdim=True)


class Memory(nn.Module):
    """Reads a mixture of stored vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, WIDTH)
        self.values = nn.Parameter(torch.randn(WIDTH, 16))
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head((torch.softmax(self.query(x), 1) @ self.values).relu())
        return scores


class Experts(nn.Module):
    """Weights the outputs of experts by a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList([mlp(8, 16, 2, seed=i) for i in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        shares = torch.softmax(self.gate(x), 1)
        return torch.stack([shares[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts)]).sum(0)


class Attention(nn.Module):
    """Pools the values of a row by attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 16)
        self.score, self.head = nn.Linear(16, 1), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.unsqueeze(2)).relu()
        pooled: Tensor = self.head((torch.softmax(self.score(tokens), 1) * tokens).sum(1))
        return pooled


FAULTS: dict[str, Callable[[], Setup]] = {
    "module": lambda: setup(nn.Sequential(nn.Linear(8, WIDTH), nn.Softmax(dim=1), nn.Linear(WIDTH, 2))),
    "by hand, before dropout": lambda: setup(
        nn.Sequential(nn.Linear(8, WIDTH), Shares(), nn.Dropout(0.1), nn.Linear(WIDTH, 2))
    ),
    "convolutions": lambda: setup(
        nn.Sequential(
            nn.Conv2d(1, 32, 3), nn.Softmax(dim=1), nn.Conv2d(32, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)
        ),
        images(),
        lr=5e-4,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_init_scale_of_softmax_between_layers_is_reported(name: str) -> None:
    torch.manual_seed(0)
    (finding,) = rule_faults(FAULTS[name](), "G408")
    assert finding.where.module == "1"
    assert finding.evidence["loss"][1] > finding.evidence["loss with scaled input"][1]


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "memory": Memory,
    "experts": Experts,
    "attention": Attention,
    "normalized": lambda: nn.Sequential(
        nn.Linear(8, WIDTH), nn.Softmax(dim=1), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2)
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_init_scale_ignores_shares_that_weight_other_values(name: str) -> None:
    torch.manual_seed(0)
    assert rule_faults(setup(HEALTHY[name]()), "G408") == []


def test_init_scale_of_inputs_that_sum_to_one_is_not_reported() -> None:
    shares, y = torch.softmax(torch.randn(256, 8, generator=torch.Generator().manual_seed(0)), 1), rings(256)[1]
    assert rule_findings(setup(mlp(8, 16, 2), (shares, y)), "G408") == []


def test_init_scale_of_softmax_in_run_that_converges_is_note() -> None:
    torch.manual_seed(0)
    x = torch.randn(384, 8)
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.Softmax(dim=1), nn.Linear(WIDTH, 2))
    debugger = Debugger.of(setup(model, (x, (x[:, 0] > 0).long()), lr=2e-3))
    debugger.checkup(select=["G408"])
    with debugger.watch():
        train(debugger.setup, 120)
    assert [finding.severity for finding in debugger.findings if finding.code == "G408"] == ["note"]


def test_init_scale_trial_leaves_weights_as_they_are() -> None:
    torch.manual_seed(0)
    checked = FAULTS["by hand, before dropout"]()
    before, state = [p.clone() for p in checked.model.parameters()], torch.get_rng_state()
    rule_findings(checked, "G408")
    assert all(torch.equal(p, b) for p, b in zip(checked.model.parameters(), before, strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert all(p.grad is None for p in checked.model.parameters())
