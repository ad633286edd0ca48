"""Tests of G407: units that stay equal, and units that are equal only at the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.healthy_models import Adapter
from tests.rules.rule_findings import rule_findings

X, Y = points()


def setup_of(model: nn.Module, x: Tensor = X, y: Tensor = Y) -> Setup:
    return minimal_setup(model, x, y, nn.CrossEntropyLoss())


def fill(model: nn.Module, value: float, name_part: str = "") -> nn.Module:
    for name, parameter in model.named_parameters():
        if name_part in name:
            nn.init.constant_(parameter, value)
    return model


class LastState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])


class ManualNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(8, 4)), nn.Parameter(torch.zeros(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.first.T) @ self.second.T


def convolutional(value: float) -> nn.Module:
    return fill(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), value)


class Factors(nn.Module):
    """Matrix factorization; ``x`` holds the indices of a user and an item."""

    def __init__(self, user_values: Tensor, item_values: Tensor) -> None:
        super().__init__()
        self.users = nn.Embedding.from_pretrained(user_values, freeze=False)
        self.items, self.bias = nn.Parameter(item_values), nn.Embedding(len(user_values), 1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, x: Tensor) -> Tensor:
        users, items = self.users(x[:, 0]), self.items[x[:, 1]]
        return (users * items).sum(1, keepdim=True) + self.bias(x[:, 0])


class FactorsOfTower(nn.Module):
    """Tables that a network of constants reads, in a bag of the items of one user."""

    def __init__(self, value: float | None) -> None:
        super().__init__()
        self.items = nn.EmbeddingBag(40, 6)
        self.gain = nn.Parameter(torch.ones(1))
        nn.init.constant_(self.items.weight, 0.2)
        self.out = nn.Linear(6, 1)
        if value is not None:
            nn.init.constant_(self.out.weight, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.items(x) * self.gain)


class GatedCell(nn.Module):
    """A recurrent cell with two stacked matrices, made by ``torch.empty``."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u = nn.Parameter(torch.empty(2, 4, 6)), nn.Parameter(torch.empty(2, 6, 6))
        self.b, self.head = nn.Parameter(torch.zeros(2, 6)), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 6)
        for _ in range(3):
            gate = torch.sigmoid(x @ self.w[0] + h @ self.u[0] + self.b[0])
            h = h + gate * (torch.tanh(x @ self.w[1] + h @ self.u[1] + self.b[1]) - h)
        return self.head(h)


def evenly_filled_cell() -> Setup:
    model = GatedCell()
    for weight in model.parameters():
        nn.init.constant_(weight, 0.07)
    return setup_of(model)


PAIRS = torch.stack([torch.arange(64) % 20, torch.arange(64) % 13], 1)
RATINGS = torch.randn(64, 1, generator=torch.Generator().manual_seed(0))


def constant_factors() -> nn.Module:
    return Factors(torch.full((20, 4), 0.1), torch.full((13, 4), 0.1))


