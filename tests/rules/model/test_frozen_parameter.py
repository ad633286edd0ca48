"""Tests of M302: parameters frozen by accident are warnings, parameters frozen on purpose are notes."""

from __future__ import annotations

import copy
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


class Tagger(nn.Module):
    """Embeds words, and predicts the class of their mean; a ``second`` table is added to the first."""

    def __init__(self, words: nn.Module, second: nn.Module | None = None, *, is_read: bool = True) -> None:
        super().__init__()
        self.words, self.second, self.is_read = words, second, is_read
        self.body, self.head = nn.Linear(16, 24), nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        values = self.words(x)
        if self.second is not None:
            values = values + self.second(x) * self.is_read
        values = values if values.dim() == 2 else values.mean(1)
        return self.head(self.body(values).relu())


def frozen_table(*, is_normalized: bool = False, scale: float = 1.0) -> nn.Embedding:
    values = scale * torch.randn(40, 16)
    return nn.Embedding.from_pretrained(values / values.norm(dim=1, keepdim=True) if is_normalized else values)


def frozen_part(part: nn.Module) -> nn.Module:
    return part.requires_grad_(False)


def copied_table() -> nn.Module:
    table = nn.Embedding(40, 16)
    return Tagger(table, frozen_part(copy.deepcopy(table)))


def word_setup(model: nn.Module) -> Setup:
    words = torch.randint(0, 40, (len(Y), 6), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1)
    return minimal_setup(model, words, Y, nn.CrossEntropyLoss(), optimizers=(optimizer,))


RANDOM_TABLES: dict[str, Callable[[], nn.Module]] = {
    "as if pretrained": lambda: Tagger(frozen_table()),
    "frozen after it was made": lambda: Tagger(frozen_part(nn.Embedding(40, 16))),
    "with padding": lambda: Tagger(frozen_part(nn.Embedding(40, 16, padding_idx=0))),
    "a bag": lambda: Tagger(frozen_part(nn.EmbeddingBag(40, 16))),
    "two tables": lambda: Tagger(frozen_table(), frozen_table()),
    "beside a trainable table": lambda: Tagger(nn.Embedding(40, 16), frozen_table()),
}
FIXED_TABLES: dict[str, Callable[[], nn.Module]] = {
    "word vectors": lambda: Tagger(frozen_table(scale=0.4)),
    "random codes of length one": lambda: Tagger(frozen_table(is_normalized=True)),
    "waves": lambda: Tagger(nn.Embedding.from_pretrained(torch.outer(torch.arange(40), torch.rand(16)).sin())),
    "a copy that follows": copied_table,
    "a result that is not used": lambda: Tagger(nn.Embedding(40, 16), frozen_table(), is_read=False),
    "with a random layer": lambda: Tagger(nn.Sequential(frozen_table(), frozen_part(nn.Linear(16, 16)))),
}


@pytest.mark.parametrize("name", RANDOM_TABLES)
def test_frozen_random_embedding_in_a_model_that_is_trained_is_warning(name: str) -> None:
    torch.manual_seed(0)
    (finding,) = rule_findings(word_setup(RANDOM_TABLES[name]()), "M302")
    assert finding.severity == "warning"
    assert "as random as a new one" in finding.message


@pytest.mark.parametrize("name", FIXED_TABLES)
def test_frozen_embedding_with_values_of_its_own_is_note(name: str) -> None:
    torch.manual_seed(0)
    findings = rule_findings(word_setup(FIXED_TABLES[name]()), "M302")
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
