"""M321: heads of an attention have no effect, or cannot become different from each other."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.measurements.attention_effects import AttentionEffects
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup


@rule("M321", "warning")
def redundant_head(attention_effects: list[AttentionEffects]) -> Iterator[Finding]:
    """Heads of an attention have no effect, or cannot become different from each other.

    ## What it does
    Compares what the heads of each attention return in one pass, and the gradient that each gets. It reports heads
    whose result is zero or does not reach the output, unlike that of other heads, and heads that return the same values
    and get the same gradient.

    ## Why it matters
    A silent head costs time and memory and adds nothing. Heads that are equal in value and gradient get equal updates
    and stay equal: the layer has the capacity of fewer heads.

    ## How it is measured
    On the first samples in eval mode, for a random direction of the output. A head is silent if its weighted values or
    their gradient are exactly zero in all samples and positions. Heads are equal if both differ by less than a
    hundred-thousandth of the largest value. Parameters that are all zero get small random values first.

    ## How to fix
    For a silent head, look for a factor, a mask or a slice that zeros part of the heads, or for an output layer that
    reads only some of them. For equal heads, start the weights at random.

    ## When to ignore
    When heads are pruned on purpose by a mask.

    ## References
    Michel et al. 2019, arXiv:1905.10650: what heads contribute, and how they are pruned.
    """
    if silent := [effects for effects in attention_effects if effects.silent_heads]:
        effects = silent[0]
        names = join_names([str(head) for head in effects.silent_heads], 6)
        one = len(effects.silent_heads) == 1
        yield Finding(
            message=f"Of the heads 0…{effects.heads - 1}, {names} {'has' if one else 'have'} no effect: what "
            f"{'it returns' if one else 'they return'} is exactly zero, or does not reach the output ({len(silent)} of "
            f"{len(attention_effects)} attentions).",
            where=effects.mixture_where,
            cause="A factor or a mask zeros the head, or the layer after the attention does not read it.",
            fix="# let the output layer read all heads: y = attention.transpose(1, 2).reshape(batch, length, width)",
            evidence={"silent": list(effects.silent_heads), "heads": effects.heads, "attentions": len(silent)},
        )
    if equal := [effects for effects in attention_effects if effects.equal_heads]:
        effects = equal[0]
        yield Finding(
            message=f"{len(effects.equal_heads)} of the {effects.heads} heads return the values of another head and "
            f"get the same gradient, so they stay equal ({len(equal)} of {len(attention_effects)} attentions).",
            where=effects.mixture_where,
            cause="The weights of the heads start equal, or all heads read the same part of the projections.",
            fix="nn.init.xavier_uniform_(self.query.weight)   # also key, value and output: random, not repeated",
            evidence={"equal": list(effects.equal_heads), "heads": effects.heads, "attentions": len(equal)},
        )


class TwoHeads(nn.Module):
    """A classifier of 6 tokens by two heads, each multiplied by a number."""

    def __init__(self, factors: tuple[float, float]) -> None:
        super().__init__()
        self.register_buffer("factors", torch.tensor(factors).view(1, 2, 1, 1))
        self.embed, self.place = nn.Embedding(12, 8), nn.Embedding(6, 8)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.output, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of 3 classes."""
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        query, key, value = (
            layer(x).unflatten(2, (2, 4)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(query @ key.transpose(2, 3) / 2, dim=-1)
        mixed = (weights @ value * self.factors).transpose(1, 2).flatten(2)
        scores: Tensor = self.head((x + self.output(mixed)).mean(1))
        return scores


def _setup(factors: tuple[float, float]) -> Setup:
    tokens = torch.randint(0, 12, (64, 6), generator=torch.Generator().manual_seed(0))
    return minimal_setup(TwoHeads(factors), tokens, tokens[:, 0] % 3, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two heads, of which one is multiplied by zero."""
    return _setup((1.0, 0.0))


def good() -> Setup:
    """Two heads that both count."""
    return _setup((1.0, 1.0))