def recommender(model: nn.Module) -> Setup:
    return minimal_setup(model, PAIRS, RATINGS, nn.MSELoss())


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "constant": (lambda: setup_of(fill(network(3), 0.1)), "0.weight"),
    "zero": (lambda: setup_of(fill(network(3), 0.0)), "0.weight"),
    "zero in bfloat16": (lambda: setup_of(fill(network(3), 0.0).bfloat16(), X.bfloat16()), "0.weight"),
    "convolution": (lambda: setup_of(convolutional(0.01), torch.rand(64, 1, 6, 6)), "0.weight"),
    "stacked matrices": (evenly_filled_cell, "w"),
    "recurrent": (lambda: setup_of(fill(LastState(), 0.05)), "lstm.weight_ih_l0"),
    "parameters without modules": (lambda: setup_of(ManualNetwork()), "first"),
    "factors in an embedding": (lambda: recommender(constant_factors()), "users.weight"),
    "factors in a parameter": (lambda: recommender(constant_factors()), "items"),
    "bag before equal weights": (lambda: recommender(FactorsOfTower(0.3)), "items.weight"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_symmetric_weights_of_equal_units_are_reported_at_parameter(name: str) -> None:
    build, parameter = FAULTS[name]
    assert parameter in {finding.where.parameter for finding in rule_findings(build(), "G407")}


def test_symmetric_weights_of_a_cell_name_all_matrices_and_draw_values_instead_of_leaving_memory() -> None:
    (finding,) = rule_findings(evenly_filled_cell(), "G407")
    assert finding.evidence["others"] == ["u", "b"]
    assert [edit.text for edit in finding.edits] == ["nn.init.normal_(weight, std=0.1)"]
    assert "the rule no longer reports it" in finding.trial


class ThinProduct(nn.Module):
    """A frozen layer with a product of two matrices beside it, of which some start at zero."""

    def __init__(self, inputs: int, outputs: int, zeros: tuple[str, ...]) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(2, inputs)), nn.Parameter(torch.randn(outputs, 2))
        for name in zeros:
            nn.init.zeros_(self.get_parameter(name))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T


class ThinLayers(nn.Module):
    """The same sum, with the thin matrices in layers of their own."""

    def __init__(self, inputs: int, outputs: int, zeros: tuple[str, ...]) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.down, self.up = nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)
        if "down" in zeros:
            nn.init.zeros_(self.down.weight)
        if "up" in zeros:
            nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


PRODUCTS = (ThinProduct, ThinLayers)


def adapted(kind: type[ThinProduct] | type[ThinLayers], *zeros: str) -> Setup:
    return setup_of(nn.Sequential(kind(4, 8, zeros), nn.ReLU(), kind(8, 3, zeros)))


def test_symmetric_weights_of_products_of_two_zeros_are_one_finding_that_starts_one_factor() -> None:
    (finding,) = rule_findings(adapted(ThinProduct, "down", "up"), "G407")
    assert finding.evidence["parameters"] == ["0.down", "0.up", "2.down", "2.up"]
    assert "'0.down'" in finding.fix
    assert "'2.down'" in finding.fix
    assert "up'" not in finding.fix
    assert "the rule no longer reports it" in finding.trial


def test_symmetric_weights_of_products_of_two_layers_change_the_line_of_the_first() -> None:
    (finding,) = rule_findings(adapted(ThinLayers, "down", "up"), "G407")
    assert finding.evidence["parameters"] == ["0.down.weight", "0.up.weight", "2.down.weight", "2.up.weight"]
    assert "self.down.weight" in (getattr(finding.where, "source", None) or "")
    assert len(finding.edits) == 1


class NamelessProduct(nn.Module):
    """A product of two matrices of zeros, registered in the other order than the inputs meet them."""

    def __init__(self, width: int, style: str) -> None:
        super().__init__()
        self.base, self.style = nn.Linear(width, width), style
        self.first, self.second = nn.Parameter(torch.zeros(width, 2)), nn.Parameter(torch.zeros(2, width))

    def forward(self, x: Tensor) -> Tensor:
        if self.style == "sum of weights":
            return nn.functional.linear(x, self.base.weight + self.first @ self.second)
        if self.style == "joint product":
            return self.base(x) + x @ (self.first @ self.second).T
        return self.base(x) + x @ self.second.T @ self.first.T


@pytest.mark.parametrize("style", ["one after the other", "joint product", "sum of weights"])
def test_symmetric_weights_of_products_start_the_factor_that_the_inputs_meet_first(style: str) -> None:
    setup = setup_of(nn.Sequential(NamelessProduct(4, style), nn.Linear(4, 3)))
    (finding,) = rule_findings(setup, "G407")
    assert "'0.second'" in finding.fix
    assert "first'" not in finding.fix
    assert finding.where.parameter == "0.second"
    (blocked, *_) = rule_findings(setup, "G416")
    assert blocked.where.parameter == "0.second"


