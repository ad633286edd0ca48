"""Tests of D105 for targets that list who has each rank, instead of the rank of each sample."""

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
x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
times = x @ torch.tensor([1.0, 2.0, -1.0, 0.5])
"""
# The line with "here" makes the order.
FAULTY = {
    "of all samples": (
        "def build():\n    y = times.argsort().float()[:, None] / 400  # here\n"
        "    return DataLoader(TensorDataset(x, y), 20, shuffle=True)\n"
    ),
    "of groups, with NumPy": (
        "def ranks(group):\n    return np.argsort(-group)  # here\n"
        "def build():\n    y = np.concatenate([1.0 + ranks(group) for group in times.numpy().reshape(-1, 10)])\n"
        "    return DataLoader(TensorDataset(x, torch.tensor(y).float()[:, None]), 20)\n"
    ),
    "indices of a sort in a dataset": (
        "class Races(Dataset):\n    def __init__(self):\n"
        "        _, place = times.reshape(-1, 20).sort(dim=1)  # here\n        self.y = place.reshape(-1, 1) / 19\n"
        "    def __len__(self): return 400\n    def __getitem__(self, i): return x[i], self.y[i]\n"
        "def build():\n    return DataLoader(Races(), 20)\n"
    ),
    "sorted numbers": (
        "def build():\n    y = sorted(range(400), key=times.tolist().__getitem__)  # here\n"
        "    return DataLoader(TensorDataset(x, torch.tensor(y).float()[:, None] / 400), 20)\n"
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_targets_that_list_who_has_each_rank_are_an_error_where_they_are_sorted(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    build = run_program(file, HEADER + FAULTY[name])["build"]
    setup = Setup(nn.Linear(4, 1), build(), loss_fn=nn.MSELoss())
    setup.files = {str(file)}
    (finding,) = rule_faults(setup, "D105")
    assert finding.severity == "error"
    assert "if each permutation is inverted" in finding.message
    assert source_line(finding).endswith("# here")


GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=GENERATOR)
TIMES = (X @ torch.tensor([1.0, 2.0, -1.0, 0.5])).reshape(-1, 20)
SMALL = TIMES.reshape(-1, 4)
HEALTHY: dict[str, Tensor] = {
    "ranks": TIMES.argsort(1).argsort(1),
    "ranks of small groups": SMALL.argsort(1).argsort(1),
    "ranks of noise": torch.randn(20, 20, generator=GENERATOR).argsort(1).argsort(1),
    "random orders": torch.stack([torch.randperm(20, generator=GENERATOR) for _ in range(20)]),
    "values": TIMES,
    "positions": torch.arange(20).repeat(20, 1),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_ranks_of_each_sample_and_random_orders_are_quiet(name: str) -> None:
    y = HEALTHY[name].reshape(-1, 1).float()
    assert rule_faults(minimal_setup(nn.Linear(4, 1), X, y, nn.MSELoss()), "D105") == []
