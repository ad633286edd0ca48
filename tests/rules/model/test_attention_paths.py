"""Tests of M320, M321, M322 and L206: what queries, keys, values and heads of an attention contribute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import AttentionLanguageModel
from nbdebug.setup import Setup
from tests.rules.model.attention_networks import TOKENS, WRITINGS, attention_setup, scaled_softmax
from tests.rules.rule_findings import rule_faults, rule_findings

every_writing = pytest.mark.parametrize("writing", WRITINGS)
by_hand = pytest.mark.parametrize("writing", WRITINGS[:2])


def averaged(part: Tensor) -> Tensor:
    return part.mean(2, keepdim=True).expand_as(part)


def without_first_head(mixed: Tensor) -> Tensor:
    return mixed * (torch.arange(4) > 0)[:, None, None]


def with_equal_heads(setup: Setup) -> Setup:
    with torch.no_grad():
        for name, weight in setup.eager_model.named_parameters():
            if "projections" in name:
                weight.copy_(torch.cat([weight[:4].clone()] * 4))
            elif name.endswith("output.weight"):
                weight.copy_(torch.cat([weight[:, :4].clone()] * 4, dim=1))
    return setup


def with_zero_queries(setup: Setup) -> Setup:
    """Queries that start at zero, as some initializations do."""
    with torch.no_grad():
        for name, weight in setup.eager_model.named_parameters():
            if "projections.0" in name:
                weight.zero_()
            elif "projections.weight" in name or "projections.bias" in name:
                weight[:16] = 0
    return setup


@every_writing
@pytest.mark.parametrize("part", ["key", "value"])
def test_m320_attention_over_equal_parts_fires(writing: str, part: str) -> None:
    (finding,) = rule_faults(attention_setup(writing, {part: averaged}), "M320")
    assert finding.evidence["attentions"] == 2
    assert (finding.where.module or "").startswith("attentions.0")


@every_writing
@pytest.mark.parametrize("part", ["query", "key", "value"])
@pytest.mark.parametrize("fused", [False, True])
def test_m320_part_of_zeros_fires(writing: str, part: str, fused: bool) -> None:
    (finding,) = rule_faults(attention_setup(writing, {part: lambda value: value * 0}, fused=fused), "M320")
    assert "zero" in finding.message


@every_writing
@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_m320_detached_part_of_fused_layer_fires_at_its_line(writing: str, part: str) -> None:
    (finding,) = rule_faults(attention_setup(writing, {part: Tensor.detach}, fused=True), "M320")
    assert "detached" in finding.message


NORMALIZATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "length": lambda part: F.normalize(part, dim=-1),
    "layer norm": lambda part: F.layer_norm(part, part.shape[-1:]),
    "root mean square": lambda part: F.rms_norm(part, part.shape[-1:]),
    "length by hand": lambda part: part / part.norm(dim=-1, keepdim=True),
    "mean square by hand": lambda part: part * torch.rsqrt(part.pow(2).mean(-1, keepdim=True) + 1e-6),
}


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("is_first", [False, True])
def test_m320_detached_part_of_fused_layer_fires_beside_a_normalization(name: str, is_first: bool) -> None:
    normalize = NORMALIZATIONS[name]

    def detached(part: Tensor) -> Tensor:
        return normalize(part.detach()) if is_first else normalize(part).detach()

    setup = attention_setup(WRITINGS[0], {"query": normalize, "key": detached}, fused=True)
    (finding,) = rule_faults(setup, "M320")
    assert "detached" in finding.message


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_m320_normalized_queries_and_keys_are_quiet(name: str) -> None:
    normalize = NORMALIZATIONS[name]
    setup = attention_setup(WRITINGS[0], {"query": normalize, "key": normalize}, fused=True)
    assert rule_findings(setup, "M320") == []


@every_writing
def test_m321_head_multiplied_by_zero_fires(writing: str) -> None:
    (finding,) = rule_faults(attention_setup(writing, {"mixed": without_first_head}), "M321")
    assert finding.evidence["silent"] == [0]


@every_writing
def test_m321_heads_with_equal_weights_fire(writing: str) -> None:
    (finding,) = rule_faults(with_equal_heads(attention_setup(writing)), "M321")
    assert finding.evidence["equal"] == [0, 1, 2, 3]


@every_writing
def test_m322_queries_scaled_before_scaled_scores_fire(writing: str) -> None:
    (finding,) = rule_faults(attention_setup(writing, {"query": lambda query: query * 4**-0.5}), "M322")
    assert finding.evidence["factors"] == [0.5, 0.5]


@by_hand
@pytest.mark.parametrize(
    ("factor", "weight", "is_normal", "severity"),
    [(1, 1, False, "note"), (1, 8, False, "warning"), (1, 8, True, "note"), (2, 8, True, "warning")],
)
def test_m322_large_scores_without_scale_are_a_warning(
    writing: str, factor: int, weight: int, is_normal: bool, severity: str
) -> None:
    setup = attention_setup(writing, {"weights": lambda scores: torch.softmax(scores * factor, dim=-1)})
    with torch.no_grad():
        for name, parameter in setup.eager_model.named_parameters():
            if "projections.0" in name:
                parameter.copy_(torch.randn_like(parameter) * parameter.std() if is_normal else parameter).mul_(weight)
    (finding,) = rule_findings(setup, "M322")
    assert finding.severity == severity


@by_hand
@pytest.mark.parametrize("axis", [1, 2])
def test_l206_softmax_over_heads_or_queries_fires(writing: str, axis: int) -> None:
    setup = attention_setup(writing, {"weights": lambda scores: torch.softmax(scores / 2, dim=axis)})
    assert rule_faults(setup, "L206")


def linear_attention(scores: Tensor) -> Tensor:
    positive = nn.functional.elu(scores) + 1
    return positive / positive.sum(-1, keepdim=True)


def biased_softmax(scores: Tensor) -> Tensor:
    distance = torch.arange(6)[:, None] - torch.arange(6)
    slopes = 2.0 ** -torch.arange(1, 5)
    return scaled_softmax(scores - 2 * slopes[:, None, None] * distance.abs())


def windowed_softmax(scores: Tensor) -> Tensor:
    distance = torch.arange(6)[:, None] - torch.arange(6)
    return scaled_softmax(scores.masked_fill((distance < 0) | (distance > 2), float("-inf")))


def padded_softmax(scores: Tensor) -> Tensor:
    """Exclude the last two keys, and all keys of the last two queries, by a mask that is added in place."""
    mask = torch.zeros(6, 6)
    mask[:, 4:] = mask[4:] = -1e10
    scores += mask
    return torch.softmax(scores, dim=-1)


class WidthFirst(nn.Module):
    """Attention of eight queries over tokens, with the width of a head before the heads and the positions."""

    def __init__(self, keys_last: bool) -> None:
        super().__init__()
        self.keys_last, self.embed, self.queries = keys_last, nn.Embedding(12, 16), nn.Parameter(torch.randn(1, 16, 8))
        self.key, self.value, self.head = nn.Conv1d(16, 16, 1), nn.Conv1d(16, 16, 1), nn.Linear(128, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).transpose(1, 2)
        query, key, value = (
            part.unflatten(1, (4, 4)) for part in (self.queries.expand(len(x), -1, -1), self.key(x), self.value(x))
        )
        if self.keys_last:
            weights = torch.softmax(torch.einsum("bdhq,bdhk->bhqk", query, key) / 2, dim=-1)
            mixed = torch.einsum("bhqk,bdhk->bdhq", weights, value)
        else:
            weights = torch.softmax(torch.einsum("bdhk,bdhq->bhkq", key, query) / 2, dim=2)
            mixed = torch.einsum("bhkq,bdhk->bdhq", weights, value)
        scores: Tensor = self.head(mixed.flatten(1))
        return scores


HEALTHY: dict[str, Callable[[], Setup]] = {
    **{writing: partial(attention_setup, writing) for writing in WRITINGS},
    "one layer for queries, keys and values": partial(attention_setup, "torch", fused=True),
    "norm after the sum": partial(attention_setup, "torch", post_norm=True),
    "one key and value for all heads": partial(
        attention_setup, "torch", dict.fromkeys(("key", "value"), lambda part: part[:, :1].expand(-1, 4, -1, -1))
    ),
    "scale split between queries and keys": partial(
        attention_setup,
        "products",
        {
            **dict.fromkeys(("query", "key"), lambda part: part * 4**-0.25),
            "weights": lambda scores: torch.softmax(scores, dim=-1),
        },
    ),
    "cosine": partial(attention_setup, "einsum", dict.fromkeys(("query", "key"), nn.functional.normalize)),
    "linear biases": partial(attention_setup, "products", {"weights": biased_softmax}),
    "padded": partial(
        attention_setup,
        "einsum",
        {"query": lambda part: part / 2, "weights": padded_softmax},
    ),
    "window": partial(attention_setup, "einsum", {"weights": windowed_softmax}),
    "without softmax": partial(attention_setup, "products", {"weights": linear_attention}),
    "queries that start at zero": lambda: with_zero_queries(attention_setup("products")),
    "fused queries that start at zero": lambda: with_zero_queries(attention_setup("torch", fused=True)),
    **{
        f"width first, keys last {keys_last}": lambda keys_last=keys_last: minimal_setup(
            WidthFirst(keys_last), TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss()
        )
        for keys_last in (True, False)
    },
    "layers of torch": lambda: minimal_setup(
        AttentionLanguageModel(True),
        TOKENS.clamp(max=10),
        TOKENS.clamp(max=10),
        lambda logits, tokens: nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()),
    ),
}


@pytest.mark.parametrize("build", HEALTHY.values(), ids=list(HEALTHY))
@pytest.mark.parametrize("code", ["M320", "M321", "M322", "L206"])
def test_attention_rules_are_silent_on_healthy_variants(code: str, build: Callable[[], Setup]) -> None:
    assert rule_faults(build(), code) == []


class ConstantQueries(nn.Module):
    """A decoder of tokens, as in DETR: its queries start at zero, and their places have small first weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places, self.head = nn.Embedding(12, 16), nn.Embedding(4, 16), nn.Linear(16, 3)
        self.own, self.cross = (nn.ModuleList(nn.Linear(16, 16) for _ in range(4)) for _ in range(2))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        memory, places = self.embed(tokens), self.places.weight.expand(len(tokens), -1, -1)
        queries = torch.zeros_like(places)
        for layers, source in ((self.own, None), (self.cross, memory), (self.own, None)):
            keys = queries + places if source is None else source
            values = queries if source is None else source
            scores = layers[0](queries + places) @ layers[1](keys).transpose(1, 2) / 4
            queries = queries + layers[3](scores.softmax(-1) @ layers[2](values))
        scores: Tensor = self.head(queries.mean(1))
        return scores


