"""Tests of the line that decides at random which samples are used for validation."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.split_lines import locate_ungrouped_split, splitting_line
from tests.source.source_modules import load_module

HEADER = """\
import numpy as np
import torch
from sklearn.model_selection import GroupShuffleSplit, KFold, ShuffleSplit, train_test_split
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset


class Rows(Dataset):
    def __init__(self, indices):
        self.indices = indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        return torch.zeros(3), self.indices[i]


def by_row(rows):
    chosen, held = np.random.permutation(len(rows)), len(rows) // 4  # rows
    return chosen[held:], chosen[:held]


def by_mask(rows):
    held = np.random.random(len(rows)) < 0.25  # mask
    return np.flatnonzero(~held), np.flatnonzero(held)


def by_group(rows):
    held = np.random.permutation(12)[:3]  # groups
    out = np.isin(np.arange(len(rows)) // 20, held)
    return np.flatnonzero(~out), np.flatnonzero(out)


def in_order(rows):
    return np.arange(180), np.arange(180, 240)


def build():
    rng = np.random.default_rng(0)
    x, y = torch.randn(240, 4), torch.randint(0, 2, (240,))
"""
_ROWS = ("Rows(train)", "Rows(val)")
_SELECTED = ("TensorDataset(x[train], y[train])", "TensorDataset(x[val], y[val])")

# By name: the lines that split, the datasets, and the text of the line that draws the order.
SPLITS: dict[str, tuple[str, tuple[str, str], str]] = {
    "permutation of torch": (
        "order = torch.randperm(240)\ntrain, val = order[:180], order[180:]",
        _SELECTED,
        "torch.randperm",
    ),
    "permutation of NumPy": (
        "data = TensorDataset(x, y)\norder = rng.permutation(240).tolist()\n"
        "train, val = Subset(data, order[:180]), Subset(data, order[180:])",
        ("train", "val"),
        "rng.permutation",
    ),
    "random mask": ("train = rng.random(240) < 0.75\nval = ~train", _SELECTED, "rng.random"),
    "random gaps in data that are cut in order": (
        "gaps = rng.random(240) < 0.03\nvalues = np.where(gaps, -9.0, y)\ncut = 180\n"
        "train = values[:cut]\nval = values[cut:]",
        _ROWS,
        "val = values[cut:]",
    ),
    "shuffled in place": (
        "rows = np.arange(240)\nrng.shuffle(rows)\ntrain, val = rows[:180], rows[180:]",
        _SELECTED,
        "rng.shuffle",
    ),
    "splitter": ("train, val = train_test_split(np.arange(240))", _ROWS, "train_test_split(np"),
    "folds": ("train, val = next(KFold(4, shuffle=True).split(x))", _ROWS, "KFold(4"),
    "permuted data": (
        "order = torch.randperm(len(x))\nx, y = x[order], y[order]\n",
        ("TensorDataset(x[:180], y[:180])", "TensorDataset(x[180:], y[180:])"),
        "torch.randperm",
    ),
    "cut in order": (
        "cut = 180\ntrain, val = x[:cut], x[cut:]",
        ("TensorDataset(train)", "TensorDataset(val)"),
        "[cut:",
    ),
}

SPLITS |= {
    "in a function": ("train, val = by_row(x)", _SELECTED, "# rows"),
    "a mask in a function": ("train, val = by_mask(x)", _SELECTED, "# mask"),
    "groups in a function": ("train, val = by_group(x)", _SELECTED, "# groups"),
    "a function of rows or of groups": (
        "split = by_group if len(x) < 9 else by_row\ntrain, val = split(x)",
        _SELECTED,
        "# rows",
    ),
    "a function of rows or an ordered one": (
        "train, val = (in_order if len(x) < 9 else by_row)(x)",
        _SELECTED,
        "# rows",
    ),
    "one of two random functions": (
        "split = by_mask if len(x) < 9 else by_row\ntrain, val = split(x)",
        _SELECTED,
        "split(x)",
    ),
    "a function that draws nothing": ("train, val = in_order(x)", _SELECTED, "in_order(x)"),
}
# By name: the lines that split, and the text of the line that is named.
SPLITTERS: dict[str, tuple[str, str]] = {
    "created before": ("cv = ShuffleSplit(1)  # here\ntrain, val = next(cv.split(x, y))", "# here"),
    "created in a choice": (
        "if len(x) > 1000:\n    cv = GroupShuffleSplit(1)\nelse:\n    cv = ShuffleSplit(1)  # here\n"
        "train, val = next(cv.split(x, y, x if len(x) > 1000 else None))",
        "# here",
    ),
    "created by a function": (
        "def folds(count):\n    return KFold(count, shuffle=True)  # here\ncv = folds(4)\n"
        "train, val = list(cv.split(x))[0]",
        "# here",
    ),
    "passed to a function": (
        "def divide(cv, rows):\n    return next(cv.split(rows))\ncv = ShuffleSplit(1)  # here\n"
        "train, val = divide(cv, x)",
        "# here",
    ),
    "loop over folds": ("cv = KFold(4, shuffle=True)  # here\nfor train, val in cv.split(x):\n    break", "# here"),
    "numbered folds": (
        "cv = KFold(4, shuffle=True)  # here\nfor fold, (train, val) in enumerate(cv.split(x)):\n    break",
        "# here",
    ),
    "groups": ("cv = GroupShuffleSplit(1)\ntrain, val = next(cv.split(x, y, y))", "cv.split"),
    "one line": ("train, val = next(KFold(4, shuffle=True).split(x))", "KFold(4"),
    "permutation beside a text": (
        "names = 'a b'.split(' ')\norder = torch.randperm(240)\ntrain, val = order[:180], order[180:]",
        "torch.randperm",
    ),
    "tensor that is split beside unrelated folds": (
        "cv = KFold(4)\nsizes = [180, 60]\norder = torch.randperm(240)\ntrain, val = order.split(sizes)",
        "torch.randperm",
    ),
    "drawn by train_test_split": (
        "cv = KFold(4)\ntrain, val = train_test_split(np.arange(240))",
        "train_test_split(np",
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_line_that_splits_samples(name: str, tmp_path: Path) -> None:
    lines, (train, val), expected = SPLITS[name]
    line = splitting_line(load_setup(tmp_path, lines, train, val))
    assert line is not None
    assert expected in line.text


@pytest.mark.parametrize("name", SPLITTERS)
def test_line_that_creates_the_splitter_of_related_samples(name: str, tmp_path: Path) -> None:
    lines, expected = SPLITTERS[name]
    where, related = locate_ungrouped_split(splitting_line(load_setup(tmp_path, lines, *_ROWS)), 5)
    assert where.sample == 5
    assert expected in str(where.source)
    assert all("# here" not in str(line.where.source) for line in related)


def load_setup(tmp_path: Path, lines: str, train: str, val: str) -> Setup:
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    loaders = f"    train_loader = DataLoader({train}, 16, shuffle=True)\n    val_loader = DataLoader({val}, 16)\n"
    program = load_module(tmp_path / "program.py", HEADER + body + loaders + "    return train_loader, val_loader\n")
    train_loader, val_loader = program.build()
    setup = Setup(nn.Linear(4, 2), train_loader, val_loader, loss_fn=nn.CrossEntropyLoss())
    setup.files.add(str(tmp_path / "program.py"))
    return setup
