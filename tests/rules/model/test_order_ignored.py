"""Tests of M311: attention without positions, and models that encode positions or need none."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import next_token_loss
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults, rule_findings

GENERATOR = torch.Generator().manual_seed(0)
WORDS = torch.randint(0, 20, (64, 7), generator=GENERATOR)
WORD_LABELS = (WORDS[:, 0] < WORDS[:, -1]).long()
CURVES = torch.randn(64, 16, 3, generator=GENERATOR).cumsum(1)
CURVE_LABELS = (CURVES[:, -1, 0] > CURVES[:, 0, 0]).long()
POINTS = torch.randn(64, 16, 3, generator=GENERATOR)
POINT_LABELS = (POINTS.norm(dim=2).max(1).values > 3).long()
IMAGES = torch.randn(64, 1, 8, 8, generator=GENERATOR)
IMAGE_LABELS = (IMAGES[:, 0, :4].sum((1, 2)) > IMAGES[:, 0, 4:].sum((1, 2))).long()


def findings(model: nn.Module, x: Tensor, y: Tensor) -> list[Finding]:
    return rule_findings(minimal_setup(model, x, y, F.cross_entropy), "M311")


def encoder(width: int = 8) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def sinusoidal_positions(length: int, width: int) -> Tensor:
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.cat([angle.sin(), angle.cos()], 1)


class AttentionClassifier(nn.Module):
    """A classifier of sequences or their tokens; ``positions`` is added to the input of attention."""

    def __init__(
        self, embedding: nn.Module, positions: Tensor | None = None, mask: bool = False, per_token: bool = False
    ) -> None:
        super().__init__()
        self.embedding, self.body, self.head = embedding, encoder(), nn.Linear(8, 2)
        self.positions, self.mask, self.per_token = positions, mask, per_token

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        if self.positions is not None:
            x = x + self.positions
        length = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length) if self.mask else None
        x = self.body(x, mask)
        scores: Tensor = self.head(x).transpose(1, 2) if self.per_token else self.head(x.mean(1))
        return scores


class ManualAttention(nn.Module):
    """Attention as matrix products or by the fused function of torch."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.embed, self.qkv, self.head, self.fused = nn.Embedding(20, 8), nn.Linear(8, 24), nn.Linear(8, 2), fused

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.embed(x)).chunk(3, dim=-1)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(8), -1) @ v
        scores: Tensor = self.head(mixed.max(1).values)
        return scores


class PatchTransformer(nn.Module):
    """A small vision transformer with a class token."""

    def __init__(self, positions: bool) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(1, 8, 2, 2), nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 17, 8)) if positions else None
        self.body, self.head = encoder(), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        if self.positions is not None:
            x = x + self.positions
        scores: Tensor = self.head(self.body(x)[:, 0])
        return scores


