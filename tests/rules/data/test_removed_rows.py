"""Tests of the line and the change of D105 where rows were removed from the inputs or the labels alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

HEADER = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from nbdebug.setup import Setup
rng = np.random.default_rng(0)
table = 1.5 * rng.normal(size=(500, 5)).astype("float32")
kinds = (table[:, :4] @ rng.normal(size=(4, 3))).argmax(1)
is_lost = rng.random(500) < 0.06
table[is_lost, 4] = np.nan
filled = np.where(np.isnan(table), 6, table).astype("float32")
"""
FOOTER = """
train = TensorDataset(torch.tensor(a), torch.tensor(b))
loader = DataLoader(train, 32, shuffle=True)
setup = Setup(nn.Linear(5, 3), loader, loss_fn=nn.CrossEntropyLoss())
"""
_FUNCTION = "def complete(rows, labels):\n{}    return rows, labels\na, b = complete(table, kinds)\n"
# The line with "here" removes rows of one part; the text that replaces it keeps the same rows of both.
PROGRAMS = {
    "mask of NumPy in a function": (
        _FUNCTION.format("    rows = rows[~np.isnan(rows).any(axis=1)]  # here\n    labels = labels[: len(rows)]\n"),
        "keep = ~np.isnan(rows).any(axis=1)\n    rows, labels = rows[keep], labels[keep]",
    ),
    "labels by a mask in a variable": (
        "a, b = filled, kinds\nfull = a[:, 4] != 6\nb = b[full]  # here\na = a[: len(b)]\n",
        "b, a = b[full], a[full]",
    ),
    "list": (
        "a = [row.tolist() for row in filled if row[4] != 6]  # here\nb = kinds[: len(a)]\n",
        "",
    ),
    "after rows of both": (
        _FUNCTION.format(
            "    rows, labels = rows[labels > -1], labels[labels > -1]\n"
            "    rows = rows[rows[:, 4] < 3]  # here\n    labels = labels[: len(rows)]\n"
        ),
        "keep = rows[:, 4] < 3\n    rows, labels = rows[keep], labels[keep]",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_removed_from_one_part_are_placed_and_mended_there(name: str, tmp_path: Path) -> None:
    text, replacement = PROGRAMS[name]
    setup = run_program(tmp_path / "program.py", HEADER + text + FOOTER)["setup"]
    (finding,) = rule_faults(setup, "D105")
    assert (finding.where.source or "").endswith("# here")
    assert "at a distance that grows" in finding.message
    assert [edit.text for edit in finding.edits] == ([replacement] if replacement else [])
