"""M326: values between layers are normalized over the positions of a sequence instead of its features."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.measurements.position_normalization import PositionNormalization
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup


@rule("M326", "warning")
def positions_normalized(position_normalizations: list[PositionNormalization]) -> Iterator[Finding]:
    """Values between layers are normalized over the positions of a sequence instead of its features.

    ## What it does
    Compares the mean and the variance over the positions of a sequence between samples, before and after each call.
    Reported when they differ between samples before a call and are the same after it, for every feature.

    ## Why it matters
    What all positions of a sentence have in common is removed: the model cannot tell how often a word occurs. Each
    position depends on all others, also on later ones and on padding.

    ## How it is measured
    In one pass of the first samples through a model with attention, on values with axes of samples, positions and
    features that a layer has made and another one receives. A statistic is the same if it differs between samples by at
    most 0.001 of the spread of the values. Batch normalization, softmax over positions, normalized queries and keys,
    normalization after a convolution and normalization of the input itself are not reported.

    ## How to fix
    Normalize over the last axis: ``nn.LayerNorm(width)`` for values with axes of samples, positions and features.

    ## When to ignore
    For models of seasonal series, which center values over time on purpose: with numeric inputs the finding is a note.

    ## References
    Ba et al. 2016, arXiv:1607.06450: statistics over the features of one position. Wu et al. 2021, arXiv:2106.13008:
    Autoformer centers the seasonal part of a series over time.
    """
    if not position_normalizations:
        return
    first, count = position_normalizations[0], len(position_normalizations)
    yield Finding(
        message=f"The {first.statistic} of each feature over the {first.length} positions is the same in all samples "
        f"after this call ({count} such call{'s' * (count > 1)}); before it, the {first.statistic} differs by "
        f"up to {first.spread_before:.2g} times the standard deviation of the values.",
        where=first.where,
        cause="Values are centered or scaled over the axis of the positions, so each position depends on all others.",
        fix="norm = nn.LayerNorm(width)   # over the last axis of (samples, positions, features)",
        evidence={
            "statistic": first.statistic,
            "positions": first.length,
            "calls": count,
            "difference before": first.spread_before,
        },
        explains=("M304", "M305", "M306", "M310", "M311", "T606", "T607", "T610"),
        severity="note" if first.kind == "numbers" else None,
    )


class SentenceEncoder(nn.Module):
    """A classifier of 6 tokens with one attention, whose input is normalized over features or over positions."""

    def __init__(self, over_positions: bool) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(12, 8), nn.Embedding(6, 8)
        self.norm = nn.InstanceNorm1d(8) if over_positions else nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of 3 classes."""
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        is_over_positions = isinstance(self.norm, nn.InstanceNorm1d)
        normed = self.norm(x.transpose(1, 2)).transpose(1, 2) if is_over_positions else self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        scores: Tensor = self.head(x.mean(1))
        return scores


def _setup(over_positions: bool) -> Setup:
    tokens = torch.randint(0, 12, (64, 6), generator=torch.Generator().manual_seed(0))
    return minimal_setup(SentenceEncoder(over_positions), tokens, tokens[:, 0] % 3, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Instance normalization over the tokens."""
    return _setup(over_positions=True)


def good() -> Setup:
    """Layer normalization over the features."""
    return _setup(over_positions=False)
