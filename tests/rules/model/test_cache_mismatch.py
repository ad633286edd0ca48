"""Tests of M324: decoders whose cache is wrong, and decoders whose cache is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import next_token_loss
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults, rule_findings

TOKENS = torch.randint(0, 11, (64, 11), generator=torch.Generator().manual_seed(1))
Join = Callable[[Tensor, Tensor], Tensor]


def appended(past: Tensor, new: Tensor) -> Tensor:
    return torch.cat([past, new], dim=1)


class Output(NamedTuple):
    logits: Tensor
    past_key_values: list[tuple[Tensor, Tensor]]


class Layer(nn.Module):
    """A causal attention that joins the keys and values of the past with new ones."""

    def __init__(self, join: Join, sees_past: bool) -> None:
        super().__init__()
        self.join, self.sees_past = join, sees_past
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        key, value = self.key(x), self.value(x)
        if past is not None:
            key, value = self.join(past[0], key), self.join(past[1], value)
        start = key.shape[1] - x.shape[1] if self.sees_past else 0
        keep = torch.ones(x.shape[1], key.shape[1], dtype=torch.bool).tril(start)
        return x + F.scaled_dot_product_attention(self.query(x), key, value, attn_mask=keep), (key, value)


class Decoder(nn.Module):
    """Two layers, with positions that start at the length of the cache."""

    def __init__(self, join: Join = appended, sees_past: bool = True, continued: bool = True, shared: bool = False):
        super().__init__()
        self.continued, self.shared = continued, shared
        self.embed, self.place, self.head = nn.Embedding(11, 8), nn.Embedding(16, 8), nn.Linear(8, 11)
        self.layers = nn.ModuleList(Layer(join, sees_past) for _ in range(2))

    def decode(self, tokens: Tensor, past: list[tuple[Tensor, Tensor]] | None) -> Output:
        start = past[0][0].shape[1] if past is not None and self.continued else 0
        positions = torch.arange(start, start + tokens.shape[1])
        x = self.embed(tokens) + self.place(positions)
        new = []
        for index, layer in enumerate(self.layers):
            x, entry = layer(x, past[0 if self.shared else index] if past is not None else None)
            new.append(entry)
        return Output(self.head(x), new)


class ByKeyword(Decoder):
    """Returns a dictionary with the cache if asked for it."""

    def forward(self, tokens: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        output = self.decode(tokens, past_key_values)
        return output._asdict() if use_cache else output.logits


class Always(Decoder):
    """Returns the cache always."""

    def forward(self, tokens: Tensor, state: Any = None) -> Output:
        return self.decode(tokens, state)


def decoder_setup(model: nn.Module) -> Setup:
    loss_fn = next_token_loss if isinstance(model, ByKeyword) else first_output_loss
    return minimal_setup(model, TOKENS[:, :-1], TOKENS[:, 1:], loss_fn)


def first_output_loss(output: Output, targets: Tensor) -> Tensor:
    return next_token_loss(output[0], targets)


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"join": lambda past, new: torch.cat([past.roll(1, 0), new], dim=1)}, "torch.cat([past.roll"),
    ({"join": lambda past, new: new}, "F.scaled_dot_product_attention"),
    ({"continued": False}, "positions = torch.arange"),
    ({"shared": True}, "torch.cat([past, new]"),
    ({"sees_past": False}, "keep = torch.ones"),
]


@pytest.mark.parametrize("kind", [ByKeyword, Always])
@pytest.mark.parametrize(
    ("fault", "source"), FAULTS, ids=["other sample", "past forgotten", "positions restart", "one cache", "first only"]
)
def test_m324_wrong_cache_fires(fault: dict[str, Any], source: str, kind: type[Decoder]) -> None:
    (finding,) = rule_faults(decoder_setup(kind(**fault)), "M324")
    assert finding.evidence["difference"] > 0.001
    assert source in (finding.where.source or "")


class Recurrent(nn.Module):
    """Returns a state that is no cache of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gru, self.head = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 11)

    def forward(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, state = self.gru(self.embed(tokens), state)
        return self.head(x), state


@pytest.mark.parametrize("model", [ByKeyword(), Always(), Recurrent()], ids=["keyword", "always", "recurrent"])
def test_m324_right_cache_is_silent(model: nn.Module) -> None:
    assert rule_findings(decoder_setup(model), "M324") == []


def test_m324_leaves_the_generator_and_the_modes_of_the_model() -> None:
    setup = decoder_setup(ByKeyword(continued=False))
    setup.eager_model.layers[0].eval()  # type: ignore[union-attr, index, operator]
    state = torch.get_rng_state()
    rule_faults(setup, "M324")
    assert torch.equal(state, torch.get_rng_state())
    assert [module.training for module in setup.eager_model.layers] == [False, True]  # type: ignore[union-attr]
