"""Tests of M306: inputs that do not change the output, and inputs whose influence is hard to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import is_consequence
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.model.networks import dead_network, zero_head_network
from tests.rules.rule_findings import checkup_findings, rule_findings, setup_builder

X, Y = points()
TOKENS = torch.randint(1, 11, (64, 7), generator=torch.Generator().manual_seed(1))
CE = nn.CrossEntropyLoss()


class InputFunction(nn.Module):
    """A linear head on a function of the inputs."""

    def __init__(self, function: Callable[..., Tensor], width: int = 4) -> None:
        super().__init__()
        self.function, self.head = function, nn.Linear(width, 3)
        self.embed, self.gate = nn.Embedding(11, 4), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        return self.head(self.function(self, x, other))


def two_input_setup(function: Callable[..., Tensor], other: Tensor, as_dict: bool = False) -> Callable[[], Setup]:
    def build() -> Setup:
        batches = [{"x": X[i : i + 16], "other": other[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
        return Setup(InputFunction(function), batches if as_dict else [tuple(p.values()) for p in batches], loss_fn=CE)

    return build


def first_input(self: InputFunction, x: Tensor, other: Any) -> Tensor:
    return x


def sum_of_inputs(self: InputFunction, x: Tensor, other: Tensor) -> Tensor:
    return x + other


def gated_sum(self: InputFunction, x: Tensor, other: Tensor) -> Tensor:
    return x + self.gate * other


def sum_in_training(self: InputFunction, x: Tensor, other: Tensor) -> Tensor:
    return x + other if self.training else x


def masked_input(self: InputFunction, x: Tensor, other: Tensor) -> Tensor:
    return x * other.float().unsqueeze(1)


def constant_input(self: InputFunction, x: Tensor, other: Any) -> Tensor:
    return torch.ones_like(x)


def zeroed_tokens(self: InputFunction, x: Tensor, other: Any) -> Tensor:
    return self.embed(torch.zeros_like(x)).mean(1)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "one of two": (two_input_setup(first_input, X.cos()), "error"),
    "one of two, dict": (two_input_setup(first_input, X.cos(), as_dict=True), "error"),
    "table of integers": (two_input_setup(first_input, TOKENS), "warning"),
    "replaced by ones": (setup_builder(InputFunction(constant_input)), "error"),
    "zeroed tokens": (setup_builder(InputFunction(zeroed_tokens), TOKENS), "error"),
    "dead units": (setup_builder(dead_network()), "error"),
    "bf16": (setup_builder(InputFunction(constant_input).bfloat16(), X.bfloat16()), "error"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_input_ignored_of_unused_input_is_reported(name: str) -> None:
    build, severity = FAULTS[name]
    (finding,) = checkup_findings(build(), "M306")
    assert finding.severity == severity


def test_input_ignored_of_second_argument_names_it_and_points_to_forward() -> None:
    (finding,) = checkup_findings(two_input_setup(first_input, X.cos())(), "M306")
    assert "'other'" in finding.message
    assert "def forward" in (finding.where.source or "")


HEALTHY: dict[str, Callable[[], Setup]] = {
    "zero-initialized head": setup_builder(zero_head_network()),
    "zero-initialized gate": two_input_setup(gated_sum, X.cos()),
    "in training only": two_input_setup(sum_in_training, X.cos()),
    "mask of ones": two_input_setup(masked_input, torch.ones(64, dtype=torch.bool)),
    "mask": two_input_setup(masked_input, Y > 0),
    "both": two_input_setup(sum_of_inputs, X.cos()),
    "bag of tokens": setup_builder(nn.Sequential(nn.EmbeddingBag(11, 3)), TOKENS),
    "sign only": setup_builder(InputFunction(lambda self, x, other: x.sign())),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_input_ignored_is_quiet_for_used_inputs(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "M306") == []


def test_input_ignored_of_sample_index_is_note() -> None:
    findings = checkup_findings(two_input_setup(first_input, torch.arange(64))(), "M306")
    assert [finding.severity for finding in findings] == ["note"]


class TwoInputLayer(nn.Module):
    def __init__(self, uses_other: bool) -> None:
        super().__init__()
        self.uses_other, self.body = uses_other, nn.Linear(4, 4)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return self.body(x) + other if self.uses_other else self.body(x)


class TwoInputModel(nn.Module):
    """Passes both inputs to a layer whose output it may drop."""

    def __init__(self, layer_uses_other: bool, uses_layer: bool) -> None:
        super().__init__()
        self.layer, self.uses_layer, self.head = TwoInputLayer(layer_uses_other), uses_layer, nn.Linear(4, 3)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        outputs = self.layer(x, other)
        return self.head(outputs if self.uses_layer else x)


@pytest.mark.parametrize(
    ("model", "module"), [(TwoInputModel(False, True), "layer"), (TwoInputModel(True, False), None)]
)
def test_input_ignored_points_to_module_that_drops_input(model: nn.Module, module: str | None) -> None:
    batches = [(X[i : i + 16], X[i : i + 16].cos(), Y[i : i + 16]) for i in range(0, 64, 16)]
    (finding,) = checkup_findings(Setup(model, batches, loss_fn=CE), "M306")
    assert finding.where.module == module
    assert finding.cause.startswith(
        "layer receives 'other'" if module else "What forward() computes from 'other' is not used"
    )
    assert "def forward(self, x: Tensor, other: Tensor)" in (finding.where.source or "")


def test_input_ignored_behind_the_norm_of_one_value_names_the_norm() -> None:
    model = nn.Sequential(nn.Linear(4, 1), nn.LayerNorm(1), nn.Linear(1, 3))
    (finding,) = checkup_findings(minimal_setup(model, X, Y, CE), "M306")
    assert finding.where.module == "1"
    assert finding.cause == "1 normalizes a single value, so its output is its bias for every input."


class WholeBatchModel(nn.Module):
    """Takes a batch with its labels, and may use its features."""

    def __init__(self, uses_features: bool) -> None:
        super().__init__()
        self.uses_features, self.head = uses_features, nn.Linear(4, 3)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        x = batch["x"]
        return self.head(x if self.uses_features else torch.ones_like(x))


@pytest.mark.parametrize("target_of", [lambda batch: batch["y"], lambda batch: batch["y"].clone()])
@pytest.mark.parametrize("uses_features", [True, False])
def test_input_ignored_does_not_count_the_labels_of_a_batch_passed_whole(
    uses_features: bool, target_of: Callable[[dict[str, Tensor]], Tensor]
) -> None:
    batches = [{"x": X[i : i + 16], "y": Y[i : i + 16]} for i in range(0, 64, 16)]
    setup = Setup(
        WholeBatchModel(uses_features),
        batches,
        loss_fn=CE,
        unpack=lambda batch: ((batch,), target_of(batch)),
    )
    assert len(checkup_findings(setup, "M306")) == (not uses_features)


class SegmentReader(nn.Module):
    """A summary token and an attention that gets a mask, or the numbers of segments in its place."""

    def __init__(self, exchanged: bool) -> None:
        super().__init__()
        self.exchanged, self.embed, self.parts = exchanged, nn.Embedding(20, 16), nn.Embedding(2, 16)
        self.layer, self.head = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 3)

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        segments, mask = (mask, segments) if self.exchanged else (segments, mask)
        states = self.layer(self.embed(tokens) + self.parts(segments), src_key_padding_mask=mask == 0)
        return self.head(states[:, 0])


@pytest.mark.parametrize("exchanged", [True, False])
def test_input_ignored_names_the_input_in_the_place_of_the_mask(exchanged: bool) -> None:
    lengths = 8 + torch.arange(64) % 5
    mask = (torch.arange(14) < lengths.unsqueeze(1)).long()
    tokens = torch.randint(1, 20, (64, 14), generator=torch.Generator().manual_seed(0)) * mask
    segments = mask * (torch.arange(14) >= 5)
    torch.manual_seed(0)
    model = SegmentReader(exchanged)
    loader = DataLoader(TensorDataset(tokens, segments, mask, torch.arange(64) % 3), batch_size=16)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))
    found = [finding.evidence["input"] for finding in rule_findings(setup, "M306")]
    assert found == (["segments"] if exchanged else [])


class StepReader(nn.Module):
    """Reads a sequence by a recurrent cell, which may forget its state, or by its last steps."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.cell, self.head = kind, nn.GRUCell(3, 8), nn.Linear(8, 3)
        self.embed = nn.Embedding(20, 3)

    def forward(self, steps: Tensor) -> Tensor:
        steps = steps if steps.is_floating_point() else self.embed(steps)
        state = first = steps.new_zeros(len(steps), 8)
        for t in range(6 if self.kind == "last steps" else 0, steps.shape[1]):
            state = self.cell(steps[:, t], first if self.kind == "forgets" else state)  # the cell
        if self.kind == "each step":
            state = state[:, None].expand(-1, steps.shape[1], -1)
        scores: Tensor = self.head(state)
        return scores.movedim(-1, 1)


