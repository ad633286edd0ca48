"""Tests of M302: parameters frozen by accident are warnings, parameters frozen on purpose are notes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter, FrozenBackbone
from tests.rules.rule_findings import rule_findings

X, Y = points()


def setup_of(model: nn.Module, optimized: nn.Module | None = None) -> Setup:
    optimizer = torch.optim.SGD((optimized or model).parameters(), lr=0.1)
    return minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=(optimizer,))


class TransferClassifier(nn.Module):
    """A body, a normalization and a head, named as in transfer learning."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.fc = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.norm(self.body(x))))


class BlockStack(nn.Module):
    """Blocks in a list, some of them frozen."""

    def __init__(self, *frozen: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))
        self.head = nn.Linear(4, 3)
        for index in frozen:
            self.blocks[index].requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.head(x)


def trainable_norm_only() -> Setup:
    model = TransferClassifier().requires_grad_(False)
    model.norm.requires_grad_(True)
    return setup_of(model)


def trainable_bias_only() -> Setup:
    model = network(3)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name == "0.bias"
    return setup_of(model)


def frozen_after_optimizer() -> Setup:
    model = TransferClassifier()
    setup = setup_of(model, model.fc)
    model.fc.requires_grad_(False)
    return setup


def frozen_middle_block() -> Setup:
    return setup_of(BlockStack(2))


class FrozenAdapter(nn.Module):
    """A low-rank adapter beside a layer, frozen together with it, and a trainable head; ``size`` scales one factor."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.base, self.fc = nn.Linear(4, 16), nn.Linear(16, 3)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 16, bias=False)
        nn.init.normal_(self.up.weight, std=size)
        for part in (self.base, self.down, self.up):
            part.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.base(x).relu() + self.up(self.down(x)))


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "adapter without effect": (lambda: setup_of(FrozenAdapter(0.0)), "up"),
    "nothing but normalization learns": (trainable_norm_only, "fc"),
    "nothing but a bias learns": (trainable_bias_only, "2"),
    "one block of five": (frozen_middle_block, "blocks.2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_frozen_parameter_by_accident_is_warning_at_module(name: str) -> None:
    build, module = FAULTS[name]
    (finding,) = rule_findings(build(), "M302")
    assert finding.severity == "warning"
    assert finding.where.module == module


def test_frozen_parameter_in_optimizer_ranks_before_parameter_not_optimized() -> None:
    faults = Debugger.of(frozen_after_optimizer()).checkup().faults
    assert (faults[0].code, faults[0].severity, faults[0].where.module) == ("M302", "error", "fc")
    assert "O503" in [finding.code for finding in faults[1:]]


def prompt_tuned_network() -> nn.Module:
    class PromptTunedNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prompt, self.body = nn.Parameter(torch.zeros(1, 4)), network(3).requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x + self.prompt)

    return PromptTunedNetwork()


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "frozen backbone": FrozenBackbone,
    "low-rank adapter": Adapter,
    "trained adapter": lambda: FrozenAdapter(1.0),
    "learned prompt": prompt_tuned_network,
    "first blocks frozen": lambda: BlockStack(0, 1),
    "only the last block and the head": lambda: BlockStack(0, 1, 2, 3),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_frozen_parameter_on_purpose_is_note(name: str) -> None:
    assert [finding.severity for finding in rule_findings(setup_of(HEALTHY[name]()), "M302")] == ["note"]


def test_frozen_parameter_ignores_fully_trainable_model() -> None:
    assert rule_findings(setup_of(BlockStack()), "M302") == []


class Stages(nn.Module):
    """A trained body, and new layers on it."""

    def __init__(self, new: nn.Module, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        with torch.no_grad():
            for layer in (self.body[0], self.body[2]):
                layer.weight.add_(0.2 * torch.randn_like(layer.weight))
        self.new, self.head = new, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.new(self.body(x)))


class UnusedPooler(Stages):
    """A trained body with a frozen new layer whose result is not used."""

    def forward(self, x: Tensor) -> Tensor:
        states = self.body(x)
        self.new(states)
        return self.head(states)


def frozen(model: nn.Module, *parts: str) -> Callable[[], Setup]:
    for part in parts:
        model.get_submodule(part).requires_grad_(False)
    return lambda: setup_of(model)


def random_features() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 3))


NEW_LAYERS = {
    "linear": frozen(Stages(nn.Sequential(nn.Linear(32, 16), nn.ReLU()), 16), "body", "new"),
    "two layers": frozen(Stages(nn.Sequential(nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 16)), 16), "body", "new"),
}
NO_NEW_LAYERS = {
    "trained body": frozen(Stages(nn.Sequential(nn.Linear(32, 16), nn.ReLU()), 16), "body"),
    "new layer of another type": frozen(Stages(nn.GRUCell(32, 16), 16), "body", "new"),
    "random features": frozen(random_features(), "0", "2"),
    "result not used": frozen(UnusedPooler(nn.Linear(32, 16), 32), "body", "new"),
}


@pytest.mark.parametrize("name", NEW_LAYERS)
def test_frozen_parameter_of_new_layer_on_trained_ones_is_note(name: str) -> None:
    (finding,) = rule_findings(NEW_LAYERS[name](), "M302")
    assert finding.severity == "note"
    assert "new." in finding.message
    assert "body" not in finding.message


@pytest.mark.parametrize("name", NO_NEW_LAYERS)
def test_frozen_parameter_of_trained_or_random_layers_is_note(name: str) -> None:
    findings = rule_findings(NO_NEW_LAYERS[name](), "M302")
    assert [finding.severity for finding in findings] == ["note"]


@pytest.mark.parametrize(("frozen_part", "severity"), [("embedding", "warning"), ("", None)])
def test_frozen_parameter_of_a_model_that_learns_poorly_becomes_a_warning(
    frozen_part: str, severity: str | None
) -> None:
    torch.manual_seed(0)
    words = torch.randint(0, 300, (600, 6))
    mood = torch.randn(300)[words].sum(1, keepdim=True)
    model = nn.Sequential(nn.Embedding(300, 2), nn.Flatten(), nn.Linear(12, 1))
    model[0].requires_grad_(not frozen_part)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=0.05)
    setup = minimal_setup(model, words, (mood > 0).float(), nn.BCEWithLogitsLoss(), optimizers=(optimizer,))
    debugger = Debugger.of(setup)
    with debugger.watch():
        train(setup, 12)
    found = [finding.severity for finding in debugger.findings if finding.code == "M302"]
    assert found == ([severity] if severity else [])
