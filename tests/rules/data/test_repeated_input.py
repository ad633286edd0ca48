"""Tests of D122 for inputs that are the same in nearly all training samples, as of decimals written into integers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

HEADER = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
random = np.random.default_rng(0)
counts = random.integers(0, 400, (300, 4))
low, high = counts.min(0), counts.max(0)
y = torch.tensor(counts @ [1.0, 2.0, -1.0, 0.5], dtype=torch.float32)[:, None]
"""
# The line with "here" makes the array that cannot hold the values.
FAULTY = {
    "like the counts": (
        "def build():\n    scaled = np.zeros_like(counts)  # here\n    for j in range(4):\n"
        "        scaled[:, j] = (counts[:, j] - low[j]) / (high[j] - low[j])\n"
        "    x = torch.tensor(scaled, dtype=torch.float32)\n    return DataLoader(TensorDataset(x, y), 32)\n"
    ),
    "a copy in a function": (
        "def scale(table):\n    out = table.copy()  # here\n    out[:] = (table - low) / (high - low)\n    return out\n"
        "def build():\n    return DataLoader(TensorDataset(torch.from_numpy(scale(counts)).float(), y), 32)\n"
    ),
    "a tensor of the dataset": (
        "class Table(Dataset):\n    def __init__(self):\n        table = torch.from_numpy(counts)\n"
        "        rows = torch.empty_like(table)  # here\n        rows[:] = (table - low) / (high - low)\n"
        "        self.x = rows.float()\n"
        "    def __len__(self): return len(y)\n    def __getitem__(self, i): return self.x[i], y[i]\n"
        "def build():\n    return DataLoader(Table(), 32)\n"
    ),
    "whole numbers by name": (
        "def build():\n    x = np.empty((300, 4), dtype=np.int64)  # here\n"
        "    for i, row in enumerate(counts):\n        x[i] = (row - low) / (high - low)\n"
        "    return DataLoader(TensorDataset(torch.tensor(x).float(), y), 32)\n"
    ),
    "classes": (
        "def build():\n    scaled = np.zeros_like(counts)  # here\n    scaled[...] = (counts - low) / (high - low)\n"
        "    x, labels = torch.tensor(scaled).float(), torch.tensor(counts.sum(1) % 3)\n"
        "    return DataLoader(TensorDataset(x, labels), 32)\n"
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_inputs_that_are_nearly_all_equal_are_reported_at_the_array_that_cut_them(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    build = run_program(file, HEADER + FAULTY[name])["build"]
    is_class = name == "classes"
    model, loss_fn = nn.Linear(4, 3 if is_class else 1), nn.CrossEntropyLoss() if is_class else nn.MSELoss()
    setup = Setup(model, build(), loss_fn=loss_fn)
    setup.files = {str(file)}
    (finding,) = rule_faults(setup, "D122")
    assert "have exactly the same input (all 4 values are 0)" in finding.message
    assert source_line(finding).endswith("# here")


GENERATOR = torch.Generator().manual_seed(0)
NOISE = torch.randn(300, 1, generator=GENERATOR)
WORDS = (torch.rand(300, 200, generator=GENERATOR) > 0.98).float()
FLAGS = (torch.rand(300, 2, generator=GENERATOR) > 0.97).float()
VALUES = torch.randn(300, 2, generator=GENERATOR)
HEALTHY: dict[str, tuple[Tensor, Tensor]] = {
    "counts of words": (WORDS, NOISE),
    "rare flags beside values": (torch.cat([FLAGS, VALUES], 1), NOISE),
    "rare flags that explain the target": (FLAGS, FLAGS.sum(1, keepdim=True) + 0.05 * NOISE),
    "a constant input": (torch.ones(300, 4), NOISE),
    "one column of flags": (FLAGS[:, :1], NOISE),
    "repeated measurements": (VALUES[:30].repeat(10, 1), NOISE),
    "an autoencoder of flags": (FLAGS, FLAGS),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_inputs_that_differ_or_explain_the_targets_are_quiet(name: str) -> None:
    x, y = HEALTHY[name]
    assert rule_faults(minimal_setup(nn.Linear(x.shape[1], y.shape[1]), x, y, nn.MSELoss()), "D122") == []
