"""Tests of the line that D115 names if a column holds the mean target of a category: the one that reads the targets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from nbdebug.debugger import Debugger
from tests.rules.rule_findings import own_findings, rule_faults
from tests.source.source_modules import load_module, run_program

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
PROGRAMS |= {
    "a column of a table that is scaled": "def encode(known):\n"
    "    code = known.groupby('shop').bought.transform('mean')  # here\n"
    "    return known.assign(shop=code)\n"
    "def tensors(frame, center, spread):\n    x = (frame.drop(columns='bought') - center) / spread\n"
    "    return torch.tensor(x.to_numpy()).float(), torch.tensor(frame.bought.to_numpy()).float()\n"
    "coded = encode(frame)\ncolumns = coded.drop(columns='bought')\n"
    "x, y = tensors(coded, columns.mean(), columns.std())\n",
    "one of two ways, of a scaled target": "frame['bought'] = frame.bought / frame.bought.std()\n"
    "def level(table, source):\n    return table.shop.map(source.groupby('shop').bought.mean())\n"
    "def level_of_training(table, folds):\n    if folds is None:\n"
    "        means = table.groupby('shop').bought.mean()  # here\n        return table.shop.map(means)\n"
    "    out = pd.Series(0.0, index=table.index)\n    for rest, part in folds:\n"
    "        out.iloc[part] = level(table.iloc[part], table.iloc[rest]).to_numpy()\n    return out\n"
    "def tensors(table, column):\n    x = np.column_stack([table[['a', 'b']].to_numpy(), column.to_numpy()])\n"
    "    return torch.tensor(x).float(), torch.tensor(table.bought.to_numpy()).float()\n"
    "def build(folds):\n    return tensors(frame, level_of_training(frame, folds))\n"
    "options = {'folds': None}\nx, y = build(options['folds'])\n",
}


_TWO_WAYS = (
    "def shares(groups, values):\n    level = pd.Series(values).groupby(groups).transform('mean')  # {shares}\n"
    "    return level.to_numpy()\n"
    "def shares_of_others(groups, values):\n    by_group = pd.Series(values).groupby(groups)\n"
    "    total, size = by_group.transform('sum').to_numpy(), by_group.transform('count').to_numpy()\n"
    "    return (total - values + 0.5) / size\n"
    "def smooth_shares(groups, values):\n"
    "    level = np.bincount(groups, values, 200) / np.bincount(groups).clip(1)  # {smooth}\n"
    "    return level[groups]\n"
    "def build(careful):\n"
)
_ROWS = "    return np.column_stack([numbers, column])\nrows = build(len(numbers) < 9)\n" + _TENSORS
PROGRAMS |= {
    "a function chosen by an unknown test, of one that leaves the row out": _TWO_WAYS.format(shares="here", smooth="")
    + "    column = (shares_of_others if careful else shares)(shop, bought)\n"
    + _ROWS,
    "the same, in a variable": _TWO_WAYS.format(shares="here", smooth="")
    + "    encode = shares_of_others\n    if not careful:\n        encode = shares\n    column = encode(shop, bought)\n"
    + _ROWS,
    "two functions with all rows": _TWO_WAYS.format(shares="", smooth="")
    + "    column = (smooth_shares if careful else shares)(shop, bought)  # here\n"
    + _ROWS,
    "a function chosen by a variable of the module": _TWO_WAYS.format(shares="", smooth="here").replace(
        "def build", "exact = False\ndef build"
    )
    + "    column = (shares if exact else smooth_shares)(shop, bought)\n"
    + _ROWS,
    "a value chosen by a variable of the module": _TWO_WAYS.format(shares="here", smooth="").replace(
        "def build", "exact = True\ndef build"
    )
    + "    column = shares(shop, bought) if exact else smooth_shares(shop, bought)\n"
    + _ROWS,
    "a difference that is not that of the row": "def centered(groups, values):\n"
    "    level = pd.Series(values).groupby(groups).transform('mean') - values.mean()  # here\n"
    "    return level.to_numpy()\ncolumn = centered(shop, bought)\nrows = np.column_stack([numbers, column])\n"
    + _TENSORS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_mean_of_the_targets_names_the_line_that_reads_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load_module(tmp_path / "encoding_program.py", HEADER + PROGRAMS[name] + FOOTER)
    monkeypatch.setitem(sys.modules, program.__name__, program)  # as in a program that runs
    (finding,) = rule_faults(program.setup, "D115")
    assert "# here" in (finding.where.source or ""), finding.where


def test_mean_of_the_targets_states_its_correlations_in_both_splits(tmp_path: Path) -> None:
    program = "column = means(shop[:450], bought[:450])[shop]\nrows = np.column_stack([numbers, column])\n" + _TENSORS
    variables = run_program(tmp_path / "program.py", HEADER + program + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D115")
    column, target = variables["x"][:, 3].numpy(), variables["y"].numpy()
    train, val = (np.corrcoef(column[part], target[part])[0, 1] for part in (slice(450), slice(450, None)))
    assert f"Its correlation with the target is {train:.2f} in training and {val:.2f} in validation." in finding.message


LOOP = """
loader, val_loader = DataLoader(train, 30), DataLoader(val, 30)
model, loss_fn = nn.Linear(x.shape[1], 1), nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
def fit():
    for inputs, wanted in loader:
        optimizer.zero_grad()
        loss_fn(model(inputs), wanted).backward()
        optimizer.step()
"""


def test_mean_of_the_targets_is_placed_when_the_run_tells_the_file(tmp_path: Path) -> None:
    program = HEADER.replace("from nbdebug.setup import Setup\n", "") + PROGRAMS["a column of the table"]
    variables = run_program(tmp_path / "program.py", program + FOOTER.partition("setup =")[0] + LOOP)
    debugger = Debugger(*(variables[name] for name in ("model", "loader", "val_loader")), loss_fn=variables["loss_fn"])
    assert not [finding.where.line for finding in debugger.checkup(select=["D115"]) if finding.where.line]
    with debugger.watch():
        variables["fit"]()
    (finding,) = own_findings(debugger, "D115")
    assert "# here" in (finding.where.source or ""), finding.where
