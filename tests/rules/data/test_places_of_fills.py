"""Tests of the line that D113 names if the number for missing values is scaled or passed on: the one that writes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import load_module

HEADER = """\
import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from nbdebug.setup import Setup
rng = np.random.default_rng(0)
CODE, NAMES = -999.0, ["a", "b", "c", "d"]
levels, wanted = rng.normal(5, 1, size=(400, 4)), torch.randn(400, 1)
missing = rng.random((400, 4)) < 0.05
gaps = np.where(missing, np.nan, levels)
table = pd.DataFrame(gaps, columns=NAMES)
class Steps(Dataset):
    def __init__(self, rows, mean, std):
        self.rows = torch.tensor((rows - mean) / std, dtype=torch.float32)
        self.wanted = wanted
    def __len__(self): return 390
    def __getitem__(self, i):
        return self.rows[i : i + 5], self.wanted[i]
def scaled(rows):
    return torch.tensor((rows - rows.mean(0)) / rows.std(0)).float()
"""
TENSORS = "loader, model = DataLoader(TensorDataset(x, wanted), 20), nn.Linear(4, 1)\n"
STEPS = "loader, model = DataLoader(Steps(rows, rows.mean(0), rows.std(0)), 20), "
STEPS += "nn.Sequential(nn.Flatten(), nn.Linear(20, 1))\n"
FOOTER = "setup = Setup(model, loader, loss_fn=nn.MSELoss())\n"
# The line with "here" writes the number.
PROGRAMS = {
    "where in a function, in windows of a dataset": (
        "def reported(rows, out):\n    return np.where(out, CODE, rows)  # here\n"
        f"rows = reported(levels, missing)\n{STEPS}"
    ),
    "one of two branches of a function": (
        "def reported(rows, out, repairs):\n    if repairs:\n        return np.where(out, rows.mean(0), rows)\n"
        "    return np.where(out, -99, rows)  # here\ndef build(repairs):\n"
        f"    rows = reported(levels, missing, repairs)\n    {STEPS}    return loader, model\n"
        "options = {'repairs': False}\nloader, model = build(options['repairs'])\n"
    ),
    "fillna": (
        "frame = pd.DataFrame(np.where(missing, np.nan, levels), columns=NAMES)\n"
        f"frame = frame.fillna(-999)  # here\nx = scaled(frame.to_numpy())\n{TENSORS}"
    ),
    "write at a mask": (
        "def load():\n    rows = levels.copy()\n    rows[missing] = CODE  # here\n    return rows\n"
        f"x = scaled(load())\n{TENSORS}"
    ),
    "write to columns of a table": (
        "frame = pd.DataFrame(levels, columns=NAMES)\nframe.loc[missing[:, 0], 'a'] = -1.0  # here\n"
        f"x = scaled(frame.to_numpy())\n{TENSORS}"
    ),
    "nan_to_num": (
        "def fill(rows):\n    rows = np.where(missing, np.nan, rows)\n"
        "    return np.nan_to_num(rows, nan=-1.0)  # here\n"
        f"x = scaled(fill(levels))\n{TENSORS}"
    ),
    "masked_fill": (
        "rows = torch.tensor(levels).masked_fill(torch.tensor(missing), CODE)  # here\n"
        f"x = scaled(rows.numpy())\n{TENSORS}"
    ),
    "one of two numbers, as it is": (
        "rows = np.where(missing, -9.0, levels)  # here\nclipped = np.where(rows > 6, 6.0, rows)\n"
        f"x = torch.tensor(clipped).float()\n{TENSORS}"
    ),
    "imputer of a pipeline, in one of two branches": (
        "def prepare(median):\n    if median:\n        fill = SimpleImputer(strategy='median')\n    else:\n"
        "        fill = SimpleImputer(strategy='constant', fill_value=CODE)  # here\n"
        "    return make_pipeline(fill, StandardScaler())\ndef build(median):\n    steps = prepare(median=median)\n"
        "    rows, others = steps.fit_transform(gaps), steps.transform(gaps)\n    x = torch.tensor(rows).float()\n"
        f"    {TENSORS}    return loader, model\noptions = {{'median': False}}\n"
        "loader, model = build(options['median'])\n"
    ),
    "imputer of some columns": (
        "inner = Pipeline([\n    ('fill', SimpleImputer(strategy='constant', fill_value=-1)),  # here\n"
        "    ('scale', StandardScaler())])\nsteps = ColumnTransformer([('numbers', inner, NAMES)])\n"
        f"x = torch.tensor(steps.fit_transform(table)).float()\n{TENSORS}"
    ),
    "imputer in a class of the user": (
        "class Preparation:\n    def __init__(self):\n"
        "        self.fill = SimpleImputer(fill_value=-7, strategy='constant')  # here\n"
        "        self.scale = StandardScaler()\n    def fit(self, rows):\n"
        "        self.scale.fit(self.fill.fit_transform(rows))\n        return self\n    def apply(self, rows):\n"
        "        return self.scale.transform(self.fill.transform(rows))\n"
        f"preparation = Preparation().fit(gaps)\nx = torch.tensor(preparation.apply(gaps)).float()\n{TENSORS}"
    ),
    "step of the user in a pipeline": (
        "class Fill(BaseEstimator, TransformerMixin):\n    def fit(self, rows, wanted=None): return self\n"
        "    def transform(self, rows):\n        rows = rows.copy()\n        rows[np.isnan(rows)] = -1  # here\n"
        "        return rows\nx = torch.tensor(make_pipeline(Fill(), StandardScaler()).fit_transform(gaps)).float()\n"
        f"{TENSORS}"
    ),
    "function in a pipeline": (
        "def fill(rows):\n    return np.nan_to_num(rows, nan=-1)  # here\n"
        "steps = make_pipeline(FunctionTransformer(fill), StandardScaler())\n"
        f"x = torch.tensor(steps.fit_transform(gaps)).float()\n{TENSORS}"
    ),
    "fillna in place": (
        f"frame = table.copy()\nframe.fillna(-1, inplace=True)  # here\nx = scaled(frame.to_numpy())\n{TENSORS}"
    ),
    "nan_to_num in place": (
        "rows = torch.tensor(gaps)\nrows.nan_to_num_(nan=-1)  # here\n"
        f"x = ((rows - rows.mean(0)) / rows.std(0)).float()\n{TENSORS}"
    ),
    "putmask": (f"rows = levels.copy()\nnp.putmask(rows, missing, -1)  # here\nx = scaled(rows)\n{TENSORS}"),
    "replace of a table": (f"frame = table.replace({{np.nan: -1}})  # here\nx = scaled(frame.to_numpy())\n{TENSORS}"),
    "imputer with another strategy, so the constant elsewhere": (
        "kind = 'median'\nrows = SimpleImputer(strategy=kind, fill_value=3).fit_transform(gaps)\n"
        f"rows[missing] = -1  # here\nx = scaled(rows)\n{TENSORS}"
    ),
    "imputers with two constants, so the line that makes the inputs": (
        "left = SimpleImputer(strategy='constant', fill_value=-2)\n"
        "right = SimpleImputer(strategy='constant', fill_value=-3)\n"
        "steps = ColumnTransformer([('left', left, NAMES[:2]), ('right', right, NAMES[2:])])\n"
        f"x = torch.tensor(steps.fit_transform(table)).float() / 2  # here\n{TENSORS}"
    ),
    "two numbers that are scaled, so the line that makes the inputs": (
        "rows = np.where(missing, -9.0, levels)\nrows = np.where(rows > 8, 8.0, rows)\n"
        f"mean, std = rows.mean(0), rows.std(0)\nx = torch.tensor((rows - mean) / std).float()  # here\n{TENSORS}"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_number_for_missing_values_is_named_where_it_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_module(tmp_path / "filling_program.py", HEADER + PROGRAMS[name] + FOOTER)
    monkeypatch.setitem(sys.modules, module.__name__, module)  # as in a program that runs
    finding, *_ = rule_findings(module.setup, "D113")
    assert "# here" in (finding.where.source or ""), finding.where