def test_m320_queries_of_decoder_that_start_equal_are_silent() -> None:
    torch.manual_seed(0)
    setup = minimal_setup(ConstantQueries(), TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())
    assert rule_faults(setup, "M320") == []


def first_expanded(part: Tensor) -> Tensor:
    return part[..., :1, :].expand_as(part)


@pytest.mark.parametrize("writing", ["products", "torch"])
@pytest.mark.parametrize("change", [first_expanded, averaged], ids=["first", "mean"])
def test_m320_one_query_for_all_positions_fires(writing: str, change: Callable[[Tensor], Tensor]) -> None:
    (finding,) = rule_faults(attention_setup(writing, {"query": change}), "M320")
    assert "same query" in finding.message
    assert finding.evidence["attentions"] == 2


def rolled_by_hand(part: Tensor) -> Tensor:
    return torch.cat([part[..., -2:, :], part[..., :-2, :]], -2)


@pytest.mark.parametrize("writing", ["products", "torch"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("part", "change", "distance"),
    [
        ("value", lambda value: value.roll(1, -2), 1),
        ("value", rolled_by_hand, 2),
        ("key", lambda value: value.roll(-1, -2), 1),
    ],
    ids=["values", "by hand", "keys"],
)
def test_m320_values_of_other_positions_are_a_warning(
    writing: str, fused: bool, part: str, change: Callable[[Tensor], Tensor], distance: int
) -> None:
    (finding,) = rule_faults(attention_setup(writing, {part: change}, fused=fused), "M320")
    assert finding.severity == "warning"
    assert finding.evidence["distance"] == distance


def shifted(part: Tensor) -> Tensor:
    """Move by one position and fill the free one with zeros, as a memory of following tokens does."""
    return F.pad(part, (0, 0, 1, 0))[..., :-1, :]


def mixed_with_neighbor(part: Tensor) -> Tensor:
    return (part + shifted(part)) / 2


@pytest.mark.parametrize("writing", ["products", "torch"])
@pytest.mark.parametrize(
    "changes",
    [
        {"value": shifted},
        {"key": mixed_with_neighbor},
        {"key": lambda part: part.roll(1, -2), "value": lambda part: part.roll(1, -2)},
        {"query": lambda part: part.roll(1, -2)},
        {"value": lambda part: part.detach().roll(0, -2)},
    ],
    ids=["values shifted", "keys smeared", "both rolled", "queries rolled", "roll by none"],
)
def test_m320_other_shifts_are_quiet(writing: str, changes: dict[str, Callable[[Tensor], Tensor]]) -> None:
    assert rule_faults(attention_setup(writing, changes), "M320") == []