@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("zeros", ["down", "up"])
def test_symmetric_weights_of_a_product_with_one_factor_of_zero_are_quiet(
    kind: type[ThinProduct] | type[ThinLayers], zeros: str
) -> None:
    assert rule_findings(adapted(kind, zeros), "G407") == []


class ZeroBranches(nn.Module):
    """Residual branches with a last layer of zero, so that their first layer gets no gradient in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)) for _ in range(2))
        self.head = nn.Linear(4, 3)
        for branch in self.branches:
            nn.init.zeros_(branch[2].weight)

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = x + branch(x)
        return self.head(x)


class ZeroGates(nn.Module):
    """A copy between two layers of zero, as in ControlNet."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.before, self.copy, self.after = (nn.Linear(4, 4) for _ in range(4))
        self.head = nn.Linear(4, 3)
        for gate in (self.before, self.after):
            fill(gate, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x) + self.after(torch.relu(self.copy(x + self.before(x)))))


class ZeroEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.position, self.head = nn.Embedding(500, 8), nn.Parameter(torch.zeros(1, 6, 8)), nn.Linear(8, 3)
        nn.init.zeros_(self.table.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.table(x) + self.position).mean(1))


class MaskedUnits(nn.Module):
    """A layer of zeros, of whose units only three reach the output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = fill(nn.Linear(4, 8), 0.0), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.first(x) * (torch.arange(8) < 3))


class RelativeBias(nn.Module):
    """Biases of zero for pairs of positions, of which many share a distance."""

    def __init__(self, resized: bool) -> None:
        super().__init__()
        self.embed, self.bias, self.head = nn.Embedding(500, 8), nn.Parameter(torch.zeros(40, 2)), nn.Linear(2, 3)
        self.resized = resized

    def forward(self, x: Tensor) -> Tensor:
        states, place = self.embed(x), torch.arange(6)
        weights = states @ states.transpose(1, 2)
        table = nn.functional.interpolate(self.bias.T[None], size=20, mode="linear")[0].T if self.resized else self.bias
        bias = table[(place[:, None] // 3 - place // 3).abs().flatten() + 10]
        return self.head((weights.flatten(1)[:, :, None] + bias).tanh().mean(1))


HEALTHY: dict[str, Callable[[], Setup]] = {
    "masked units": lambda: setup_of(MaskedUnits()),
    "biases by distance": lambda: setup_of(RelativeBias(resized=False), torch.randint(0, 500, (64, 6))),
    "resized biases": lambda: setup_of(RelativeBias(resized=True), torch.randint(0, 500, (64, 6))),
    "random": lambda: setup_of(network(3)),
    "head of zeros": lambda: setup_of(fill(network(3), 0.0, "2.")),
    "head of zeros, many classes": lambda: setup_of(fill(network(200), 0.0, "2.")),
    "residual branches of zero": lambda: setup_of(ZeroBranches()),
    "zero gates": lambda: setup_of(ZeroGates()),
    "low-rank adapter": lambda: setup_of(Adapter()),
    "embedding and positions of zero": lambda: setup_of(ZeroEmbedding(), torch.randint(0, 500, (64, 6))),
    "random factors": lambda: recommender(Factors(torch.randn(20, 4), torch.randn(13, 4))),
    "users of zero beside random items": lambda: recommender(Factors(torch.zeros(20, 4), torch.randn(13, 4))),
    "one factor": lambda: recommender(Factors(torch.full((20, 1), 0.1), torch.full((13, 1), 0.1))),
    "constant bag before random weights": lambda: recommender(FactorsOfTower(None)),
    "logistic regression from zero": lambda: setup_of(fill(nn.Linear(4, 3), 0.0)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_symmetric_weights_ignores_diverging_units_and_leaves_weights_unchanged(name: str) -> None:
    torch.manual_seed(0)
    setup = HEALTHY[name]()
    before = [p.detach().clone() for p in setup.model.parameters()]
    assert rule_findings(setup, "G407") == []
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
