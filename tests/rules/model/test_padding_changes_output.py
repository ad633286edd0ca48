"""M310 in many styles, and models that keep padding out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

Y = points()[1]
LENGTHS = 2 + torch.arange(64) % 5
MASK = torch.arange(6) < LENGTHS.unsqueeze(1)
TOKENS = torch.randint(2, 11, (64, 6), generator=torch.Generator().manual_seed(1)) * MASK


class Reader(nn.Module):
    """Scores by a function of the model, the embedded tokens and what tells of padding."""

    def __init__(self, function: Callable[..., Tensor], layer: nn.Module | None = None, width: int = 8) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(20, 8, padding_idx=0), layer or nn.Identity()
        self.head, self.function = nn.Linear(width, 3), function

    def forward(self, tokens: Tensor, told: Tensor | None = None) -> Tensor:
        return self.head(self.function(self, self.embed(tokens), tokens != 0 if told is None else told))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def mean(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    return self.layer(x).mean(1) + told[:, :1] * 0.0


def masked_mean(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    weights = told.unsqueeze(2).float()
    return (x * weights).sum(1) / weights.sum(1)


def attended(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    return self.layer(x, src_key_padding_mask=~told.bool())[:, 0]


def inverted(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    return self.layer(x, src_key_padding_mask=told.bool())[:, 0]


def last_state(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    return self.layer(x)[0][:, -1] + told.unsqueeze(1) * 0.0


def packed(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    return self.layer(pack_padded_sequence(x, told, batch_first=True, enforce_sorted=False))[1][0]


def states(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    return self.layer(x)[0] + told.unsqueeze(2) * 0.0


def told(
    model: nn.Module, mask: Tensor, y: Tensor = Y, loss_fn: Any = None, tokens: Tensor = TOKENS
) -> Callable[[], Setup]:
    parts = [(tokens[i : i + 16], mask[i : i + 16], y[i : i + 16]) for i in range(0, 64, 16)]
    return lambda: Setup(model, parts, loss_fn=loss_fn or nn.CrossEntropyLoss())


def alone(model: nn.Module, tokens: Tensor = TOKENS) -> Callable[[], Setup]:
    return lambda: minimal_setup(model, tokens, Y, nn.CrossEntropyLoss())


def by_token(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())


FAULTS: dict[str, Callable[[], Setup]] = {
    "mean": told(Reader(mean), MASK),
    "mask the wrong way round": told(Reader(inverted, encoder()), MASK.long()),
    "last state": told(Reader(last_state, nn.GRU(8, 8, batch_first=True)), LENGTHS),
    "both ways": told(Reader(states, nn.GRU(8, 4, batch_first=True, bidirectional=True)), MASK, TOKENS % 3, by_token),
}


@pytest.mark.parametrize("name", FAULTS)
def test_padding_that_matters_is_found(name: str) -> None:
    (found,) = checkup_findings(FAULTS[name](), "M310")
    assert found.severity == "error"


def test_padding_known_by_the_embedding_alone_is_a_note() -> None:
    assert [one.severity for one in checkup_findings(alone(Reader(mean))(), "M310")] == ["note"]


def packed_in_full(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    whole = torch.full((len(x),), x.shape[1])
    return self.layer(pack_padded_sequence(x, whole, batch_first=True))[1][0]


def test_sequences_that_are_packed_with_their_padding_are_a_warning() -> None:
    (found,) = checkup_findings(alone(Reader(packed_in_full, nn.GRU(8, 8, batch_first=True)))(), "M310")
    assert found.severity == "warning"
    assert "pack_padded_sequence" in (found.where.source or "")


def scored_upside_down(self: Reader, x: Tensor, told: Tensor) -> Tensor:
    scores = x.sum(2)
    scores = scores.masked_fill(told.bool(), -1e9)
    weights = scores.softmax(1)
    return (weights.unsqueeze(2) * x).sum(1)


PLACES = {
    "mean": (Reader(mean), MASK, ".mean(1)"),
    "mask the wrong way round": (Reader(inverted, encoder()), MASK, "src_key_padding_mask=told.bool()"),
    "mask by hand": (Reader(scored_upside_down), MASK, "masked_fill(told.bool()"),
    "last state": (Reader(last_state, nn.GRU(8, 8, batch_first=True)), LENGTHS, "[:, -1]"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_line_is_where_padding_comes_to_what_is_real(name: str) -> None:
    model, mask, line = PLACES[name]
    (found,) = checkup_findings(told(model, mask)(), "M310")
    assert line in (found.where.source or "")


class Bag(nn.Module):
    """A bag of embeddings, which leaves padding out by its index."""

    def __init__(self, padding_idx: int) -> None:
        super().__init__()
        self.embed, self.head = nn.EmbeddingBag(20, 8, padding_idx=padding_idx), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, told: Tensor) -> Tensor:
        return self.head(self.embed(tokens))


def test_a_bag_whose_index_is_another_is_found() -> None:
    (found,) = checkup_findings(told(Bag(19), MASK)(), "M310")
    assert found.where.module == "embed"


QUIET: dict[str, Callable[[], Setup]] = {
    "masked mean": told(Reader(masked_mean), MASK),
    "masked attention": told(Reader(attended, encoder()), MASK),
    "packed": told(Reader(packed, nn.GRU(8, 8, batch_first=True)), LENGTHS),
    "states at real places": told(Reader(states, nn.GRU(8, 8, batch_first=True)), MASK, TOKENS % 3, by_token),
    "mask of the tokens": alone(Reader(attended, encoder())),
    "second segment": told(Reader(mean), torch.arange(6) >= LENGTHS.unsqueeze(1), tokens=TOKENS + torch.arange(1, 7)),
    "left out by a bag": told(Bag(0), MASK),
    "nothing padded": alone(Reader(mean), TOKENS.clamp(min=1)),
}


@pytest.mark.parametrize("name", QUIET)
def test_padding_that_is_kept_out_is_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "M310") == []
