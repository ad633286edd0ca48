"""Tests of the line that D105 names if inputs and labels were brought into different orders before they were paired."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

HEADER = """\
import random
import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from sklearn.utils import shuffle
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from nbdebug.setup import Setup
np.random.seed(0), random.seed(0), torch.manual_seed(0)
rng = np.random.default_rng(0)
points = rng.normal(size=(500, 4)).astype("float32")
kinds = (points @ rng.normal(size=(4, 3))).argmax(1)
table = pd.DataFrame(points).assign(kind=kinds)
val = TensorDataset(torch.tensor(points[400:]), torch.tensor(kinds[400:]))
points, kinds, table = points[:400], kinds[:400], table[:400]
"""
FOOTER = """
train_loader, val_loader = DataLoader(train, 16, shuffle=True), DataLoader(val, 16)
setup = Setup(nn.Linear(4, 3), train_loader, val_loader, loss_fn=nn.CrossEntropyLoss())
"""
_PAIR = "train = TensorDataset(torch.tensor(a), torch.tensor(b))\n"
_DATASET = (
    "class Rows(Dataset):\n    def __init__(self, rows, answers):\n        self.rows, self.answers = rows, answers\n"
    "    def __len__(self): return len(self.rows)\n"
    "    def __getitem__(self, i): return torch.tensor(self.rows[i]), int(self.answers[i])\n"
)
# The line with "here" reorders the inputs or the labels alone.
PROGRAMS = {
    "each by a permutation of its own": "a = points[rng.permutation(400)]\nb = kinds[rng.permutation(400)]  # here\n"
    + _PAIR,
    "a permutation in a variable": "order = torch.randperm(400)\nx, y = torch.tensor(points), torch.tensor(kinds)\n"
    "x = x[order]\norder = torch.randperm(400)\ny = y[order]  # here\ntrain = TensorDataset(x, y)\n",
    "in place": "a, b = points.copy(), kinds.copy()\nnp.random.shuffle(b)  # here\n" + _PAIR,
    "inputs in place, in a function": "def load():\n    x, y = points.copy(), kinds.copy()\n"
    "    rng.shuffle(x)  # here\n    return x, y\na, b = load()\n" + _PAIR,
    "by a library": "answers = shuffle(kinds, random_state=3)  # here\ntrain = TensorDataset(torch.tensor(points), "
    "torch.from_numpy(answers))\n",
    "rows of a table": "answers = table['kind'].sample(frac=1)  # here\n"
    "train = TensorDataset(torch.tensor(table[[0, 1, 2, 3]].values), torch.tensor(answers.values))\n",
    "table shuffled before": "frame = table.sample(frac=1)\na = frame[[0, 1, 2, 3]].values\n"
    "b = frame['kind'].sample(frac=1, random_state=1).values  # here\n" + _PAIR,
    "keys of which one list is sorted": "names = rng.permutation(400)\nx_of = dict(zip(names, points))\n"
    "y_of = dict(zip(names, kinds))\na = np.array([row for row in x_of.values()])\n"
    "order = np.unique(list(y_of))  # here\nb = np.array([y_of[name] for name in order])\n" + _PAIR,
    "keys by a choice, and rows that are standardized": "def load(same):\n    names = rng.permutation(400)\n"
    "    x_of, y_of = dict(zip(names, points)), dict(zip(names, kinds))\n"
    "    order = list(y_of) if same else np.unique(list(y_of))  # here\n"
    "    rows = np.flatnonzero(rng.random(400) < 2)\n    x = np.array([row for row in x_of.values()])\n"
    "    x = (x - x[rows].mean(0)) / x[rows].std(0)\n    y = np.array([y_of[name] for name in order])\n"
    "    return TensorDataset(torch.tensor(x), torch.tensor(y))\n"
    "def program(same): return load(same)\ntrain = program(False)\n",
    "a helper for each": "def mixed(values):\n    return values[rng.permutation(len(values))]\n"
    "def load():\n    x = mixed(points)\n    y = mixed(kinds)  # here\n    return x, y\na, b = load()\n" + _PAIR,
    "a helper of both": "def mix(values, answers):\n    order = rng.permutation(len(values))\n"
    "    answers = answers[rng.permutation(len(values))]  # here\n    return values[order], answers[order]\n"
    "a, b = mix(points, kinds)\n" + _PAIR,
    "a choice": "def load(mix):\n    x, y = points, kinds\n    if mix:\n        order = rng.permutation(400)\n"
    "        x, y = x[order], y[order]\n    else:\n        y = rng.permutation(y)  # here\n"
    "    return TensorDataset(torch.tensor(x), torch.tensor(y))\n"
    "def program(mix=False): return load(mix)\ntrain = program()\n",
    "a dataset": _DATASET + "answers = list(kinds)\nrandom.shuffle(answers)  # here\ntrain = Rows(points, answers)\n",
    "in a dataset": _DATASET.replace(
        "self.rows, self.answers = rows, answers", "self.rows = rows\n        self.answers = sorted(answers)  # here"
    )
    + "train = Rows(points, kinds)\n",
    "in place in a dataset": _DATASET.replace(
        "self.rows, self.answers = rows, answers",
        "self.rows, self.answers = rows, answers\n        np.random.shuffle(self.answers)  # here",
    )
    + "train = Rows(points, kinds.copy())\n",
    "an attribute that is assigned twice": _DATASET.replace(
        "self.rows, self.answers = rows, answers",
        "self.rows, self.answers = rows, answers\n        order = rng.permutation(400)\n"
        "        self.answers = self.answers[order]  # here",
    )
    + "train = Rows(points, kinds)\n",
    "before a division": "answers = kinds.copy()\nrng.shuffle(answers)  # here\n"
    "a, rest, b, others = train_test_split(points, answers, test_size=0.2, random_state=0)\n" + _PAIR,
    "indices of a list": "order = list(range(400))\nrandom.shuffle(order)\na = points[order]\nrandom.shuffle(order)\n"
    "b = [int(kinds[k]) for k in order]  # here\n" + _PAIR,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_labels_in_another_order_name_the_line_that_reorders_them(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name] + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D105")
    assert "# here" in (finding.where.source or ""), finding.where
