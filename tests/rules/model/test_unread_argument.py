"""M301 and M306 of a module that does not use an argument: the attention that should read it, or its forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

WIDTH = 8


class TorchAttentions(nn.Module):
    """A block that attends to itself and to another sequence, or to itself twice."""

    def __init__(self, reads_other: bool) -> None:
        super().__init__()
        self.reads_other = reads_other
        self.own, self.cross = (nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        x = x + self.own(x, x, x)[0]
        source = other if self.reads_other else x
        return x + self.cross(x, source, source)[0]


class HandwrittenAttention(nn.Module):
    """Queries of one sequence, and keys and values of another or of the same."""

    def __init__(self, reads_other: bool) -> None:
        super().__init__()
        self.reads_other = reads_other
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        source = other if self.reads_other else x
        keys, values = self.key(source), self.value(source)
        weights = torch.softmax(self.query(x) @ keys.transpose(1, 2) / WIDTH**0.5, dim=-1)
        return x + weights @ values


class Sum(nn.Module):
    """A block without attention."""

    def __init__(self, reads_other: bool) -> None:
        super().__init__()
        self.reads_other, self.mix = reads_other, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return x + self.mix(other if self.reads_other else x)


class Pair(nn.Module):
    """A model of two sequences: the block gets both of them."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.encoder, self.block, self.head = nn.Linear(3, WIDTH), block, nn.Linear(WIDTH, 2)

    def forward(self, asked: Tensor, context: Tensor) -> Tensor:
        memory = torch.relu(self.encoder(context))
        scores: Tensor = self.head(self.block(asked, memory)).mean(1)
        return scores


def pair_setup(block: nn.Module) -> Setup:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 5, WIDTH), torch.randn(64, 5, 3), torch.arange(64) % 2)
    return Setup(Pair(block), DataLoader(data, batch_size=16), loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("code", ["M301", "M306"])
@pytest.mark.parametrize(
    ("block", "line"),
    [
        (TorchAttentions, "self.cross(x, source, source)"),
        (HandwrittenAttention, "self.key(source)"),
        (Sum, "def forward(self, x: Tensor, other: Tensor)"),
    ],
)
def test_finding_stands_where_the_argument_should_be_read(block: type[nn.Module], line: str, code: str) -> None:
    (finding,) = rule_findings(pair_setup(block(False)), code)
    assert line in str(finding.where.source)
    assert "block receives 'other', and its output does not depend on it." in finding.cause
    assert ("Pass other to this attention" in finding.fix) == (block is not Sum)
    assert not rule_findings(pair_setup(block(True)), code)
