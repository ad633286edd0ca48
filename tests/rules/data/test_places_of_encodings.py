"""Tests of the line that D115 names if a column holds the mean target of a category: the one that reads the targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

HEADER = """\
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from nbdebug.setup import Setup
rng = np.random.default_rng(0)
numbers = rng.normal(size=(600, 3))
shop = rng.integers(0, 200, 600)
bought = (numbers[:, 0] + rng.normal(size=600) > 0).astype(np.float64)
frame = pd.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "shop": shop, "bought": bought})
def means(groups, values):
    return np.bincount(groups, weights=values, minlength=200) / np.bincount(groups, minlength=200).clip(1)
"""
FOOTER = """
train, val = TensorDataset(x[:450], y[:450, None]), TensorDataset(x[450:], y[450:, None])
setup = Setup(nn.Linear(x.shape[1], 1), DataLoader(train, 30), DataLoader(val, 30), loss_fn=nn.BCEWithLogitsLoss())
"""
_TENSORS = "x, y = torch.tensor(rows).float(), torch.tensor(bought).float()\n"
# The line with "here" reads the targets of all rows.
PROGRAMS = {
    "a function of both": "rate = means(shop, bought)  # here\ncolumn = rate[shop]\n"
    "rows = np.column_stack([numbers, 2 * column - 1])\n" + _TENSORS,
    "a function of both for each row": "def encode(groups, values):\n"
    "    total, size = np.bincount(groups, values), np.bincount(groups)\n"
    "    return total[groups] / size[groups]  # here\ncolumn = encode(shop, bought)\n"
    "rows = np.column_stack([numbers, column])\n" + _TENSORS,
    "in a function": "def load():\n    levels = means(shop, bought)  # here\n"
    "    return np.column_stack([numbers, levels[shop]])\nrows = load()\n" + _TENSORS,
    "a loop": "def rates(groups, wanted):\n    total, count = np.zeros(200), np.zeros(200)\n"
    "    for group, value in zip(groups, wanted):\n        total[group] += value\n        count[group] += 1\n"
    "    return total / count.clip(1)\ndef build(table):\n    names = table['shop'].values\n"
    "    column = rates(names, table['bought'])[names]  # here\n"
    "    return np.column_stack([table[['a', 'b']].values, column])\nrows = build(frame)\n"
    "x, y = torch.tensor(rows).float(), torch.tensor(frame['bought'].values).float()\n",
    "a column of the table": "frame['rate'] = frame.groupby('shop')['bought'].transform('mean')  # here\n"
    "x = torch.tensor(frame[['a', 'b', 'rate']].values).float()\n"
    "y = torch.tensor(frame['bought'].values).float()\n",
    "a mapping": "by_shop = frame.groupby('shop').agg({'bought': 'mean'})  # here\n"
    "frame = frame.join(by_shop.rename(columns={'bought': 'rate'}), on='shop')\n"
    "x = torch.tensor(frame.drop(columns=['bought', 'shop']).values).float()\n"
    "y = torch.tensor(frame['bought'].values).float()\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_mean_of_the_targets_names_the_line_that_reads_them(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name] + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D115")
    assert "# here" in (finding.where.source or ""), finding.where


def test_mean_of_the_targets_states_its_correlations_in_both_splits(tmp_path: Path) -> None:
    program = "column = means(shop[:450], bought[:450])[shop]\nrows = np.column_stack([numbers, column])\n" + _TENSORS
    variables = run_program(tmp_path / "program.py", HEADER + program + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D115")
    column, target = variables["x"][:, 3].numpy(), variables["y"].numpy()
    train, val = (np.corrcoef(column[part], target[part])[0, 1] for part in (slice(450), slice(450, None)))
    assert f"Its correlation with the target is {train:.2f} in training and {val:.2f} in validation." in finding.message
