"""M311: attention that knows no positions, and models that know them, or need none."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup

SEED = torch.Generator().manual_seed(0)
WORDS = torch.randint(0, 20, (64, 7), generator=SEED)
EARLIER = (WORDS[:, 0] < WORDS[:, -1]).long()
CURVES = torch.randn(64, 16, 3, generator=SEED).cumsum(1)
RISING = (CURVES[:, -1, 0] > CURVES[:, 0, 0]).long()
POINTS = torch.randn(64, 16, 3, generator=SEED)
FAR = (POINTS.norm(dim=2).max(1).values > 3).long()
PICTURES = torch.randn(64, 1, 8, 8, generator=SEED)
BRIGHT = (PICTURES[:, 0, :4].sum((1, 2)) > PICTURES[:, 0, 4:].sum((1, 2))).long()


def found(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[..., Tensor] = F.cross_entropy) -> list[Finding]:
    return [one for one in Debugger.of(minimal_setup(model, x, y, loss)).checkup(select=["M311"]) if one.code == "M311"]


def encoder(width: int = 8) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def sines(places: int, width: int) -> Tensor:
    angle = torch.arange(places)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.cat([angle.sin(), angle.cos()], 1)


class Reader(nn.Module):
    """A classifier of sentences or, given numbers, of sequences; ``place`` is added to what attention is given."""

    def __init__(
        self, entrance: nn.Module, place: Tensor | None = None, mask: bool = False, tags: bool = False
    ) -> None:
        super().__init__()
        self.entrance, self.body, self.head = entrance, encoder(), nn.Linear(8, 2)
        self.place, self.mask, self.tags = place, mask, tags

    def forward(self, x: Tensor) -> Tensor:
        x = self.entrance(x)
        if self.place is not None:
            x = x + self.place
        places = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(places) if self.mask else None
        x = self.body(x, mask)
        scores: Tensor = self.head(x).transpose(1, 2) if self.tags else self.head(x.mean(1))
        return scores


class ByHand(nn.Module):
    """Attention written out, or by torch's own function."""

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


class Patches(nn.Module):
    """A small vision transformer with a class token."""

    def __init__(self, positions: bool) -> None:
        super().__init__()
        self.cut, self.token = nn.Conv2d(1, 8, 2, 2), nn.Parameter(torch.zeros(1, 1, 8))
        self.place = nn.Parameter(torch.randn(1, 17, 8)) if positions else None
        self.body, self.head = encoder(), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        if self.place is not None:
            x = x + self.place
        scores: Tensor = self.head(self.body(x)[:, 0])
        return scores


FAULTS: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor, str]] = {
    "words": (lambda: Reader(nn.Embedding(20, 8)), WORDS, EARLIER, "7 tokens"),
    "tags": (lambda: Reader(nn.Embedding(20, 8), tags=True), WORDS, (WORDS > 9).long(), "7 tokens"),
    "by hand": (lambda: ByHand(fused=False), WORDS, EARLIER, "7 tokens"),
    "fused": (lambda: ByHand(fused=True), WORDS, EARLIER, "7 tokens"),
    "curves": (lambda: Reader(nn.Linear(3, 8)), CURVES, RISING, "16 steps"),
    "patches": (lambda: Patches(positions=False), PICTURES, BRIGHT, "16 patches"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_attention_without_positions(name: str) -> None:
    build, x, y, said = FAULTS[name]
    (one,) = found(build(), x, y)
    assert one.severity == "warning"
    assert said in one.message
    assert one.where.module is not None


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor]] = {
    "learned": (lambda: Reader(nn.Embedding(20, 8), nn.Parameter(torch.randn(7, 8))), WORDS, EARLIER),
    "sines": (lambda: Reader(nn.Embedding(20, 8), sines(7, 8)), WORDS, EARLIER),
    "causal without positions": (lambda: Reader(nn.Embedding(20, 8), mask=True, tags=True), WORDS, (WORDS > 9).long()),
    "curves with sines": (lambda: Reader(nn.Linear(3, 8), sines(16, 8)), CURVES, RISING),
    "patches with positions": (lambda: Patches(positions=True), PICTURES, BRIGHT),
    "bag of words": (lambda: nn.Sequential(nn.EmbeddingBag(20, 8), nn.ReLU(), nn.Linear(8, 2)), WORDS, EARLIER),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_positions_or_no_attention_are_quiet(name: str) -> None:
    build, x, y = HEALTHY[name]
    assert not found(build(), x, y)


class Recurrent(nn.Module):
    """Attention over the states of an LSTM, which know their places."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(20, 8), nn.LSTM(8, 8, batch_first=True)
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.embed(x))
        mixed, _ = self.attention(states, states, states)
        scores: Tensor = self.head(mixed.mean(1))
        return scores


class Pooled(nn.Module):
    """One query that weighs the members of a bag, as for multiple instances."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.score, self.head = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.inside(x))
        scores: Tensor = self.head((torch.softmax(self.score(x), 1) * x).sum(1))
        return scores


def test_recurrence_and_pooling_by_attention_are_quiet() -> None:
    assert not found(Recurrent(), WORDS, EARLIER)
    assert not found(Pooled(), POINTS, FAR)


@pytest.mark.parametrize(
    ("entrance", "x", "y"),
    [(nn.Linear(3, 8), POINTS, FAR), (nn.Embedding(20, 8), WORDS.sort(1).values, (WORDS.sum(1) > 66).long())],
)
def test_sets_are_a_note_at_most(entrance: nn.Module, x: Tensor, y: Tensor) -> None:
    (one,) = found(Reader(entrance), x, y)
    assert one.severity == "note"
