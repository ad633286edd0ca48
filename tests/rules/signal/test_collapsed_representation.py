"""Tests of G415: samples that become alike in a hidden layer, and samples that only seem to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import cause_indices
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


class NodeNetwork(nn.Module):
    """Layers that compute all 60 nodes of a graph, of which a batch selects some by number."""

    def __init__(self, depth: int, mixing: str = "mean", norm: type[nn.Module] = nn.Identity) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        linked = (torch.rand(60, 60, generator=generator) < 0.2).float()
        linked = (linked + linked.t() + torch.eye(60)).clamp(max=1.0)
        self.register_buffer("links", linked / linked.sum(1, keepdim=True))
        self.register_buffer("features", torch.randn(60, 8, generator=generator))
        self.mixing, self.layers = mixing, nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.norms, self.head = nn.ModuleList(norm(8) for _ in range(depth)), nn.Linear(8, 3)

    def forward(self, nodes: Tensor) -> Tensor:
        x = self.features
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = self.mix(x, norm(layer(x)))
        scores: Tensor = self.head(x)
        return scores[nodes]

    def mix(self, x: Tensor, made: Tensor) -> Tensor:
        """Return the next rows of all nodes."""
        if self.mixing == "none":
            return torch.sigmoid(made)
        if self.mixing == "sparse":
            return torch.relu(torch.sparse.mm(self.links.to_sparse(), made))
        if self.mixing == "scattered":
            row, column = self.links.nonzero(as_tuple=True)
            return torch.zeros_like(made).index_add(0, row, self.links[row, column, None] * made[column])
        mixed = torch.relu(self.links @ made)
        return x + mixed if self.mixing == "residual" else mixed


SMOOTHED = {
    "mean over neighbors": lambda: NodeNetwork(16),
    "mean over neighbors, deeper": lambda: NodeNetwork(28),
    "sparse product": lambda: NodeNetwork(16, "sparse"),
    "sums of messages": lambda: NodeNetwork(16, "scattered"),
    "rows that are not mixed": lambda: NodeNetwork(16, "none"),
}
DISTINCT = {
    "two layers": lambda: NodeNetwork(2),
    "two sparse layers": lambda: NodeNetwork(2, "sparse"),
    "residual layers": lambda: NodeNetwork(16, "residual"),
    "normalized rows": lambda: NodeNetwork(16, norm=lambda width: nn.BatchNorm1d(width)),  # type: ignore[arg-type]
    "embedded numbers": lambda: nn.Sequential(nn.Embedding(60, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)),
}


def node_setup(model: nn.Module) -> Setup:
    nodes = torch.arange(48)
    return setup_builder(model, nodes, nodes % 3)()


@pytest.mark.parametrize("name", SMOOTHED)
def test_collapsed_representation_finds_tables_of_equal_rows(name: str) -> None:
    found = checkup_findings(node_setup(SMOOTHED[name]()), "G415")
    assert [finding.severity for finding in found] == ["error"]
    assert (found[0].where.module or "").startswith("layers.")
    assert {"M306", "M307"} <= {*found[0].explains}


@pytest.mark.parametrize("name", DISTINCT)
def test_collapsed_representation_ignores_tables_of_distinct_rows(name: str) -> None:
    assert checkup_findings(node_setup(DISTINCT[name]()), "G415") == []


class UnreadEncoder(nn.Module):
    """Answers of a decoder of learned queries, from an encoder that it reads in no ``way`` or in one."""

    def __init__(self, way: str, frozen: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way, self.start = way, nn.Parameter(torch.randn(1, 8))
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8))
        self.body, self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 3)
        self.encoder.requires_grad_(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        memory, state = self.encoder(x), self.start.expand(len(x), -1)
        if self.way == "times zero":
            state = state + 0 * memory.detach()
        elif self.way == "shape only":
            state = state + torch.zeros_like(memory)
        elif self.way == "own attention":
            state = state + F.scaled_dot_product_attention(state[:, None], state[:, None], state[:, None])[:, 0]
        return self.head(self.body(state))


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("way", ["none", "times zero", "shape only", "own attention"])
def test_layers_that_nothing_reads_do_not_make_samples_alike(way: str, frozen: bool) -> None:
    assert checkup_findings(setup_builder(UnreadEncoder(way, frozen))(), "G415") == []


@pytest.mark.parametrize("way", ["none", "shape only", "own attention"])
def test_constant_output_is_due_to_layers_that_nothing_reads(way: str) -> None:
    debugger = Debugger.of(setup_builder(UnreadEncoder(way))())
    findings = [finding.to_dict() for finding in debugger.checkup().findings]
    causes = cause_indices(findings)
    codes = [finding["code"] for finding in findings]
    cause = causes[codes.index("M307")]
    assert cause is not None
    assert codes[cause] == "M301"


@pytest.mark.parametrize("frozen", [False, True])
def test_layers_that_make_samples_alike_are_reported_though_they_are_frozen(frozen: bool) -> None:
    model = DeepNetwork()
    model.layers.requires_grad_(not frozen)
    model.stem.requires_grad_(not frozen)
    (finding,) = checkup_findings(setup_builder(model)(), "G415")
    assert "Each layer shrinks the differences" in finding.cause


class FirstToken(nn.Module):
    """A classifier of the first of some tokens, which is the same in all samples; ``mix`` passes others on to it."""

    def __init__(self, mix: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix, self.start, self.embed = mix, nn.Parameter(torch.randn(1, 1, 8)), nn.Linear(1, 8)
        blocks = [nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(2)]
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.start.expand(len(x), -1, -1), self.embed(x[..., None])], 1)
        for block in self.blocks:
            x = x + self.mix(x)
            x = x + block(x)
        return self.head(x[:, 0])


def to_itself(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1]) @ x


def past_only(x: Tensor) -> Tensor:
    scores = (x @ x.transpose(1, 2)).masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), float("-inf"))
    return scores.softmax(-1) @ x


def attended(x: Tensor) -> Tensor:
    return (x @ x.transpose(1, 2) / 8**0.5).softmax(-1) @ x


LEFT_OUT: dict[str, Callable[[Tensor], Tensor]] = {
    "attention to itself": to_itself,
    "nothing": torch.zeros_like,
    "mean over the width": lambda x: x.mean(2, keepdim=True).expand_as(x),
    "earlier tokens only": past_only,
    "first token only": lambda x: x[:, :1].expand_as(x),
}
PASSED_ON: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": attended,
    "mean": lambda x: x.mean(1, keepdim=True).expand_as(x),
    "largest": lambda x: x.amax(1, keepdim=True).expand_as(x),
    "neighbor": lambda x: x.roll(1, 1),
    "later tokens": lambda x: x.flip(1).cumsum(1).flip(1),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_tokens_that_the_read_one_never_meets_are_ignored_inputs(name: str) -> None:
    setup = setup_builder(FirstToken(LEFT_OUT[name]))
    assert checkup_findings(setup(), "G415") == []
    (finding,) = checkup_findings(setup(), "M306")
    assert finding.severity == "error"


@pytest.mark.parametrize("name", PASSED_ON)
def test_tokens_that_reach_the_read_one_are_quiet(name: str) -> None:
    setup = setup_builder(FirstToken(PASSED_ON[name]))
    assert [*checkup_findings(setup(), "G415"), *checkup_findings(setup(), "M306")] == []
