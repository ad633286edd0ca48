"""M317: weights that were tied are no longer the same tensor."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.weight_copies import EQUAL_VALUES, TRANSPOSED_VALUES, BrokenTie
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.module_lines import untying_line

_ONE_BEFORE = "they shared one tensor when the loop began"


@rule("M317", "warning")
def untied_weights(
    setup: Setup, model: nn.Module, broken_ties: list[BrokenTie], loop: LoopSummary | NotChecked
) -> Iterator[Finding]:
    """Weights that were tied are no longer the same tensor.

    ## What it does
    Names the pairs of trainable weights of the same shape that are meant to be one tensor: a line of a constructor
    assigns one to the other, a Hugging Face configuration has ``tie_word_embeddings``, or an embedding and the output
    layer, or a layer and its inverse, still have identical values. Names those that your own loop unties.

    ## Why it matters
    From the first step on they diverge: twice the parameters, half the gradient for each, and a checkpoint that ties
    them again loads different weights than were trained.

    ## How it is measured
    Exactly: by the identity and the memory of the tensors. Lines inside an ``if`` are not taken as evidence. Copies of
    whole layers, which a Transformer makes of its first layer, start equal by design and are not reported; a decoder
    that starts as the transpose of its encoder may be intended, so it is a note.

    ## How to fix
    Tie them after the last line that replaces either of them, and create the optimizer after that.

    ## When to ignore
    When one was copied only for initialization.

    ## References
    Press and Wolf 2017, arXiv:1608.05859; Inan et al. 2017, arXiv:1611.01462.
    """
    sizes = dict(model.named_parameters(remove_duplicate=False))
    in_loop = loop.untied_parameters if isinstance(loop, LoopSummary) else ()
    reported = {frozenset(names) for names in in_loop}
    others = [pair for pair in broken_ties if frozenset((pair.first, pair.second)) not in reported]
    for pair in [*(BrokenTie(*names, _ONE_BEFORE) for names in in_loop), *others]:
        yield _finding(setup, pair, sizes[pair.first].numel())


def _finding(setup: Setup, pair: BrokenTie, size: int) -> Finding:
    is_known = pair.reason not in (EQUAL_VALUES, TRANSPOSED_VALUES)
    line = (untying_line(setup, (pair.first, pair.second), pair.line) if is_known else None) or pair.line
    where = line.where(None, pair.first) if line else Location(pair.first.rpartition(".")[0], pair.first)
    return Finding(
        message=f"{pair.first} and {pair.second} are two tensors of {size:,} values, but are meant to be one: "
        f"{pair.reason}.",
        where=where,
        cause="One of the two was created again, copied or replaced after they had been tied.",
        fix=f"{member_code(pair.first)} = {member_code(pair.second)}   # then create the optimizer",
        evidence={"parameters": [pair.first, pair.second], "values": size, "known by": pair.reason},
        severity="note" if pair.reason == TRANSPOSED_VALUES else None,
    )


class TiedTagger(nn.Module):
    """A tagger over 12 tokens whose output layer shares the weight of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of each token (batch × 12 × positions)."""
        scores: Tensor = self.head(self.embed(x).tanh())
        return scores.transpose(1, 2)


def _tagger_setup(unties: bool) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = TiedTagger(), torch.randint(0, 12, (64, 5))
        if unties:
            model.head.weight = nn.Parameter(torch.randn(12, 8))
    return minimal_setup(model, x, (x + 1) % 12, nn.CrossEntropyLoss())


def bad() -> Setup:
    """A head whose weight was reinitialized after it had been tied."""
    return _tagger_setup(unties=True)


def good() -> Setup:
    """The same model with tied weights."""
    return _tagger_setup(unties=False)
