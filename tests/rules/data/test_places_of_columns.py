"""Tests of the line that D112 to D115 name for a single column of the inputs: the one that makes the column."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_faults, rule_findings
from tests.source.source_modules import run_program

HEADER = """\
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from nbdebug.setup import Setup
rng = np.random.default_rng(0)
PLAIN = ["a", "b", "c"]
def table():
    frame = pd.DataFrame(rng.normal(size=(600, 3)), columns=PLAIN)
    frame["shop"] = rng.integers(0, 200, 600)
    frame["price"] = frame.a + frame.b * frame.c + rng.normal(size=600)
    return frame
def tensors(rows, wanted):
    return torch.tensor(np.asarray(rows), dtype=torch.float32), torch.tensor(np.asarray(wanted)).float().unsqueeze(1)
"""
FOOTER = """
loader = DataLoader(TensorDataset(x, y), 30)
setup = Setup(nn.Linear(x.shape[1], 1), loader, loss_fn=nn.MSELoss())
"""
# The line with "here" makes the column.
PROGRAMS = {
    "a part of column_stack from the caller": (
        "def build(frame, extra):\n    x = np.column_stack([frame[PLAIN].to_numpy(), extra.to_numpy()])\n"
        "    return tensors(x, frame.price.to_numpy())\n"
        "def main():\n    frame = table()\n    discount = frame.price * 0.9  # here\n"
        "    return build(frame, discount)\nx, y = main()"
    ),
    "the middle of concatenate": (
        "def main():\n    frame = table()\n    net = 0.8 * frame[['price']].to_numpy() + 1  # here\n"
        "    rows = np.concatenate([frame[['a', 'b']].values, net, frame[['c']].values], axis=1)\n"
        "    return tensors(rows, frame['price'])\nx, y = main()"
    ),
    "the middle of torch.cat": (
        "def main():\n    values = torch.tensor(table()[PLAIN + ['price']].to_numpy()).float()\n"
        "    double = 2 * values[:, 3:]  # here\n"
        "    return torch.cat([values[:, :2], double, values[:, 2:3]], dim=1), values[:, 3:]\nx, y = main()"
    ),
    "a part of stack": (
        "def main():\n    frame = table()\n    half = torch.tensor(frame.price.to_numpy() / 2).float()  # here\n"
        "    first, second = (torch.tensor(frame[name].to_numpy()).float() for name in 'ab')\n"
        "    return torch.stack([first, half, second], 1), torch.tensor(frame.price.to_numpy()).float()[:, None]\n"
        "x, y = main()"
    ),
    "a column that is standardized after another is dropped": (
        "def prepare(frame, center, spread):\n    x = (frame.drop(columns='price') - center) / spread\n"
        "    return tensors(x.to_numpy(), frame.price)\n"
        "def main():\n    frame = table()\n    frame['tax'] = frame['price'] * 0.2  # here\n"
        "    inputs = frame.drop(columns='price')\n"
        "    return prepare(frame, inputs.mean(), inputs.std())\nx, y = main()"
    ),
    "a column of a list of names": (
        "def extend(frame):\n    frame = frame.copy()\n    frame['tax'] = frame.price * 0.2  # here\n"
        "    frame['weekday'] = frame.shop % 7\n    return frame\n"
        "def main():\n    frame = extend(table())\n    names = ['a', 'tax', 'b']\n"
        "    return tensors(frame[['a', 'tax', 'b']], frame.price)\nx, y = main()"
    ),
    "a column of assign": (
        "def main():\n    frame = table()\n    full = frame.assign(\n        tax=frame.price * 0.2,  # here\n    )\n"
        "    return tensors(full[PLAIN + ['tax']], frame.price)\nx, y = main()"
    ),
    "a column of an array": (
        "def main():\n    frame = table()\n    rows = frame[PLAIN + ['shop']].to_numpy()\n"
        "    rows[:, 3] = frame.price * 2  # here\n    return tensors(rows, frame.price)\nx, y = main()"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_column_with_the_target_is_named_where_it_is_made(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name] + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D115")
    assert "# here" in (finding.where.source or ""), finding.where


# By code and name: a table whose column is at fault in a place that the line with "here" makes.
FAULTY = {
    "D112 a part of a join": (
        "def main():\n    frame = table()\n    same = np.sqrt(frame.price.to_numpy() * 0 + 2)  # here\n"
        "    rows = np.column_stack([frame[PLAIN].to_numpy(), same])\n"
        "    return tensors(rows, frame.price)\nx, y = main()"
    ),
    "D112 a column of a table": (
        "def main():\n    frame = table()\n    frame['unit'] = frame.shop // 1000  # here\n"
        "    return tensors(frame[['a', 'unit', 'b']], frame.price)\nx, y = main()"
    ),
    "D114 a column of a table": (
        "def main():\n    frame = table()\n    frame['tail'] = frame.a * (1 + 1e5 * (frame.a > 2.4))  # here\n"
        "    return tensors(frame[['tail', 'b', 'c']], frame.price)\nx, y = main()"
    ),
    "D114 a part of a join": (
        "def main():\n    frame = table()\n    values = torch.tensor(frame[PLAIN].to_numpy()).float()\n"
        "    tail = values[:, :1] * (1 + 1e5 * (values[:, :1] > 2.4))  # here\n"
        "    return torch.cat([values, tail], 1), torch.tensor(frame.price.to_numpy()).float()[:, None]\nx, y = main()"
    ),
    "D113 a column that the source does not fill": (
        "def read(count):\n    return [-99.0 if i % 20 == 0 else float(i % 37) for i in range(count)]\n"
        "def main():\n    frame = table()\n    frame['depth'] = read(600)  # here\n"
        "    return tensors(frame[['a', 'depth', 'b']], frame.price)\nx, y = main()"
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_column_is_named_where_it_is_made(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + FAULTY[name] + FOOTER)
    finding, *_ = rule_findings(variables["setup"], name.split()[0])
    assert "# here" in (finding.where.source or ""), finding.where


SEVERAL = (
    "def main():\n    frame = table()\n    frame['unit'] = frame.shop // 1000\n    frame['also'] = frame.shop // 999\n"
    "    x = frame[['a', 'unit', 'also']].to_numpy()\n    return tensors(x, frame.price)\nx, y = main()"
)


def test_several_columns_leave_the_line_that_makes_the_inputs(tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + SEVERAL + FOOTER)
    (finding,) = rule_findings(variables["setup"], "D112")
    assert "frame['unit']" not in (finding.where.source or "")
