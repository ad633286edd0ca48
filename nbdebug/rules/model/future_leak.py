"""M305: a model that predicts the next step sees it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.errors import NotChecked
from nbdebug.evidence.shifted import Shift
from nbdebug.evidence.trial import Trial, with_inputs
from nbdebug.finding import Finding, Where
from nbdebug.graph.lockstep import changes, spreading
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Batch, Setup


@rule("M305", "error")
def future_leak(trial: Trial, shifted: Shift) -> Iterator[Finding]:
    """A model that is to predict the next step sees it.

    ## What it does
    Where the target of each position is the input of the next one, changes the later half of the input and looks
    whether outputs of the earlier half stay as they were.

    ## Why it matters
    A mask that is missing, a recurrent layer that reads both ways, a convolution padded on both sides: the model copies
    the answer. The loss is wonderfully low, and nothing can be generated.

    ## How it is measured
    On a few samples in eval mode; the first operation that carries the change back in time is named.

    ## How to fix
    Give attention a causal mask, pad convolutions on the left only, and read in one direction.

    ## When to ignore
    In models that fill gaps, and are not meant to generate.

    ## References
    Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3: leftward information flow must be prevented.
    """
    half = shifted.length // 2
    if shifted.by != 1:
        raise NotChecked("the target of a position is not the input of the next one")
    if trial.output.dim() < 2 or shifted.length not in trial.output.shape[1:]:
        raise NotChecked("the output has no axis of the steps")
    axis = list(trial.output.shape[1:]).index(shifted.length) + 1
    output, calls = trial.run(rewritten(trial.batch, shifted, slice(half, None)))
    if not bool(changes(trial.output, output).narrow(axis, 0, half).any()):
        return
    largest = float((output - trial.output).narrow(axis, 0, half).abs().max())
    call = spreading(trial.calls, calls, shifted.length, range(half))
    yield Finding(
        message=f"Outputs before step {half} move by {largest:.3g} when only the input from there on is changed.",
        where=call.where if call else Where(),
        cause=f"{call.name if call else 'An operation'} lets a position read what comes after it.",
        fix="mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])  # and hand it to the attention\n"
        "# recurrent: bidirectional=False; convolution: pad on the left only",
        evidence={"largest change": largest, "from step": half},
        explains=("T611", "E703", "E709", "L208"),
    )


def rewritten(batch: Batch, shifted: Shift, part: slice) -> Batch:
    """The batch with a part of its sequence taken from other samples, and turned round."""

    def changed(leaf: Tensor) -> Tensor:
        if leaf.dim() < 2 or leaf.shape[1] != shifted.length or leaf.dtype != shifted.source.dtype:
            return leaf
        copy = leaf.clone()
        copy[:, part] = leaf.roll(1, 0)[:, part].flip(1)
        return copy

    return with_inputs(batch, changed)


class NextToken(nn.Module):
    """Tells the next token by attention."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal, self.embed, self.head = causal, nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores for each token."""
        x = self.embed(tokens)
        mixed = F.scaled_dot_product_attention(x, x, x, is_causal=self.causal)
        scores: Tensor = self.head(torch.tanh(x + mixed))
        return scores


def over_tokens(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of every position."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def sentences(causal: bool) -> Setup:
    """Sentences of twelve tokens and the tokens that follow."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokens, model = torch.randint(0, 11, (32, 13)), NextToken(causal)
    return program(model, tokens[:, :-1], tokens[:, 1:], over_tokens)


def bad() -> Setup:
    """Attention without a mask."""
    return sentences(causal=False)


def good() -> Setup:
    """Attention with a causal mask."""
    return sentences(causal=True)
