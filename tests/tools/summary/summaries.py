"""A debugger of any model, and what its summary prints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.summary import Summary, SummaryRow


def data(width: int = 4) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(16, width), torch.arange(16) % 3), batch_size=8)


def debugger(model: nn.Module, *optimizers: torch.optim.Optimizer, **given: Any) -> Debugger:
    return Debugger(model, given.pop("loader", data()), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizers, **given)


def rows(result: Summary) -> dict[str, SummaryRow]:
    return {one.path: one for one in result.rows}


def cell(result: Summary, path: str, column: str) -> str:
    """A cell of the printed table, by its place under the heading."""
    lines = str(result).splitlines()
    head = next(line for line in lines if line.startswith("module "))
    line = lines[lines.index(head) + 1 + list(rows(result)).index(path)]
    start = head.index(column)
    return line[start:].split("  ")[0].strip()


class Halved(nn.Module):
    """Two layers, of which the second is fed what it cannot take."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(4, 8), nn.Linear(width, 8), nn.Linear(8, 3)
        self.rest = nn.ModuleList([nn.ReLU()])

    def forward(self, x: Tensor) -> Tensor:
        return self.three(self.two(self.one(x)))
