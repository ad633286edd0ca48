"""M311: a sequence model gives the same answer for permuted tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.permuted import Permuted
from nbdebug.evidence.spread import Spread
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup

FIXES = {
    "tokens": "x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))",
    "steps": "x = self.project(x) + self.place(torch.arange(x.shape[1], device=x.device))",
    "patches": "x = patches + self.place   # self.place = nn.Parameter(0.02 * torch.randn(1, count, width))",
}


@rule("M311", "warning")
def order_ignored(permuted: Permuted, spread: Spread) -> Iterator[Finding]:
    """A model with attention gives the same answer whatever the order of its tokens.

    ## What it does
    Puts the tokens, the steps or the patches of every sequence of a batch into another order, the same for all, and
    compares the answers: equal, or reordered in just that way, means that no position is known inside.

    ## Why it matters
    Attention by itself takes its input as a set. Without positions, "dog bites man" is "man bites dog".

    ## How it is measured
    By intervention on the first batch, in eval mode, wherever a sequence attends to itself. Recurrence, convolution and
    causal masks know the order and pass. For sequences of numbers it is a warning only if neighbors are more alike than
    pairs in random order by five standard errors; otherwise they may well be sets, and so may sorted words: a note.

    ## How to fix
    Add an embedding of the position, learned or of sines, to what the first attention is given.

    ## When to ignore
    When the input is a set.

    ## References
    Vaswani et al. 2017, arXiv:1706.03762, section 3.5; Lee et al. 2019, Set Transformer, for sets on purpose.
    """
    if spread.is_none:
        raise NotChecked("the output is the same for every sample, whatever their order")
    if permuted.heeded:
        return
    yield Finding(
        message=f"Another order of the {permuted.places} {permuted.kind} of every sequence gives the same answer, but "
        "for the order; expected another one.",
        where=permuted.node.where,
        cause="Nothing tells attention where a token stands: no position is added to what it is given.",
        fix=FIXES[permuted.kind],
        evidence={"kind": permuted.kind, "places": permuted.places, "neighbors alike": permuted.ordered},
        explains=("T606", "T608", "M314"),
        severity=None if permuted.ordered else "note",
    )


class Reader(nn.Module):
    """A sentence classifier with one layer of attention, with or without positions."""

    def __init__(self, positions: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.place = nn.Embedding(6, 8) if positions else None
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of two classes."""
        x = self.embed(tokens)
        if self.place is not None:
            x = x + self.place(torch.arange(tokens.shape[1]))
        scores: Tensor = self.head(self.block(x).mean(1))
        return scores


def reading(positions: bool) -> Setup:
    """Whether the first word comes before the last one in the list."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = Reader(positions), torch.randint(0, 20, (64, 6))
    return program(model, x, (x[:, 0] < x[:, -1]).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Attention over words without positions."""
    return reading(positions=False)


def good() -> Setup:
    """The same with positions."""
    return reading(positions=True)