FAULTS: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor, str]] = {
    "words": (lambda: AttentionClassifier(nn.Embedding(20, 8)), WORDS, WORD_LABELS, "7 tokens"),
    "tags": (lambda: AttentionClassifier(nn.Embedding(20, 8), per_token=True), WORDS, (WORDS > 9).long(), "7 tokens"),
    "manual": (lambda: ManualAttention(fused=False), WORDS, WORD_LABELS, "7 tokens"),
    "fused": (lambda: ManualAttention(fused=True), WORDS, WORD_LABELS, "7 tokens"),
    "curves": (lambda: AttentionClassifier(nn.Linear(3, 8)), CURVES, CURVE_LABELS, "16 steps"),
    "patches": (lambda: PatchTransformer(positions=False), IMAGES, IMAGE_LABELS, "16 patches"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_order_ignored_by_attention_without_positions_is_warning(name: str) -> None:
    build, x, y, text = FAULTS[name]
    (finding,) = findings(build(), x, y)
    assert finding.severity == "warning"
    assert text in finding.message
    assert finding.where.module is not None


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor]] = {
    "learned": (lambda: AttentionClassifier(nn.Embedding(20, 8), nn.Parameter(torch.randn(7, 8))), WORDS, WORD_LABELS),
    "sines": (lambda: AttentionClassifier(nn.Embedding(20, 8), sinusoidal_positions(7, 8)), WORDS, WORD_LABELS),
    "causal without positions": (
        lambda: AttentionClassifier(nn.Embedding(20, 8), mask=True, per_token=True),
        WORDS,
        (WORDS > 9).long(),
    ),
    "curves with sines": (
        lambda: AttentionClassifier(nn.Linear(3, 8), sinusoidal_positions(16, 8)),
        CURVES,
        CURVE_LABELS,
    ),
    "patches with positions": (lambda: PatchTransformer(positions=True), IMAGES, IMAGE_LABELS),
    "bag of words": (lambda: nn.Sequential(nn.EmbeddingBag(20, 8), nn.ReLU(), nn.Linear(8, 2)), WORDS, WORD_LABELS),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_order_ignored_is_quiet_for_models_with_positions_or_without_attention(name: str) -> None:
    build, x, y = HEALTHY[name]
    assert not findings(build(), x, y)


class RecurrentAttention(nn.Module):
    """Attention over the states of an LSTM, which encode their positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(20, 8), nn.LSTM(8, 8, batch_first=True)
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.embed(x))
        mixed, _ = self.attention(states, states, states)
        scores: Tensor = self.head(mixed.mean(1))
        return scores


class AttentionPooling(nn.Module):
    """Pooling by attention weights, as in multiple-instance learning."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.score, self.head = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.project(x))
        scores: Tensor = self.head((torch.softmax(self.score(x), 1) * x).sum(1))
        return scores


def test_order_ignored_is_quiet_for_recurrence_and_attention_pooling() -> None:
    assert not findings(RecurrentAttention(), WORDS, WORD_LABELS)
    assert not findings(AttentionPooling(), POINTS, POINT_LABELS)


@pytest.mark.parametrize(
    ("embedding", "x", "y"),
    [(nn.Linear(3, 8), POINTS, POINT_LABELS), (nn.Embedding(20, 8), WORDS.sort(1).values, (WORDS.sum(1) > 66).long())],
    ids=["points", "sorted words"],
)
def test_order_ignored_of_set_data_is_note(embedding: nn.Module, x: Tensor, y: Tensor) -> None:
    (finding,) = findings(AttentionClassifier(embedding), x, y)
    assert finding.severity == "note"


class PositionTable(nn.Module):
    """A causal language model that reads its table of positions in one of several ways, or uses another table."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self.style, self.embed, self.head = style, nn.Embedding(11, 8), nn.Linear(8, 11)
        self.place, self.kind = nn.Embedding(16, 8), nn.Embedding(2, 8)
        self.rows, self.zeros = nn.Parameter(torch.randn(1, 16, 8)), nn.Parameter(torch.zeros(1, 16, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        x, length = self.embed(tokens), tokens.shape[1]
        if self.style == "one index":
            x = x + self.place(torch.zeros(length, dtype=torch.long))
        elif self.style == "one row":
            x = x + self.rows[:, :1]
        elif self.style == "index of the batch":
            x = x + self.place(torch.zeros_like(tokens))
        elif self.style == "table":
            x = x + self.place(torch.arange(length))
        elif self.style == "table and kind":
            x = x + self.kind(torch.zeros_like(tokens)) + self.rows[:, :length]
        elif self.style == "table of zeros":
            x = x + self.zeros[:, :length]
        elif self.style == "kind":
            x = x + self.kind(torch.zeros_like(tokens))
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        return self.head(x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])


@pytest.mark.parametrize(
    ("style", "count"),
    [
        *((style, 1) for style in ("one index", "one row", "index of the batch")),
        *((style, 0) for style in ("table", "table and kind", "table of zeros", "kind", "none")),
    ],
)
def test_m311_table_with_one_row_for_all_positions_fires(style: str, count: int) -> None:
    tokens = torch.randint(0, 11, (64, 9), generator=torch.Generator().manual_seed(1))
    setup = minimal_setup(PositionTable(style), tokens[:, :-1], tokens[:, 1:], next_token_loss)
    faults = rule_faults(setup, "M311")
    assert len(faults) == count
    assert all({"T606", "T607", "T610", "E709"} <= {*finding.explains} for finding in faults)


class ZeroPositions(nn.Module):
    """A classifier with attention whose table of positions starts at zero, as in many vision Transformers."""

    def __init__(self, added: bool) -> None:
        super().__init__()
        self.added, self.embed, self.rows = added, nn.Embedding(20, 8), nn.Parameter(torch.zeros(1, 7, 8))
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        if self.added:
            x = x + self.rows
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(torch.tanh(x).mean(1))


@pytest.mark.parametrize(("added", "count"), [(True, 0), (False, 1)])
def test_m311_table_that_starts_at_zero_is_silent(added: bool, count: int) -> None:
    assert len(findings(ZeroPositions(added), WORDS, WORD_LABELS)) == count


@pytest.mark.parametrize("needs_order", [True, False])
def test_order_ignored_of_classes_that_follow_from_token_counts_is_note(*, needs_order: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 12, (400, 8), generator=generator)
    labels = (tokens[:, 0] < tokens[:, -1]).long() if needs_order else ((tokens < 6).sum(1) > 4).long()
    model = nn.Sequential(nn.Embedding(12, 8), encoder(), MeanOverSteps(), nn.Linear(8, 2))
    (finding,) = findings(model, tokens, labels)
    assert finding.severity == ("warning" if needs_order else "note")
    assert ("counts of the tokens" in finding.cause) != needs_order


@pytest.mark.parametrize("target", ["order", "counts", "both"])
def test_order_ignored_explains_a_failed_run_if_the_classes_follow_from_the_order_alone(target: str) -> None:
    tokens = torch.randint(0, 8, (400, 8), generator=torch.Generator().manual_seed(0))
    ordered, counted = tokens[:, 0] < tokens[:, -1], (tokens < 4).sum(1) > 4
    labels = {"order": ordered, "counts": counted, "both": torch.where(tokens[:, 3] < 5, counted, ordered)}[target]
    model = nn.Sequential(nn.Embedding(12, 8), encoder(), MeanOverSteps(), nn.Linear(8, 2))
    (finding,) = findings(model, tokens, labels.long())
    assert ("T607" in finding.explains) == (target == "order")


class MeanOverSteps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Records(nn.Module):
    """Attention over sequences of two values per element, of which it reads one or both."""

    def __init__(self, reads: tuple[int, ...] = (0, 1)) -> None:
        super().__init__()
        self.reads, self.embed = reads, nn.ModuleList(nn.Embedding(40, 8) for _ in range(2))
        self.body, self.head = ManualMixing(), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.score([x[..., column] for column in range(2)])

    def score(self, columns: list[Tensor]) -> Tensor:
        mixed = self.body(sum(self.embed[i](columns[i].long()) for i in self.reads))
        scores: Tensor = self.head(mixed.tanh().mean(1))
        return scores


class ManualMixing(nn.Module):
    """One step of attention with a residual sum and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return x + self.out(torch.softmax(q @ k.transpose(1, 2), -1) @ v)


class NumberedRecords(Records):
    """The same with the values as two arguments."""

    def forward(self, values: Tensor, numbers: Tensor) -> Tensor:
        return self.score([numbers, values])


COUNT, LENGTH = 64, 7
VALUES = torch.randint(0, 20, (COUNT, LENGTH), generator=GENERATOR)
STEPS = torch.arange(LENGTH).expand(COUNT, LENGTH)
TIMES = torch.randint(1, 5, (COUNT, LENGTH), generator=GENERATOR).cumsum(1)
KEYS = torch.rand(COUNT, LENGTH, generator=GENERATOR).argsort(1)
# Whether the numbers are an argument of their own, the numbers, the columns that the model reads, and the severity.
NUMBERED: dict[str, tuple[bool, Tensor, tuple[int, ...], list[str]]] = {
    "numbers of positions in a column": (False, STEPS, (0, 1), []),
    "numbers of positions as an argument": (True, STEPS, (0, 1), []),
    "times": (False, TIMES, (0, 1), []),
    "times as an argument": (True, TIMES, (0, 1), []),
    "positions counted down": (False, LENGTH - 1 - STEPS, (0, 1), []),
    "fields in another order": (False, KEYS, (0, 1), ["note"]),
    "fields in another order, as an argument": (True, KEYS, (0, 1), ["note"]),
    "keys that start elsewhere": (False, 3 * KEYS + 2, (0, 1), ["note"]),
    "times that the model does not read": (False, TIMES, (1,), ["warning"]),
    "fields that the model does not read": (False, KEYS, (1,), ["warning"]),
    "segments": (False, (STEPS > 3).long(), (0, 1), ["warning"]),
    "random numbers": (False, VALUES.flip(0), (0, 1), ["warning"]),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_order_ignored_by_a_model_of_numbered_elements_depends_on_the_numbers(name: str) -> None:
    is_argument, numbers, reads, severities = NUMBERED[name]
    torch.manual_seed(0)
    data = TensorDataset(torch.stack([numbers, VALUES], 2), WORD_LABELS)
    if is_argument:
        data = TensorDataset(VALUES, numbers, WORD_LABELS)
    model = NumberedRecords(reads) if is_argument else Records(reads)
    setup = Setup(model, DataLoader(data, 32), loss_fn=F.cross_entropy)
    reported = rule_findings(setup, "M311")
    assert [finding.severity for finding in reported] == severities
    if severities == ["note"]:
        assert "identifies the elements" in str(reported[0].cause)
