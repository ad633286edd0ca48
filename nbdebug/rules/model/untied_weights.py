"""M317: weights that were tied are no longer the same tensor."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.ties import TURNED, Untied
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup


@rule("M317", "warning")
def untied_weights(model: nn.Module, untied: list[Untied]) -> Iterator[Finding]:
    """Weights that were tied are no longer the same tensor.

    ## What it does
    Names the pairs of trainable weights of one shape that are meant to be one: a line of a constructor sets one to the
    other, a Hugging Face configuration says ``tie_word_embeddings``, or an embedding and the layer that writes the
    words, or a layer and the one that undoes it, still have the very same numbers.

    ## Why it matters
    From the first step on they drift apart: twice the parameters, half the gradient for each, and a checkpoint that
    ties them again loads something else than was trained.

    ## How it is measured
    Exactly: by the identity and the memory of the tensors. Lines behind an ``if`` are not taken at their word.
    Copies of whole layers, as a Transformer makes of its first one, start equal by design and are left alone; a decoder
    that starts as its encoder turned around may be meant so: a note.

    ## How to fix
    Tie them after the last line that replaces either, and make the optimizer after that.

    ## When to ignore
    When one was copied only for a good start.

    ## References
    Press and Wolf 2017, arXiv:1608.05859; Inan et al. 2017, arXiv:1611.01462.
    """
    sizes = dict(model.named_parameters())
    for pair in untied:
        yield finding(pair, sizes[pair.one].numel())


def finding(pair: Untied, size: int) -> Finding:
    """The two weights, and how it is known that they were one."""
    where = pair.line.where(None, pair.one) if pair.line else Where(pair.one.rpartition(".")[0], pair.one)
    return Finding(
        message=f"{pair.one} and {pair.other} are two tensors of {size:,} values, and are meant to be one: "
        f"{pair.known}.",
        where=where,
        cause="One of them was made anew, copied or replaced after they had been tied.",
        fix=f"model.{pair.one} = model.{pair.other}   # then make the optimizer",
        evidence={"parameters": [pair.one, pair.other], "known by": pair.known},
        severity="note" if pair.known == TURNED else None,
    )


class Tagger(nn.Module):
    """Words in, words out, with one matrix for both."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of every word at every place."""
        scores: Tensor = self.head(self.embed(x).tanh())
        return scores.transpose(1, 2)


def copying(untie: bool) -> Setup:
    """Sentences, each word of which is to be replaced by the next in the list."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = Tagger(), torch.randint(0, 12, (64, 5))
        if untie:
            model.head.weight = nn.Parameter(torch.randn(12, 8))
    return program(model, x, (x + 1) % 12, nn.CrossEntropyLoss())


def bad() -> Setup:
    """A head whose weight was drawn anew after it had been tied."""
    return copying(untie=True)


def good() -> Setup:
    """The same, tied."""
    return copying(untie=False)