STEPS = torch.randn(60, 8, 3, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(0, 20, (60, 8), generator=torch.Generator().manual_seed(0))
PADDED = TOKENS * (torch.arange(8) >= 5)
CLASSES = torch.arange(60) % 3


@pytest.mark.parametrize("steps", [STEPS, TOKENS])
@pytest.mark.parametrize(("kind", "count", "line"), [("forgets", 7, "# the cell"), ("last steps", 6, "def forward(")])
def test_first_steps_of_a_sequence_without_influence_are_counted(
    steps: Tensor, kind: str, count: int, line: str
) -> None:
    (finding,) = rule_findings(minimal_setup(StepReader(kind), steps, CLASSES, CE), "M306")
    assert finding.evidence["ignored"] == count
    assert line in (finding.where.source or "")


@pytest.mark.parametrize(
    ("kind", "steps", "target"),
    [
        ("remembers", STEPS, CLASSES),
        ("remembers", TOKENS, CLASSES),
        ("forgets", PADDED, CLASSES),
        ("each step", STEPS, CLASSES[:, None].expand(-1, 8)),
    ],
)
def test_steps_that_are_read_or_padded_are_not_reported(kind: str, steps: Tensor, target: Tensor) -> None:
    assert rule_findings(minimal_setup(StepReader(kind), steps, target, CE), "M306") == []


def divided_number(self: InputFunction, x: Tensor, other: Tensor) -> Tensor:
    phase = other // 100
    return x + phase.float()[:, None]


def largest_number(self: InputFunction, x: Tensor, other: Tensor) -> Tensor:
    return x[:, : int(other.max())]


@pytest.mark.parametrize(
    ("function", "severity", "source"),
    [
        (divided_number, "warning", "phase = other // 100"),
        (largest_number, "note", "def forward"),
        (first_input, "note", "def forward"),
    ],
    ids=["divided to zero", "only its largest value", "unread"],
)
def test_number_of_each_sample_that_a_call_makes_constant(
    function: Callable[..., Tensor], severity: str, source: str
) -> None:
    numbers = torch.arange(64) % 8 + 4
    (finding,) = rule_findings(two_input_setup(function, numbers)(), "M306")
    assert finding.severity == severity
    assert source in str(finding.where.source)


class Ratings(nn.Module):
    """The product of the vectors of a user and an item, each of which may be looked up by either number."""

    def __init__(self, columns: tuple[int, int], users: int, items: int) -> None:
        super().__init__()
        self.columns, self.user, self.item = columns, nn.Embedding(users, 4), nn.Embedding(items, 4)

    def forward(self, pair: Tensor) -> Tensor:
        first, second = (pair[:, column] for column in self.columns)
        user = self.user(first)
        item = self.item(second)
        return (user * item).sum(1)


PAIRS = torch.stack([torch.randperm(64) % 30, torch.randperm(64) % 12], 1)


@pytest.mark.parametrize(
    ("columns", "users", "items", "source"),
    [
        ((1, 1), 30, 12, "user = self.user(first)"),
        ((1, 1), 30, 30, "user = self.user(first)"),
        ((0, 0), 30, 30, "item = self.item(second)"),
        ((0, 1), 30, 12, None),
        ((1, 0), 30, 30, None),
    ],
)
def test_column_of_numbers_that_no_lookup_reads(
    columns: tuple[int, int], users: int, items: int, source: str | None
) -> None:
    findings = rule_findings(minimal_setup(Ratings(columns, users, items), PAIRS, torch.rand(64), nn.MSELoss()), "M306")
    assert [finding.where.source for finding in findings] == [f"        {source}"] * (source is not None)


class UnregisteredTable(nn.Module):
    """Adds an offset for each shop, from a table that starts equal and is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.offset = nn.Parameter(torch.zeros(5)) + 0.5

    def forward(self, x: Tensor, shop: Tensor) -> Tensor:
        return self.layer(x).squeeze(1) + self.offset[shop]


def test_equal_rows_of_an_unregistered_table_follow_from_it() -> None:
    generator = torch.Generator().manual_seed(0)
    x, shop = torch.randn(64, 3, generator=generator), torch.randint(0, 5, (64,), generator=generator)
    loader = DataLoader(TensorDataset(x, shop, x[:, 0] + shop), batch_size=16)
    setup = Setup(UnregisteredTable(), loader, loss_fn=nn.MSELoss())
    (cause,), (effect,) = rule_findings(setup, "M303"), rule_findings(setup, "M306")
    assert "All rows that the indexing selects from have the same values" in effect.cause
    assert is_consequence("M306", effect.aspect, cause.explains)
