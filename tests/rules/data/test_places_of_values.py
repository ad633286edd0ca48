"""Tests of the line that findings on values name: the statement that wrote them, not the one that made the tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_findings

HEADER = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
generator = torch.Generator().manual_seed(0)
rows, labels = torch.randn(96, 6, generator=generator), torch.randint(0, 3, (96,), generator=generator)
"""
LOADER = "    return DataLoader(TensorDataset(x, y), batch_size=16)\n"
# The line with "here" writes the values.
WRITTEN = {
    "D112 a column": f"def build():\n    x, y = rows * 2, labels\n    x[:, 5] = 1.0  # here\n{LOADER}",
    "D112 a column of the array": (
        "def build():\n    table = rows.numpy().copy()\n    table[:, 2] = 0  # here\n"
        f"    x = torch.from_numpy(table)\n    y = labels\n{LOADER}"
    ),
    "D113 a sentinel": (
        f"def build():\n    x = rows.clone()\n    y = labels\n    x[labels == 1, 3] = -999.0  # here\n{LOADER}"
    ),
    "D103 NaN in the dataset": (
        "class Table(Dataset):\n    def __init__(self):\n        self.x, self.y = rows + 1, labels\n"
        "        self.x[::7, 4] = float('nan')  # here\n    def __len__(self): return len(self.y)\n"
        "    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "def build():\n    return DataLoader(Table(), batch_size=16)\n"
    ),
    "D103 infinite targets that are converted": (
        "def logarithm(counts):\n    return np.log(counts)  # here\n"
        "class Table(Dataset):\n    def __init__(self):\n        with np.errstate(divide='ignore'):\n"
        "            self.y = logarithm(labels.numpy().astype('float32'))\n"
        "    def __len__(self): return len(self.y)\n"
        "    def __getitem__(self, i): return rows[i], torch.tensor(self.y[i]).unsqueeze(0)\n"
        "def build():\n    return DataLoader(Table(), batch_size=16)\n"
    ),
    "D103 the logarithm of zero in a function": (
        "def levels(powers):\n    kept = powers[:, :6]\n    return kept.log().flip(1)  # here\n"
        "def build():\n    x = levels(rows.clamp(min=0.0) * 3)\n    x = (x - x[x.isfinite()].mean()) / 2.0\n"
        "    y = labels\n    return DataLoader(TensorDataset(x[:80], y[:80]), batch_size=16)\n"
    ),
    "D103 a division by single values": (
        "def build():\n    share = torch.exp(-rows.square()) / rows.clamp(min=0.0)  # here\n"
        f"    x, y = (share - share.min()) / rows.std(0), labels\n{LOADER}"
    ),
    "D103 one of two logarithms, so the line that makes the tensor": (
        "def build():\n    first = rows.clamp(min=0.0).log()\n    second = rows.abs().log()\n"
        f"    x, y = torch.cat([first, second], 1)[:, :6], labels  # here\n{LOADER}"
    ),
    "D101 a class": f"def build():\n    x, y = rows, labels.clone()\n    y[:9] = 7  # here\n{LOADER}",
    "D112 computed, so the line that makes it": (
        f"def build():\n    x = rows * torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 1.0])  # here\n    y = labels\n{LOADER}"
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_findings_on_values_name_the_statement_that_writes_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(HEADER + WRITTEN[name], encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(HEADER + WRITTEN[name], str(file), "exec"), scope)
    setup = Setup(nn.Linear(6, 3), scope["build"](), loss_fn=nn.CrossEntropyLoss())
    setup.files = {str(file)}
    finding, *_ = rule_findings(setup, name[:4])
    assert source_line(finding).endswith("# here"), str(finding)
