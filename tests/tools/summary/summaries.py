"""Debuggers of small models, and access to the rows and printed cells of a summary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.summary import Summary, SummaryRow


def make_loader(width: int = 4) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(16, width), torch.arange(16) % 3), batch_size=8)


def make_debugger(model: nn.Module, *optimizers: torch.optim.Optimizer, **options: Any) -> Debugger:
    return Debugger(
        model, options.pop("loader", make_loader()), loss_fn=nn.CrossEntropyLoss(), optimizer=optimizers, **options
    )


def rows_by_path(result: Summary) -> dict[str, SummaryRow]:
    return {row.path: row for row in result.rows}


def table_cell(result: Summary, path: str, column: str) -> str:
    """Text of the printed table in the line of ``path``, below the heading ``column``."""
    lines = str(result).splitlines()
    header = next(line for line in lines if line.startswith("module "))
    line = lines[lines.index(header) + 1 + list(rows_by_path(result)).index(path)]
    start = header.index(column)
    return line[start:].split("  ")[0].strip()


class MismatchedLayers(nn.Module):
    """Linear layers of which the second raises unless ``width`` is 8, and a module that is never called."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(width, 8), nn.Linear(8, 3)
        self.unused = nn.ModuleList([nn.ReLU()])

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))
