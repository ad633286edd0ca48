"""M322: attention scores are not scaled by 1 / sqrt(d), or are scaled twice."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Edit, Finding
from nbdebug.measurements.attention_effects import AttentionEffects
from nbdebug.rule_engine.expression_edits import divide_instead, line_of, scale_product
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup

_TOLERANCE = 0.01
_MAX_SPREAD = 1.5  # scores of independent entries of variance 1 have 1; small first weights give less

_CONSEQUENCES = ("G402", "G403", "L208", "T601", "T606", "T607", "T610", "E709")


@rule("M322", "warning")
def attention_scale(attention_effects: list[AttentionEffects], *, spread: float = _MAX_SPREAD) -> Iterator[Finding]:
    """Attention scores are not scaled by 1 / sqrt(d), or are scaled twice.

    ## What it does
    Reads the constants that multiply the queries, the keys and the scores of each attention, and the standard deviation
    of the scaled scores. Reported when two constants are both 1 / sqrt(d), for heads of width d, and when their product
    is at least twice 1 / sqrt(d) while the scores of a query differ by more than ``spread`` = 1.5. It is a note if they
    differ by less, or if scores are not scaled at all and the weights of the queries are not those that torch starts
    with: others may make up for the scale.

    ## Why it matters
    The products of queries and keys grow with sqrt(d). Large scores saturate the softmax: each query starts with one
    key that gets nearly all weight, and the gradient for the others vanishes. Scores scaled twice are so close to each
    other that attention starts, and long stays, a plain mean.

    ## How it is measured
    In one pass of the first samples, before training. The constants are numbers, or tensors of one number that are not
    trained, in the multiplications and divisions between the layers of queries and keys and the softmax; the one that
    ``F.scaled_dot_product_attention`` applies counts. With 1 / sqrt(d), queries and keys of independent entries with
    variance 1 have scores with a standard deviation of 1. A learned temperature, or one constant of 1 / d, is not
    reported.

    ## How to fix
    Divide the scores by ``math.sqrt(q.shape[-1])`` once. ``F.scaled_dot_product_attention`` does so itself.

    ## When to ignore
    When the first weights of queries make up for the scale, as in T5, or the temperature is sharp on purpose.

    ## References
    Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1 and its footnote 4. Raffel et al. 2020, arXiv:1910.10683: T5
    scales the first weights of queries instead of the scores.
    """
    checked = [effects for effects in attention_effects if not effects.has_learned_factor]
    if repeated := [effects for effects in checked if _is_scaled_twice(effects)]:
        effects = repeated[0]
        yield Finding(
            message=f"The scores are multiplied by {math.prod(effects.factors):.3g}; 1 / sqrt({effects.width}) is "
            f"{effects.width**-0.5:.3g}, which is applied {_count_scales(effects)} times "
            f"({len(repeated)} of {len(attention_effects)} attentions). The scaled scores of a query have a standard "
            f"deviation of {effects.spread:.2g}.",
            where=effects.scores_where,
            cause="Queries, keys or scores are divided by sqrt(d), and the scores are divided again.",
            fix="F.scaled_dot_product_attention(q, k, v)   # divides by sqrt(d) itself; or divide the scores once",
            evidence=_evidence(effects, len(repeated)),
        )
    elif too_large := [effects for effects in checked if _ratio(effects) >= 2]:
        effects = max(too_large, key=lambda each: each.spread)
        is_unintended = effects.spread > spread and (_is_enlarged(effects) or effects.has_first_weights)
        yield Finding(
            message=f"The scores are multiplied by {math.prod(effects.factors):.3g}, {_ratio(effects):.3g} times "
            f"1 / sqrt({effects.width}) ({len(too_large)} of {len(attention_effects)} attentions). The scaled "
            f"scores of a query have a standard deviation of {effects.spread:.2g}; about 1 is usual, and {spread:g} is "
            "the limit.",
            where=effects.enlarged_where or effects.scores_where,
            cause="The scores are multiplied by sqrt(d) instead of divided."
            if _is_enlarged(effects)
            else "The scores are not divided by sqrt(d).",
            fix="scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",
            edits=_edits(effects),
            evidence=_evidence(effects, len(too_large)),
            explains=_CONSEQUENCES if is_unintended else ("G402", "G403", "L208"),
            severity="warning" if is_unintended else "note",
        )


def _edits(effects: AttentionEffects) -> tuple[Edit, ...]:
    """Return the division of the scores by sqrt(d), in place of a multiplication by it if there is one."""
    if effects.enlarged_where is None or effects.enlarged_where.line == effects.scores_where.line:
        return scale_product(line_of(effects.scores_where), effects.width)
    ratio = _ratio(effects) / max(map(abs, effects.factors)) ** 2
    return divide_instead(line_of(effects.enlarged_where)) if abs(ratio - 1) <= _TOLERANCE else ()


def _is_enlarged(effects: AttentionEffects) -> bool:
    return abs(math.prod(effects.factors)) > 1 + _TOLERANCE


def _ratio(effects: AttentionEffects) -> float:
    """Return the factor of the scores relative to 1 / sqrt(d)."""
    return abs(math.prod(effects.factors)) * math.sqrt(effects.width)


def _count_scales(effects: AttentionEffects) -> int:
    expected = effects.width**-0.5
    return sum(abs(factor - expected) <= _TOLERANCE * expected for factor in effects.factors)


def _is_scaled_twice(effects: AttentionEffects) -> bool:
    return effects.width > 1 and _count_scales(effects) >= 2 and _ratio(effects) < 1 - _TOLERANCE


def _evidence(effects: AttentionEffects, count: int) -> dict[str, object]:
    return {
        "factors": list(effects.factors),
        "product": math.prod(effects.factors),
        "ratio": _ratio(effects),
        "width": effects.width,
        "spread": effects.spread,
        "attentions": count,
    }


class ScaledAttention(nn.Module):
    """A classifier of 6 tokens with one attention, whose queries are divided by a number first."""

    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.divisor, self.embed, self.place = divisor, nn.Embedding(12, 16), nn.Embedding(6, 16)
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of 3 classes."""
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        query = self.query(x) / self.divisor
        x = x + F.scaled_dot_product_attention(query, self.key(x), self.value(x))
        scores: Tensor = self.head(x.mean(1))
        return scores


def _setup(divisor: float) -> Setup:
    tokens = torch.randint(0, 12, (64, 6), generator=torch.Generator().manual_seed(0))
    return minimal_setup(ScaledAttention(divisor), tokens, tokens[:, 0] % 3, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Queries divided by sqrt(16), although torch's attention does so too."""
    return _setup(4.0)


def good() -> Setup:
    """Scores scaled once, by torch's attention."""
    return _setup(1.0)
