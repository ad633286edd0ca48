"""Tests of L201, L209 and L210 on heads whose activation is written in other ways than by torch's function for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_findings

X = torch.randn(48, 6, generator=torch.Generator().manual_seed(0))
CLASSES = torch.randint(0, 3, (48,), generator=torch.Generator().manual_seed(1))
BINARY = (X[:, :1] > 0).float()
NUMBERS = X[:, :1] + X[:, 1:2]
Activation = Callable[[Tensor], Tensor]


class Network(nn.Module):
    """A network that ends in a function of its last layer."""

    def __init__(self, outputs: int, activation: Activation) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.activation = nn.Linear(6, 16), nn.Linear(16, outputs), activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.head(torch.relu(self.body(x))))


class Scaled(Network):
    """A network that learns the range of its bounded output."""

    def __init__(self) -> None:
        super().__init__(1, torch.tanh)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * super().forward(x)


def softmax_by_hand(z: Tensor) -> Tensor:
    return z.exp() / z.exp().sum(1, keepdim=True)


def stable_softmax(z: Tensor) -> Tensor:
    e = torch.exp(z - z.amax(1, keepdim=True))
    return e / torch.sum(e, -1, True)


def softmax_by_logsumexp(z: Tensor) -> Tensor:
    return (z - torch.logsumexp(z, 1, keepdim=True)).exp()


def codes_of(model: nn.Module, target: Tensor, loss_fn: nn.Module, code: str) -> list[str]:
    return [finding.code for finding in rule_findings(minimal_setup(model, X, target, loss_fn), code)]


@pytest.mark.parametrize("softmax", [softmax_by_hand, stable_softmax, softmax_by_logsumexp])
def test_softmax_by_hand_before_cross_entropy_is_reported(softmax: Activation) -> None:
    assert codes_of(Network(3, softmax), CLASSES, nn.CrossEntropyLoss(), "L201") == ["L201"]


CLAMPS: list[Activation] = [
    lambda z: torch.maximum(z, torch.zeros_like(z)),
    lambda z: z * (z > 0),
    lambda z: torch.where(z > 0, z, 0.0),
    lambda z: (z + z.abs()) / 2,
]


@pytest.mark.parametrize("clamp", CLAMPS)
def test_relu_by_hand_on_logits_is_reported(clamp: Activation) -> None:
    assert codes_of(Network(3, clamp), CLASSES, nn.CrossEntropyLoss(), "L210") == ["L210"]
    assert codes_of(Network(1, clamp), BINARY, nn.BCEWithLogitsLoss(), "L210") == ["L210"]


@pytest.mark.parametrize("bound", [*CLAMPS, lambda z: 1 / (1 + torch.exp(-z)), lambda z: z / (1 + z.abs())])
def test_bounded_output_by_hand_is_reported_for_targets_outside(bound: Activation) -> None:
    assert codes_of(Network(1, bound), NUMBERS, nn.MSELoss(), "L209") == ["L209"]


@pytest.mark.parametrize(
    ("activation", "lowest", "source"),
    [
        (lambda z: torch.sigmoid(torch.sigmoid(z)), 0.5, "sigmoid"),
        (lambda z: torch.sigmoid(torch.relu(z)), 0.5, "relu"),
        (lambda z: torch.tanh(torch.relu(2 * z)), 0.0, "relu"),
    ],
    ids=["two sigmoids", "sigmoid after ReLU", "tanh after ReLU"],
)
def test_activation_before_the_last_that_excludes_targets_is_reported(
    activation: Activation, lowest: float, source: str
) -> None:
    targets = BINARY if lowest else 2 * BINARY - 1
    losses = (nn.MSELoss(), nn.BCELoss()) if lowest else (nn.MSELoss(),)
    for loss in losses:
        (finding,) = rule_findings(minimal_setup(Network(1, activation), X, targets, loss), "L209")
        assert f"[{lowest:g}" in finding.message
        assert source in (finding.where.source or "")


@pytest.mark.parametrize(
    "activation",
    [
        lambda z: z,
        lambda z: 10 * F.normalize(z, dim=1),
        lambda z: -z.square(),
        lambda z: z - z.mean(1, keepdim=True),
        lambda z: F.leaky_relu(z, 0.1),
        lambda z: 30 * torch.tanh(z / 30),
    ],
    ids=["logits", "cosines", "distances", "centered", "leaky", "soft cap"],
)
def test_logits_of_other_forms_are_not_reported(activation: Activation) -> None:
    for code in ("L201", "L210"):
        assert codes_of(Network(3, activation), CLASSES, nn.CrossEntropyLoss(), code) == []


def test_range_that_covers_the_targets_or_is_learned_is_not_reported() -> None:
    def cover(z: Tensor) -> Tensor:
        return 8 * torch.tanh(z)

    for model in (Network(1, cover), Network(1, lambda z: z + 1), Scaled()):
        assert codes_of(model, NUMBERS, nn.MSELoss(), "L209") == []
    norms = Network(8, lambda z: z.square().sum(1, keepdim=True).sqrt())
    assert codes_of(norms, NUMBERS.abs(), nn.MSELoss(), "L209") == []
    positive = Network(1, lambda z: torch.maximum(z, torch.zeros_like(z)))
    assert codes_of(positive, NUMBERS.abs(), nn.MSELoss(), "L209") == []


class Experts(nn.Module):
    """One of two experts for each sample, weighted by the softmax of a router."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router, self.experts = nn.Linear(6, 2), nn.ModuleList(nn.Linear(6, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.router(x).softmax(1).max(1)
        output = torch.zeros(len(x), 1)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            output = output.index_add(0, rows, expert(x[rows]) * weight[rows, None])
        return output


def test_range_of_a_router_is_not_that_of_its_experts() -> None:
    assert codes_of(Experts(), NUMBERS, nn.MSELoss(), "L209") == []


class ReadOut(nn.Module):
    """An average of values of the input, with weights that the last layer gives."""

    def __init__(self, read: Callable[[Tensor, Tensor], Tensor], weights: int, table: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(6, 6) if table else nn.Identity()
        self.score, self.read = nn.Linear(6, weights), read

    def forward(self, x: Tensor) -> Tensor:
        values = self.embed(x.argmax(1)) if isinstance(self.embed, nn.Embedding) else x
        return self.read(self.score(values), values)


def attention(scores: Tensor, values: Tensor) -> Tensor:
    return (scores.softmax(1) * values).sum(1, keepdim=True)


def gate(scores: Tensor, values: Tensor) -> Tensor:
    share = torch.sigmoid(scores)
    return share * values[:, :1] + (1 - share) * values[:, 1:2]


def attention_by_hand(scores: Tensor, values: Tensor) -> Tensor:
    powers = scores.clamp(max=60).exp()
    return torch.einsum("bi,bi->b", powers / powers.sum(1, keepdim=True), values)[:, None]


@pytest.mark.parametrize(("read", "weights"), [(attention, 6), (gate, 1), (attention_by_hand, 6)])
@pytest.mark.parametrize("table", [False, True])
def test_range_of_averaged_values_is_not_known(
    read: Callable[[Tensor, Tensor], Tensor], weights: int, table: bool
) -> None:
    assert codes_of(ReadOut(read, weights, table), 2 * X[:, :1], nn.MSELoss(), "L209") == []


def test_range_of_a_bound_that_a_mask_of_the_input_follows_is_known() -> None:
    model = ReadOut(lambda scores, values: torch.sigmoid(scores) * (values[:, :1] > -1), 1)
    assert codes_of(model, NUMBERS, nn.MSELoss(), "L209") == ["L209"]
