"""M304 in many styles, and models that mix samples by design."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import classifier, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, setup_builder

X, Y = points()
SERIES = torch.randn(64, 6, 8, generator=torch.Generator().manual_seed(2))
TOKENS = torch.randint(0, 11, (64, 7), generator=torch.Generator().manual_seed(1))
CE = nn.CrossEntropyLoss()


class Around(nn.Module):
    """A layer with functions before and after it, and a linear head."""

    def __init__(
        self, layer: nn.Module, width: int, before: Any = None, after: Any = None, embed: bool = False
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8) if embed else nn.Identity()
        self.layer, self.head = layer, nn.Linear(width, 3)
        self.before, self.after = before or (lambda x: x), after or (lambda x: x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.after(self.layer(self.before(self.embed(x)))))


class Attending(nn.Module):
    """One head of attention by torch's own layer."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def encoder(batch_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=batch_first)


def first(x: Tensor) -> Tensor:
    return x[:, 0]


def states(result: Any) -> Tensor:
    return result[0][:, -1]


def by_attention(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.t() / 2, dim=1) @ x


def named() -> Setup:
    batches = [{"series": SERIES[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(Around(nn.LSTM(8, 5), 5, after=states), batches, loss_fn=CE)


def stream(place: int) -> tuple[Tensor, Tensor]:
    return TOKENS.t()[place : place + 5], TOKENS.t()[place + 1 : place + 6]


def length_first() -> Setup:
    model = Around(nn.LSTM(8, 11), 11, after=lambda result: result[0], embed=True)
    model.head = nn.Linear(11, 11)
    return Setup(model, [stream(0), stream(1)], loss_fn=lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()))


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "lstm, dict batches": (named, "layer"),
    "encoder": (setup_builder(Around(encoder(False), 8, after=first, embed=True), TOKENS), "layer.self_attn"),
    "attention": (setup_builder(Around(Attending(), 8, after=first), SERIES), "layer.attention"),
    "view for transpose": (
        setup_builder(Around(nn.GRU(8, 5), 5, lambda x: x.view(6, -1, 8), lambda r: r[1][0]), SERIES),
        "layer",
    ),
    "softmax over samples": (setup_builder(network(3, nn.Softmax(dim=0))), "3"),
    "functional, bf16": (
        setup_builder(nn.Sequential(network(8, nn.Linear(8, 3)), nn.Softmax(0)).bfloat16(), X.bfloat16()),
        "1",
    ),
    "divided by norms of columns": (setup_builder(Around(nn.Linear(4, 8), 8, after=lambda h: h / h.norm(dim=0))), ""),
    "normalized by column": (
        setup_builder(Around(nn.Linear(4, 8), 8, after=lambda h: F.normalize(h.relu(), dim=0))),
        "",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_mixing_is_found_and_placed(name: str) -> None:
    build, module = FAULTS[name]
    (found,) = checkup_findings(build(), "M304")
    assert found.severity == "error"
    assert found.where.module == (module or None)


BY_DESIGN: dict[str, Callable[[], Setup]] = {
    "attention written out": setup_builder(Around(nn.Linear(4, 8), 8, after=by_attention)),
    "encoder over the batch": setup_builder(Around(encoder(False), 8, lambda x: x[:, :1], first), SERIES),
    "standardized by hand": setup_builder(
        Around(nn.Linear(4, 8), 8, after=lambda h: (h - h.mean(0)) / (h.std(0) + 1e-3))
    ),
    "batch norm without running statistics": setup_builder(Around(nn.BatchNorm1d(4, track_running_stats=False), 4)),
}


@pytest.mark.parametrize("name", BY_DESIGN)
def test_mixing_on_purpose_is_a_note(name: str) -> None:
    assert [one.severity for one in checkup_findings(BY_DESIGN[name](), "M304")] == ["note"]


QUIET: dict[str, Callable[[], Setup]] = {
    "batch norm": setup_builder(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))),
    "dropout": lambda: classifier(nn.Dropout(0.5)),
    "batch-first encoder": setup_builder(Around(encoder(True), 8, after=first, embed=True), TOKENS),
    "transposed": setup_builder(Around(nn.GRU(8, 5), 5, lambda x: x.transpose(0, 1), lambda r: r[1][0]), SERIES),
    "instance norm": setup_builder(Around(nn.InstanceNorm1d(6), 8, after=first), SERIES),
    "heads by reshape": setup_builder(
        Around(nn.Linear(8, 8), 8, after=lambda h: h.view(-1, 6, 2, 4).transpose(1, 2)[:, :, 0].flatten(1)), SERIES
    ),
    "loss over pairs": setup_builder(
        network(3), loss_fn=lambda out, y: F.cross_entropy(out @ out.t(), torch.arange(len(out)))
    ),
    "length first": length_first,
}


@pytest.mark.parametrize("name", QUIET)
def test_models_that_keep_samples_apart_are_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "M304") == []


class Joined(nn.Module):
    """Two branches, joined along an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([self.first(x).relu(), self.second(x).tanh()], dim=0)
        both = both.view(len(x), -1)
        return self.head(both)


def test_the_line_is_the_one_that_deals_samples_into_each_other() -> None:
    (found,) = checkup_findings(setup_builder(Joined())(), "M304")
    assert "torch.cat" in (found.where.source or "")
    assert found.where.module == "head"
