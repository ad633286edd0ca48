"""Tests of M323: residual connections that are missing, doubled or detached, and sums that are none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.residual_path import TwoBlocks
from nbdebug.setup import Setup
from tests.rules.model.attention_networks import TOKENS, WRITINGS, attention_setup
from tests.rules.rule_findings import rule_faults

FAULTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "missing": lambda x, result: result,
    "doubled": lambda x, result: x + (x + result),
    "detached": lambda x, result: x.detach() + result,
}
STYLES: dict[str, dict[str, Any]] = {
    **{writing: {"writing": writing} for writing in WRITINGS},
    "post-norm": {"writing": "torch", "post_norm": True},
}


@pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))
@pytest.mark.parametrize("part", ["attend", "feed"])
@pytest.mark.parametrize("kind", FAULTS)
def test_m323_faulty_sum_fires(kind: str, part: str, style: dict[str, Any]) -> None:
    (finding,) = rule_faults(attention_setup(**style, **{part: FAULTS[kind]}), "M323")
    assert finding.evidence["kind"] == kind


class Parallel(nn.Module):
    """Blocks that add attention and feed-forward part to the same value, in place or with dropout."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place, self.embed, self.dropout = in_place, nn.Embedding(12, 16), nn.Dropout(0.1)
        self.attentions = nn.ModuleList(nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(2))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in range(2))
        self.places = nn.ModuleList(nn.Embedding(6, 16) for _ in range(2))
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for attention, layers, place in zip(self.attentions, self.layers, self.places, strict=True):
            x = x + place(torch.arange(6)).expand_as(x)
            attended, fed = attention(x, x, x, need_weights=False)[0], layers(x)
            if self.in_place:
                x = x.clone()
                x += attended
                x += fed
            else:
                x = x + self.dropout(attended) + self.dropout(fed)
        scores: Tensor = self.head(x.mean(1))
        return scores


class Experts(nn.Module):
    """Blocks whose feed-forward part is the sum of a shared expert and of one that reads all tokens as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(12, 16), nn.LayerNorm(16), nn.Linear(16, 3)
        self.attentions = nn.ModuleList(nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(2))
        self.shared, self.routed = (
            nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)) for _ in range(2))
            for _ in range(2)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for attention, shared, routed in zip(self.attentions, self.shared, self.routed, strict=True):
            x = x + attention(x, x, x, need_weights=False)[0]
            rows = self.norm(x).view(-1, 16)
            x = x + (routed(rows).view(x.shape) + shared(rows.view(x.shape)))
        scores: Tensor = self.head(x.mean(1))
        return scores


class LatentQueries(nn.Module):
    """Learned queries read the tokens without a residual connection; blocks with one follow."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.latents = nn.Embedding(12, 16), nn.Parameter(torch.randn(1, 6, 16))
        self.reading = nn.MultiheadAttention(16, 2, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x, latents = self.embed(tokens), self.latents.expand(len(tokens), -1, -1)
        x = self.reading(latents, x, x, need_weights=False)[0]
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = x + self.layers(x)
        scores: Tensor = self.head(x.mean(1))
        return scores


def tokens_setup(model: nn.Module) -> Setup:
    return minimal_setup(model, TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())


def encoder_of_torch(norm_first: bool) -> Setup:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    head = nn.Sequential(nn.Flatten(), nn.Linear(96, 3))
    return tokens_setup(nn.Sequential(nn.Embedding(12, 16), encoder, head))


def added_in_place(x: Tensor, result: Tensor) -> Tensor:
    total = x.clone()
    total += result
    return total


HEALTHY: dict[str, Callable[[], Setup]] = {
    **{name: partial(attention_setup, **style) for name, style in STYLES.items()},
    "no connection at all": partial(attention_setup, attend=FAULTS["missing"], feed=FAULTS["missing"]),
    "sum in place": partial(attention_setup, attend=added_in_place, feed=lambda x, result: result.add_(x)),
    "parallel parts": lambda: tokens_setup(Parallel(in_place=False)),
    "parallel parts in place": lambda: tokens_setup(Parallel(in_place=True)),
    "shared expert": lambda: tokens_setup(Experts()),
    "learned queries": lambda: tokens_setup(LatentQueries()),
    "two blocks": lambda: tokens_setup(TwoBlocks(doubled=False)),
    "layers of torch": partial(encoder_of_torch, False),
    "layers of torch, norm first": partial(encoder_of_torch, True),
}


@pytest.mark.parametrize("build", HEALTHY.values(), ids=list(HEALTHY))
def test_m323_is_silent_on_healthy_variants(build: Callable[[], Setup]) -> None:
    assert rule_faults(build(), "M323") == []


class Joined(nn.Module):
    """A decoder that joins what it reads from memory with its own values, and adds all else."""

    def __init__(self, joined: bool) -> None:
        super().__init__()
        self.joined, self.embed = joined, nn.Embedding(12, 16)
        self.first, self.cross = (nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(2))
        self.merge, self.layers = nn.Linear(32, 16), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x + self.first(x, x, x, need_weights=False)[0]
        memory = self.embed(tokens.flip(1))
        read = self.cross(x, memory, memory, need_weights=False)[0]
        x = self.merge(torch.cat([x, read], dim=-1)) if self.joined else read
        x = x + self.layers(x)
        scores: Tensor = self.head(x.mean(1))
        return scores


@pytest.mark.parametrize(("joined", "count"), [(False, 1), (True, 0)])
def test_m323_cross_attention_without_connection_fires(joined: bool, count: int) -> None:
    assert len(rule_faults(tokens_setup(Joined(joined)), "M323")) == count


def test_m323_of_a_deep_stream_with_doubled_sums_is_quick() -> None:
    model = Parallel(in_place=False)
    model.attentions = nn.ModuleList([model.attentions[0]] * 40)
    model.layers = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))] * 40)
    model.places = nn.ModuleList([model.places[0]] * 40)
    model.dropout = Doubled()  # type: ignore[assignment]
    assert len(rule_faults(tokens_setup(model), "M323")) == 1


class Doubled(nn.Module):
    """Adds a value to itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x
