"""M305: the output at one place depends on inputs after it, in a model that predicts the next."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.evidence.ahead import Ahead
from nbdebug.evidence.future import MASKING, PRODUCTS, Future
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup

ATTENTION = {"multi_head_attention_forward", "scaled_dot_product_attention", "softmax", *MASKING, *PRODUCTS}


@rule("M305", "error")
def future_leak(ahead: Ahead, future: Future) -> Iterator[Finding]:
    """The output at one place depends on inputs after it, in a model that is to predict them.

    ## What it does
    Changes all inputs after the middle of the sequences and looks whether outputs before it change. Speaks only of
    models that are trained to predict the next input, and names the call through which they read it.

    ## Why it matters
    The model copies what it should predict. The loss falls far below what is possible, and what it generates, where
    there is no future to read, is rubbish.

    ## How it is measured
    That the next input is predicted is read off the data and the loss: the targets are the inputs shifted by one, or
    the loss shifts them, as the gradient of the loss shows when one target changes. The inputs are changed in eval mode
    with the same random numbers, and only places that the loss counts are looked at.

    ## How to fix
    Give the attention a causal mask, or ``is_causal=True``; take ``bidirectional=True`` off; pad a convolution on the
    left alone.

    ## When to ignore
    When the first part of a sequence is a prompt that may be read in both directions.

    ## References
    Vaswani et al., Attention Is All You Need, 2017, section 3.2.3: masked self-attention in the decoder.
    """
    if ahead.steps != 1 or not future.touched:
        return
    call = future.culprit.name if future.culprit else "a call that could not be named"
    yield Finding(
        message=f"Changing the inputs after place {future.place} changes {len(future.touched)} of the {future.before} "
        f"outputs up to it; expected 0, for they are to predict those inputs. They are read in {call}.",
        where=future.culprit.where if future.culprit else Where(),
        cause=f"{call} combines each place with later ones.",
        fix=fix(call),
        evidence={"touched": len(future.touched), "place": future.place, "call": call},
        explains=("E703", "T611", "T607"),
    )


def fix(name: str) -> str:
    """The mask, or the option, that keeps the future out."""
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return "bidirectional=False"
    if name.startswith("conv"):
        return "x = F.pad(x, (dilation * (kernel_size - 1), 0))  # on the left alone, with padding=0 in the layer"
    if name == "scaled_dot_product_attention":
        return "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    if name in ATTENTION:
        return "mask = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)  # as attn_mask, or src_mask"
    return "# let each place see itself and earlier ones only"


class Reader(nn.Module):
    """A small language model by one layer of attention."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal, self.embed = causal, nn.Embedding(11, 8)
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every place."""
        x, length = self.embed(tokens), tokens.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1) if self.causal else None
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        logits: Tensor = self.head(x)
        return logits


def next_token(logits: Tensor, following: Tensor) -> Tensor:
    """Cross-entropy over all places."""
    return F.cross_entropy(logits.flatten(0, 1), following.flatten())


def reader(causal: bool) -> Setup:
    """Random tokens, each to be predicted from those before it."""
    tokens = torch.randint(0, 11, (64, 9), generator=torch.Generator().manual_seed(0))
    return program(Reader(causal), tokens[:, :-1], tokens[:, 1:], next_token)


def bad() -> Setup:
    """Attention without a mask."""
    return reader(causal=False)


def good() -> Setup:
    """Attention with a causal mask."""
    return reader(causal=True)
