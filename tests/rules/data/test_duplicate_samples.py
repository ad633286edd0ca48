"""D107: copies of all classes are told of; copies that balance classes, and few values, are not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network

X = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 1).long()
RARE = X[Y == 1]
CORNERS = torch.tensor([[0.0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (X[:100].repeat(4, 1), Y[:100].repeat(4), [300]),
        (torch.cat([X, RARE.repeat(5, 1)]), torch.cat([Y, Y[Y == 1].repeat(5)]), []),
        (CORNERS.repeat(50, 1), torch.tensor([0, 1, 1, 0]).repeat(50), []),
        (X, Y, []),
    ],
)
def test_copies(x: Tensor, y: Tensor, said: list[int]) -> None:
    report = Debugger.of(minimal_setup(network(2), x, y, nn.CrossEntropyLoss())).checkup(select=["D107"])
    assert [one.evidence["samples"] - one.evidence["different"] for one in report] == said
