"""M324: decoding with a cache gives other outputs than the pass over all tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.measurements.cached_decoding import CachedDecoding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import next_token_loss
from nbdebug.setup import Setup


@rule("M324", "error")
def cache_mismatch(cached_decoding: CachedDecoding) -> Iterator[Finding]:
    """Decoding with a cache gives other outputs than the pass over all tokens.

    ## What it does
    Passes the first half of a few sequences to the model, then single tokens together with the cache that it returned,
    and compares the outputs with those of one pass over all of these tokens.

    ## Why it matters
    Training and validation use the pass over all tokens, so no loss and no metric shows the fault. Only the generated
    text is worse.

    ## How it is measured
    In eval mode. The cache is found by trying: a part of the output, beside the scores, with an entry for each token,
    that an argument of ``forward`` with the default None takes together with the next token. Arguments with the default
    False are tried as the switch that makes the model return it. Outputs count as different beyond a thousandth of the
    largest. The reported line is the first one whose result differs between the two ways. Models whose output depends
    on later tokens, and models that keep the cache in themselves, are not checked.

    ## How to fix
    Put new keys and values behind the cached ones of the same layer, continue to count positions at the length of the
    cache, and let each new query attend to all cached keys.

    ## When to ignore
    When the cache is an approximation on purpose, such as one that drops old tokens.

    ## References
    Pope et al. 2022, arXiv:2211.05102: the cache of keys and values.
    """
    if cached_decoding.step is None:
        return
    yield Finding(
        message=f"Decoding with the cache differs from the pass over all tokens: {cached_decoding.steps} tokens after "
        f"a prefix of {cached_decoding.prefix}, with the cache passed as {cached_decoding.argument!r}, change the "
        f"outputs by up to {cached_decoding.difference:.2g} of the largest (limit 0.001).",
        where=cached_decoding.where,
        cause="The positions, the order or the layer of the cached keys and values are not those of the full pass.",
        fix="k = torch.cat([past_k, k], dim=2)   # the past first; positions start at past_k.shape[2]",
        evidence={
            "argument": cached_decoding.argument,
            "prefix": cached_decoding.prefix,
            "tokens": cached_decoding.steps,
            "limit": 0.001,
            "difference": cached_decoding.difference,
            "step": cached_decoding.step,
        },
    )


class CachedDecoder(nn.Module):
    """A language model over 11 tokens with one attention that takes the keys and values of earlier tokens."""

    def __init__(self, continued: bool) -> None:
        super().__init__()
        self.continued, self.embed, self.place = continued, nn.Embedding(11, 8), nn.Embedding(16, 8)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 11)

    def forward(
        self, tokens: Tensor, cache: tuple[Tensor, Tensor] | None = None, use_cache: bool = False
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the logits of the next token, with the keys and values if ``use_cache``."""
        start = cache[0].shape[1] if cache is not None else 0
        first = start if self.continued else 0
        x = self.embed(tokens) + self.place(torch.arange(first, first + tokens.shape[1]))
        key, value = self.key(x), self.value(x)
        if cache is not None:
            key, value = torch.cat([cache[0], key], dim=1), torch.cat([cache[1], value], dim=1)
        keep = torch.ones(tokens.shape[1], key.shape[1], dtype=torch.bool).tril(start)
        logits: Tensor = self.head(x + F.scaled_dot_product_attention(self.query(x), key, value, attn_mask=keep))
        return (logits, (key, value)) if use_cache else logits


def _setup(continued: bool) -> Setup:
    tokens = torch.randint(0, 11, (64, 9), generator=torch.Generator().manual_seed(0))
    return minimal_setup(CachedDecoder(continued), tokens[:, :-1], tokens[:, 1:], next_token_loss)


def bad() -> Setup:
    """Positions that start at zero again behind a cache."""
    return _setup(continued=False)


def good() -> Setup:
    """Positions that continue behind a cache."""
    return _setup(continued=True)
