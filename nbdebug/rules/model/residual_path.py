"""M323: a residual connection is missing, added twice, or passes on no gradient."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.measurements.residual_paths import ResidualFault
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup

_CAUSES = {
    "doubled": "The input of the branch is added inside the branch, or in place of its result, and once more here.",
    "detached": "The input is detached before the sum, so the gradient of the layers before passes the branch only.",
    "missing": "The result of the layers replaces their input, which the other parts of the model add to it.",
}
_FIXES = {
    "doubled": "x = x + self.branch(x)   # once",
    "detached": "x = x + self.branch(x)   # without detach",
    "missing": "x = x + self.branch(self.norm(x))",
}


@rule("M323", "warning")
def residual_path(residual_faults: list[ResidualFault]) -> Iterator[Finding]:
    """A residual connection is missing, added twice, or passes on no gradient.

    ## What it does
    Follows the result of each attention and each feed-forward part to the sum with its input. Reported are sums that
    add the same value twice, sums with a detached input, and parts without such a sum in a model whose other parts have
    one.

    ## Why it matters
    Without its connection, a part must pass on all that later parts need, and the gradient of the layers before shrinks
    with each such part. A value added twice doubles the scale of the stream at each layer.

    ## How it is measured
    In the recorded calls of one pass of a model with at least two attentions or feed-forward parts. A sum is written as
    its terms through all sums before it: a value is added twice if one operand has all terms of the other, and at most
    one more. A missing connection is reported only for a part whose result has the shape of its input and is read by a
    later part. A value that starts the stream, and one that later parts add again, such as positions, are not reported.

    ## How to fix
    Add the input of a part to its result once: ``x = x + self.attention(self.norm(x))``.

    ## When to ignore
    When a part replaces its input on purpose, as a projection between two stacks does.

    ## References
    He et al. 2016, arXiv:1512.03385. Dong et al. 2021, arXiv:2103.03404: without residual connections, the rank of the
    output of attention decays doubly exponentially with depth.
    """
    for fault in residual_faults:
        yield Finding(
            message=_message(fault),
            where=fault.where,
            cause=_CAUSES[fault.kind],
            fix=_FIXES[fault.kind],
            evidence={"kind": fault.kind, "connected": fault.connected, "missing": fault.missing},
            explains=("G403", "G404", "G408", "L208", "M315") if fault.kind == "doubled" else ("G403", "G408", "M308"),
        )


def _message(fault: ResidualFault) -> str:
    if fault.kind == "doubled":
        return "This sum adds the same value twice: one of its operands already contains the other as a term."
    if fault.kind == "detached":
        return "This residual connection passes on no gradient: the value that is added is detached."
    return (
        f"The result of {'an' if fault.branch == 'attention' else 'a'} {fault.branch} is not added to its input "
        f"({fault.missing} of {fault.connected + fault.missing} such parts of the model); the others are."
    )


class TwoBlocks(nn.Module):
    """A classifier of 6 tokens by two blocks of an attention and a feed-forward part."""

    def __init__(self, doubled: bool) -> None:
        super().__init__()
        self.doubled, self.embed, self.place = doubled, nn.Embedding(12, 8), nn.Embedding(6, 8)
        self.attentions = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(2))
        self.norms, self.head = nn.ModuleList(nn.LayerNorm(8) for _ in range(4)), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of 3 classes."""
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for index, (attention, layers) in enumerate(zip(self.attentions, self.layers, strict=True)):
            normed = self.norms[2 * index](x)
            x = x + attention(normed, normed, normed, need_weights=False)[0]
            result = layers(self.norms[2 * index + 1](x))
            x = x + (x + result) if self.doubled else x + result
        scores: Tensor = self.head(x.mean(1))
        return scores


def _setup(doubled: bool) -> Setup:
    tokens = torch.randint(0, 12, (64, 6), generator=torch.Generator().manual_seed(0))
    return minimal_setup(TwoBlocks(doubled), tokens, tokens[:, 0] % 3, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two residual connections around one feed-forward part."""
    return _setup(doubled=True)


def good() -> Setup:
    """One residual connection around each part."""
    return _setup(doubled=False)
