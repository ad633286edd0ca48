"""M305 in many styles, and sequence models that may read everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import AttentionLanguageModel, next_token_loss
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

TOKENS = torch.randint(1, 11, (64, 10), generator=torch.Generator().manual_seed(1))
WAVES = torch.randn(64, 10, 4, generator=torch.Generator().manual_seed(2))
BOTH_WAYS = {"batch_first": True, "bidirectional": True}


class Tagger(nn.Module):
    """Scores at every place, by a function of the embedded tokens."""

    def __init__(self, layer: nn.Module, function: Callable[[nn.Module, Tensor], Tensor], width: int = 8) -> None:
        super().__init__()
        self.embed, self.layer, self.head = nn.Embedding(11, 8), layer, nn.Linear(width, 11)
        self.function = function

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.function(self.layer, self.embed(tokens)))


class WithLabels(nn.Module):
    """Computes its loss itself, shifting the labels."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.inner = AttentionLanguageModel(causal)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.inner(input_ids)
        return {"logits": logits, "loss": shifted(logits, labels)}


def shifted(logits: Tensor, labels: Tensor) -> Tensor:
    return next_token_loss(logits[:, :-1], labels[:, 1:])


def run(layer: Any, x: Tensor) -> Tensor:
    return layer(x)[0]


def convolved(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x.transpose(1, 2)).transpose(1, 2)


def left_padded(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)


def attended(causal: bool) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda layer, x: F.scaled_dot_product_attention(layer(x), x, x, is_causal=causal)


def by_hand(layer: nn.Module, x: Tensor) -> Tensor:
    weights = (layer(x) @ x.transpose(1, 2)).tril()
    return weights @ x


def text(
    model: nn.Module, loss_fn: Any = next_token_loss, x: Tensor = TOKENS[:, :-1], y: Tensor = TOKENS[:, 1:]
) -> Any:
    return lambda: minimal_setup(model, x, y, loss_fn)


def own_loss(causal: bool) -> Setup:
    batches = [{"input_ids": TOKENS[i : i + 16], "labels": TOKENS[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(WithLabels(causal), batches)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "bidirectional": (text(Tagger(nn.LSTM(8, 4, **BOTH_WAYS), run)), "layer"),
    "same padding": (text(Tagger(nn.Conv1d(8, 8, 3, padding=1), convolved)), "layer"),
    "functional attention": (text(Tagger(nn.Linear(8, 8), attended(False))), ""),
    "loss of the model": (lambda: own_loss(False), "inner.attention"),
    "shift in the loss": (text(AttentionLanguageModel(False), shifted, TOKENS, TOKENS), "attention"),
    "bf16": (text(AttentionLanguageModel(False).bfloat16()), "attention"),
    "real values": (text(nn.GRU(4, 2, **BOTH_WAYS), lambda o, y: F.mse_loss(o[0], y), WAVES[:, :-1], WAVES[:, 1:]), ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_leak_is_found_and_placed(name: str) -> None:
    build, module = FAULTS[name]
    (found,) = checkup_findings(build(), "M305")
    assert found.severity == "error"
    assert found.where.module == (module or None)


def scored(mask: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    def attend(layer: nn.Module, x: Tensor) -> Tensor:
        scores = layer(x) @ x.transpose(1, 2) / 8**0.5
        scores = mask(scores)
        weights = scores.softmax(-1)
        return weights @ x

    return attend


def upside_down(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones(9, 9).tril(-1).bool(), -torch.inf)


def one_too_far(scores: Tensor) -> Tensor:
    return scores + torch.full((9, 9), -torch.inf).triu(2)


BY_HAND = {
    "no mask": (lambda scores: scores, "scores.softmax(-1)"),
    "upside down": (upside_down, "tril(-1)"),
    "one too far": (one_too_far, "triu(2)"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_attention_by_hand_is_blamed_at_its_mask_or_softmax(name: str) -> None:
    mask, line = BY_HAND[name]
    (found,) = checkup_findings(text(Tagger(nn.Linear(8, 8), scored(mask)))(), "M305")
    assert line in (found.where.source or "")


QUIET: dict[str, Callable[[], Setup]] = {
    "lstm": text(Tagger(nn.LSTM(8, 8, batch_first=True), run)),
    "causal convolution": text(Tagger(nn.Conv1d(8, 8, 3), left_padded)),
    "causal attention": text(Tagger(nn.Linear(8, 8), attended(True))),
    "masked by hand": text(Tagger(nn.Linear(8, 8), by_hand)),
    "loss of the model": lambda: own_loss(True),
    "tagger that reads both ways": text(AttentionLanguageModel(False), y=(TOKENS[:, :-1] * 3) % 11),
    "masked tokens": text(AttentionLanguageModel(False), x=TOKENS * (torch.rand(64, 10) > 0.2), y=TOKENS),
    "length first": text(Tagger(nn.LSTM(8, 8), run), x=TOKENS.t()[:-1], y=TOKENS.t()[1:]),
}


@pytest.mark.parametrize("name", QUIET)
def test_models_that_may_read_on_are_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "M305") == []
