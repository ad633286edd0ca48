"""Tests of find_write: the statement that writes some values into the data that a line makes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nbdebug.source.location import SourceLine
from nbdebug.source.writes import find_write

# By name: the source, and what is searched: values and columns. The line with "made" makes the data.
WRITES = {
    "column": ("x = rand(8, 9)  # made\nx[:, 5] = 1.0  # here\n", [0.0], [5]),
    "value of a column in a function": (
        "def build():\n    x = rand(8, 9)  # made\n    x[:4] = 2 * x[4:]\n    x[:, 3] = -999  # here\n    return x\n",
        [-999.0],
        [],
    ),
    "method": ("x = rand(8, 9)  # made\nx[:, 2].fill_(7.5)  # here\nx[0].add_(1)\n", [7.5], []),
    "array that a tensor is made of": (
        "table = rng.normal(size=(8, 9))\ntable[table < 0] = np.nan  # here\nx = torch.tensor(table)  # made\n",
        [math.nan],
        [],
    ),
    "attribute": (
        "class Rows:\n    def __init__(self):\n        self.x = rand(8, 9)  # made\n"
        "        self.x[:, 1] *= 0  # here\n        self.y = rand(8)\n",
        [0.5],
        [1],
    ),
    "call that fills": ("x = rand(8)\nx = np.nan_to_num(x, nan=-9)  # here\nx = torch.tensor(x)  # made\n", [-9.0], []),
    "infinity": ("x = rand(8)  # made\nx[3] = float('inf')  # here\n", [math.inf], []),
}
NO_WRITES = {
    "other value": ("x = rand(8, 9)  # made\nx[:, 5] = 1.0\n", [2.0], [4]),
    "other variable": ("x = rand(8, 9)  # made\nz = rand(8, 9)\nz[:, 5] = 1.0\n", [1.0], [5]),
    "call that fills another variable": ("x = rand(8)  # made\nz = z.masked_fill(z > 1, -9.0)\n", [-9.0], []),
    "two writes": ("x = rand(8, 9)  # made\nx[:, 5] = 1.0\nx[:, 6] = 1.0\n", [1.0], []),
    "row of the number of the column": ("x = rand(8, 9)  # made\nx[5] = y\nx[5, :] = y\n", [0.0], [5]),
    "computed value": ("x = rand(8, 9)  # made\nx[:, k] = -missing\n", [-999.0], []),
    "no write": ("x = rand(8, 9)  # made\nx = x + 1.0\n", [1.0], [1]),
}


def marked_line(tmp_path: Path, text: str) -> SourceLine:
    file = tmp_path / "program.py"
    file.write_text(text, encoding="utf-8")
    (number,) = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# made")]
    return SourceLine(str(file), number)


@pytest.mark.parametrize("name", WRITES)
def test_find_write_of_values_or_columns_is_the_writing_line(name: str, tmp_path: Path) -> None:
    text, values, columns = WRITES[name]
    line = find_write(marked_line(tmp_path, text), values, columns)
    assert line is not None
    assert line.text.endswith("# here")


@pytest.mark.parametrize("name", NO_WRITES)
def test_find_write_that_is_not_certain_is_none(name: str, tmp_path: Path) -> None:
    text, values, columns = NO_WRITES[name]
    assert find_write(marked_line(tmp_path, text), values, columns) is None


def test_find_write_without_a_line_is_none() -> None:
    assert find_write(None, [1.0]) is None
