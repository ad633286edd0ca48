"""L206 on attention that shares out along another axis than it sums over, and on others that do so rightly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import points
from tests.rules.rule_findings import checkup_findings, setup_builder

SERIES = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(2))
Y = points()[1]


class Attending(nn.Module):
    """A head on what a function of queries, keys and values gives, averaged over places."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attend, self.head = attend, nn.Linear(8, 3)
        self.query, self.key, self.value = (nn.Linear(4, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attend(self.query(x), self.key(x), self.value(x)).mean(1))


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(1, 2) / 8**0.5).softmax(1) @ v


def in_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.unflatten(2, (2, 4)).transpose(1, 2) for t in (q, k, v))
    scores = torch.matmul(q, k.transpose(-2, -1)) * 0.5
    weights = F.dropout(F.softmax(scores.masked_fill(torch.eye(6).bool(), -1e9), dim=2), 0.1)
    return torch.matmul(weights, v).transpose(1, 2).flatten(2)


def over_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(v.transpose(1, 2), torch.bmm(k, q.transpose(1, 2)).softmax(2)).transpose(1, 2)


@pytest.mark.parametrize("attend", [over_queries, in_heads, over_values])
def test_a_softmax_over_the_queries_is_a_warning_at_its_line(attend: Callable[..., Tensor]) -> None:
    (found,) = checkup_findings(setup_builder(Attending(attend), SERIES, Y)(), "L206")
    assert found.severity == "warning"
    assert "softmax" in (found.where.source or "")


def over_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout((q @ k.transpose(1, 2)).softmax(-1), 0.1) @ v


def from_the_right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (v.transpose(1, 2) @ (k @ q.transpose(1, 2)).softmax(1)).transpose(1, 2)


def both_ways(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(1, 2)
    return scores.softmax(2) @ v + scores.softmax(1).transpose(1, 2) @ v


def slots(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.transpose(1, 2)).softmax(1)
    return (weights / weights.sum(2, keepdim=True)) @ v


def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(2) @ (k.softmax(1).transpose(1, 2) @ v)


def pooled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(2).transpose(1, 2) @ v


@pytest.mark.parametrize("attend", [over_keys, from_the_right, both_ways, slots, linear, pooled])
def test_attention_over_what_is_summed_is_left_alone(attend: Callable[..., Tensor]) -> None:
    assert checkup_findings(setup_builder(Attending(attend), SERIES, Y)(), "L206") == []
