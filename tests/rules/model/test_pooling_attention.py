"""Tests of M322 and G402 for attentions with one query for each sample, whose scores have no axis of queries."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.measurements import Measurements
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

Pool = Callable[[Tensor, Tensor, Tensor], Tensor]


def einsum_times_root(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("bd,btd->bt", query, key)
    scores = scores * math.sqrt(query.shape[-1])
    return torch.einsum("bt,btd->bd", torch.softmax(scores, dim=-1), value)


def einsum_over_root(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = torch.einsum("bd,btd->bt", query, key) / math.sqrt(query.shape[-1])
    return torch.einsum("bt,btd->bd", torch.softmax(scores, dim=-1), value)


def squeezed_times_root(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = (query[:, None] @ key.transpose(1, 2)).squeeze(1)
    weights = torch.softmax(math.sqrt(query.shape[-1]) * scores, dim=-1)
    return torch.einsum("bt,btd->bd", weights, value)


def squeezed_over_root(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = (query[:, None] @ key.transpose(1, 2)).squeeze(1) / math.sqrt(query.shape[-1])
    return (torch.softmax(scores, dim=-1)[:, None] @ value).squeeze(1)


class Pooling(nn.Module):
    """Reads one of several items by a query that the first item makes."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool
        self.query, self.key, self.value = nn.Linear(8, 64), nn.Linear(8, 64), nn.Linear(8, 64)
        self.head = nn.Linear(64, 1)

    def forward(self, items: Tensor) -> Tensor:
        pooled = self.pool(self.query(items[:, 0]), self.key(items), self.value(items))
        result: Tensor = self.head(pooled)
        return result


def pooling_setup(pool: Pool) -> Setup:
    items = 2 * torch.randn(64, 9, 8, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return minimal_setup(Pooling(pool), items, items[:, 1:2, 0], nn.MSELoss())


@pytest.mark.parametrize(
    ("pool", "line", "change"),
    [
        (einsum_times_root, "scores = scores * math.sqrt(query.shape[-1])", "/"),
        (squeezed_times_root, "weights = torch.softmax(math.sqrt(query.shape[-1]) * scores, dim=-1)", None),
    ],
)
def test_m322_scores_of_one_query_times_root_fire_at_the_multiplication(
    pool: Pool, line: str, change: str | None
) -> None:
    (finding,) = rule_findings(pooling_setup(pool), "M322")
    assert (finding.severity, (finding.where.source or "").strip()) == ("warning", line)
    assert finding.evidence["ratio"] == pytest.approx(64)
    assert [edit.text.strip() for edit in finding.edits] == ([change] if change else [])


@pytest.mark.parametrize("pool", [einsum_times_root, squeezed_times_root])
def test_g402_saturated_softmax_of_one_query_fires(pool: Pool) -> None:
    (finding,) = rule_findings(pooling_setup(pool), "G402")
    assert finding.evidence["call"] == "softmax"


@pytest.mark.parametrize("code", ["M320", "M321", "M322", "L206", "G402"])
@pytest.mark.parametrize("pool", [einsum_over_root, squeezed_over_root])
def test_divided_scores_of_one_query_are_silent(pool: Pool, code: str) -> None:
    assert not rule_findings(pooling_setup(pool), code)


def test_m322_spread_includes_scores_whose_weights_are_rounded_to_zero() -> None:
    (finding,) = rule_findings(pooling_setup(einsum_times_root), "M322")
    (healthy_spread,) = [item.spread for item in Measurements(pooling_setup(einsum_over_root))["attention_effects"]]
    assert finding.evidence["spread"] == pytest.approx(64 * healthy_spread, rel=1e-3)
