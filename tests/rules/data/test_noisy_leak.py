"""D115 of a column that is the class with noise on it, and of tasks that one feature solves without a gap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=DRAWN)
Y = (X[:, 0] + X[:, 1] > 0).long()
NOISE = 0.05 * torch.randn(200, generator=DRAWN)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (torch.cat([X[:, :3], (1.0 - 2 * Y + NOISE)[:, None]], 1), Y, ["warning"]),
        (X, (X[:, 0] > 0).long(), []),
        (X + 20 * Y[:, None], Y, []),
        (X, Y, []),
    ],
)
def test_a_column_far_apart_from_all_others(x: Tensor, y: Tensor, said: list[str]) -> None:
    report = Debugger.of(minimal_setup(network(2), x, y, nn.CrossEntropyLoss())).checkup(select=["D115"])
    assert [one.severity for one in report] == said
