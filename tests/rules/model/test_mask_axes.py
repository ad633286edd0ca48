"""Tests of M310: masks of hand-written attentions that stand along the queries, and where they get their shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = 2 + torch.arange(64) % 7
REAL = torch.arange(9) < LENGTHS.unsqueeze(1)
READINGS = torch.randn(64, 9, 3, generator=GENERATOR) * REAL.unsqueeze(2)
TOKENS = torch.randint(1, 11, (64, 9), generator=GENERATOR) * REAL
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def added_along_queries(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    bias = (1.0 - real.float())[:, :, None]  # fault
    bias = bias * -1e9
    return (scores_of(q, k) + bias).softmax(-1) @ v


def filled_along_queries(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    hidden = ~real.bool().unsqueeze(2)  # fault
    scores = scores_of(q, k)
    scores = scores.masked_fill(hidden, -1e9)
    return F.softmax(scores, 2) @ v


def multiplied_along_queries(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    column = real.float().reshape(len(real), -1, 1)  # fault
    powers = scores_of(q, k).exp()
    powers = powers * column
    return torch.einsum("bqk,bkd->bqd", powers / (powers.sum(2, keepdim=True) + 1e-9), v)


def passed_along_queries(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    mask = real.bool().view(len(real), 1, -1, 1)  # fault
    heads = (t.unsqueeze(1) for t in (q, k, v))
    return F.scaled_dot_product_attention(*heads, attn_mask=mask | ~mask.any(2, keepdim=True)).squeeze(1).nan_to_num()


def mapped(weigh: Callable[[Tensor, Tensor], Tensor]) -> Attend:
    def attend(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        scores = scores_of(q, k)
        powers = (scores - scores.amax(1, keepdim=True)).exp()
        powers = weigh(powers, real)
        return (powers / (powers.sum(1, keepdim=True) + 1e-9)) @ v

    return vmap(attend)


def zero_rows(powers: Tensor, real: Tensor) -> Tensor:
    return powers * real.float()[:, None]  # fault


def filled_with_zero(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    hidden = ~real.bool().unsqueeze(1)
    scores = scores_of(q, k).masked_fill(hidden, 0.0)  # fault
    return scores.softmax(-1) @ v


def added_along_keys(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    bias = (1.0 - real.float())[:, None] * -1e9
    return (scores_of(q, k) + bias).softmax(-1) @ v


def filled_along_both(q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
    both = real.bool().unsqueeze(2) & real.bool().unsqueeze(1)
    return scores_of(q, k).masked_fill(~both, -1e9).softmax(-1) @ v


class Encoder(nn.Module):
    """A number for each sample, by the mean of its real positions after two attentions."""

    def __init__(self, attend: Attend, words: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lift = nn.Embedding(11, 8) if words else nn.Linear(3, 8)
        self.qkv, self.out = nn.ModuleList(nn.Linear(8, 24) for _ in range(2)), nn.Linear(8, 1)
        self.attend = attend

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        states = self.lift(x)
        for layer in self.qkv:
            states = states + self.attend(*layer(states).chunk(3, -1), real)
        weights = real.unsqueeze(2).float()
        return self.out((states * weights).sum(1) / weights.sum(1)).squeeze(1)


class WordEncoder(Encoder):
    """An encoder that knows the padding by its token."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        return super().forward(x, x != 0)


def findings(attend: Attend, real: Tensor | None) -> list[Finding]:
    x = TOKENS if real is None else READINGS
    y = x.float().reshape(64, -1).mean(1)
    model = WordEncoder(attend, words=True) if real is None else Encoder(attend, words=False)
    inputs = [x] if real is None else [x, real]
    widths = [7, 8, 9, 9] if real is None else [9] * 4
    parts = [
        (*(t[i : i + 16, :width] for t in inputs), y[i : i + 16])
        for i, width in zip(range(0, 64, 16), widths, strict=True)
    ]
    return checkup_findings(Setup(model, parts[::-1], loss_fn=nn.MSELoss()), "M310")


FAULTS: dict[str, Attend] = {
    "added": added_along_queries,
    "filled": filled_along_queries,
    "multiplied": multiplied_along_queries,
    "passed to torch": passed_along_queries,
    "mapped over samples": mapped(zero_rows),
    "zero for the scores of padded keys": filled_with_zero,
}
INPUTS = {"flags": REAL, "numbers": REAL.float(), "tokens": None}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", FAULTS)
def test_mask_along_the_queries_is_reported_where_it_gets_its_shape(name: str, kind: str) -> None:
    (finding,) = findings(FAULTS[name], INPUTS[kind])
    assert (finding.where.source or "").endswith("# fault")
    is_crosswise = (finding.cause or "").startswith("The mask does not vary along the axis")
    assert is_crosswise is (name != "zero for the scores of padded keys")


HEALTHY: dict[str, Attend] = {
    "added": added_along_keys,
    "both axes": filled_along_both,
    "mapped over samples": mapped(lambda powers, real: powers * real.float()),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", HEALTHY)
def test_mask_along_the_keys_is_quiet(name: str, kind: str) -> None:
    assert findings(HEALTHY[name], INPUTS[kind]) == []
