"""M320: queries, keys or values of an attention have no effect, get no gradient, or belong to other positions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.attention_effects import AttentionEffects
from nbdebug.measurements.shifted_values import ShiftedValues
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup

_CONSEQUENCES = ("G403", "G415", "G416", "M306", "T601", "T606", "T607", "T608", "T610")


@rule("M320", "error")
def dead_attention_path(
    attention_effects: list[AttentionEffects], shifted_values: list[ShiftedValues] | NotChecked
) -> Iterator[Finding]:
    """Queries, keys or values of an attention have no effect, get no gradient, or belong to other positions.

    ## What it does
    Reads the scores and the values of each attention in one pass. Reported when each query has the same score for all
    keys that it may attend to, when all positions have the same value or the same query, or when all scores or values
    are zero, in each sample and each head. Also reported when one layer makes queries, keys and values, and a part of
    them is detached, and when values are rolled along the sequence: each key then weights the value of a neighbor.

    ## Why it matters
    Equal scores make attention a plain mean, and equal values make its result the same whatever the scores are. In both
    cases queries and keys get no gradient, and the layer can never learn what to attend to. With the same query
    everywhere, all positions get the same result, apart from what a mask hides.

    ## How it is measured
    Attentions are recognized by what they compute, whoever wrote them: ``F.scaled_dot_product_attention``, or a product
    of two activations whose softmax multiplies a third one. The scores are the products before the mask, and values
    count as equal if they differ by less than a hundred-thousandth of the largest. Parameters that are all zero get
    small random values first. What is zero must be so with noise added to all parameters too, so that layers that start
    at zero on purpose are not reported. What is equal must be so with ten times that noise, and with the statistics of
    the batch in normalization layers. Values that are the same in every sample are not reported: the queries of a
    decoder may start as one constant. The position that a key or a value belongs to is the one whose gradient is not
    zero; only a shift around the ends of the sequence is reported, and as a warning.

    ## How to fix
    Compute the keys and the values from the sequence itself, one for each position, and do not average, expand or
    index them over positions.

    ## When to ignore
    When an attention is a mean on purpose, as in a baseline.

    ## References
    Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """
    uniform = [effects for effects in attention_effects if effects.is_uniform]
    uniform.sort(key=lambda effects: effects.differs_behind_mask)
    zero = [effects for effects in attention_effects if effects.is_zero]
    detached = [effects for effects in attention_effects if effects.detached_where is not None]
    constant = [effects for effects in attention_effects if effects.has_equal_values]
    equal_queries = [effects for effects in attention_effects if effects.has_equal_queries]
    if uniform:
        yield _uniform_finding(uniform, len(attention_effects))
    elif zero:
        yield Finding(
            message=f"The scores or the values of {len(zero)} of {len(attention_effects)} attentions are exactly zero, "
            "also with other weights.",
            where=zero[0].where,
            cause="A factor or a mask of zeros multiplies the queries, the keys or the values.",
            fix="# remove the factor of zero between the projections and the attention",
            evidence={"attentions": len(zero), "keys": zero[0].keys},
            explains=_CONSEQUENCES,
        )
    elif detached:
        where = detached[0].detached_where
        assert where is not None
        yield Finding(
            message=f"The queries, keys or values of {len(detached)} of {len(attention_effects)} attentions are "
            "detached, although the layer that makes them is trained by their other parts.",
            where=where,
            cause="No gradient passes this call, so a part of the rows of the layer keeps its first values.",
            fix="# remove detach() between the projection and the attention",
            evidence={"attentions": len(detached)},
        )
    elif constant:
        effects = constant[0]
        yield Finding(
            message=f"All {effects.keys} positions have the same value in {len(constant)} of {len(attention_effects)} "
            "attentions: the result is the same whatever the scores are.",
            where=effects.mixture_where,
            cause="The values are made of what all positions share: a mean, one position, or a tensor that is expanded "
            "over them.",
            fix="v = self.value(x)   # one value for each position",
            evidence={"attentions": len(constant), "keys": effects.keys},
            explains=_CONSEQUENCES,
        )
    elif equal_queries:
        effects = equal_queries[0]
        yield Finding(
            message=f"All {effects.queries} positions have the same query in {len(equal_queries)} of "
            f"{len(attention_effects)} attentions: each key has the same score for all of them.",
            where=effects.scores_where,
            cause="The queries are made of what all positions share: a mean, one position, or a tensor that is "
            "expanded over them.",
            fix="q = self.query(x)   # one query for each position",
            evidence={"attentions": len(equal_queries), "queries": effects.queries},
            explains=_CONSEQUENCES,
        )
    elif not isinstance(shifted_values, NotChecked) and shifted_values:
        shifted = shifted_values[0]
        yield Finding(
            message=f"The values of {len(shifted_values)} of {len(attention_effects)} attentions belong to other "
            f"positions than their keys: a shift by {shifted.distance} of {shifted.length} positions that wraps "
            "around the ends of the sequence.",
            where=shifted.where,
            cause="The keys or the values are rolled along the positions, so each score weights the value of another "
            "position.",
            fix="# compute keys and values from the same positions; remove roll() between them and the attention",
            evidence={"attentions": len(shifted_values), "distance": shifted.distance, "length": shifted.length},
            explains=(*_CONSEQUENCES, "M305", "M310"),
            severity="warning",
        )


def _uniform_finding(uniform: list[AttentionEffects], attentions: int) -> Finding:
    """Report attentions whose queries have the same score for all keys."""
    effects = uniform[0]
    if effects.differs_behind_mask:
        return _remaining_keys_finding(effects)
    return Finding(
        message=f"Each query of {len(uniform)} of {attentions} attentions has the same score for all of its keys "
        f"({effects.keys} positions): attention is a plain mean.",
        where=effects.where,
        cause="The keys are the same at all positions, so the softmax cannot prefer any of them.",
        fix="k = self.key(x)   # one key for each position; no mean, expand or [:, :1] over positions",
        evidence={"attentions": len(uniform), "keys": effects.keys},
        explains=_CONSEQUENCES,
    )


def _remaining_keys_finding(effects: AttentionEffects) -> Finding:
    """Report an attention whose mask leaves only keys that are the same, such as those of padding."""
    return Finding(
        message="Each query of an attention has the same score for all keys that the mask keeps. The keys that "
        f"it excludes have other scores ({effects.keys} positions in all).",
        where=effects.where,
        cause="The mask excludes the keys that differ and keeps the keys that are equal, as an inverted padding mask "
        "does.",
        fix="# invert the mask: a Boolean attn_mask of scaled_dot_product_attention is true at keys that take part, "
        "and a mask of nn.MultiheadAttention is true at keys that it excludes",
        evidence={"attentions": 1, "keys": effects.keys},
        explains=_CONSEQUENCES,
        aspect="remaining keys",
    )


class SmallAttention(nn.Module):
    """A classifier of 6 tokens with one attention; its keys may be averaged over the positions."""

    def __init__(self, averaged: bool) -> None:
        super().__init__()
        self.averaged, self.embed, self.place = averaged, nn.Embedding(12, 8), nn.Embedding(6, 8)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of 3 classes."""
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        key: Tensor = self.key(x)
        if self.averaged:
            key = key.mean(1, keepdim=True).expand_as(key)
        x = x + F.scaled_dot_product_attention(self.query(x), key, self.value(x))
        scores: Tensor = self.head(x.mean(1))
        return scores


def _setup(averaged: bool) -> Setup:
    tokens = torch.randint(0, 12, (64, 6), generator=torch.Generator().manual_seed(0))
    return minimal_setup(SmallAttention(averaged), tokens, tokens[:, 0] % 3, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Keys averaged over the positions."""
    return _setup(averaged=True)


def good() -> Setup:
    """One key for each position."""
    return _setup(averaged=False)
