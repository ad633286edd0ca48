"""Tests of whether numbers that the source computes from class counts rise or fall with them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nbdebug.source.count_trends import count_trend
from nbdebug.source.scopes import Expression, file_scope

RISING = [
    "torch.bincount(y) / len(y)",
    "F.one_hot(y).float().mean(0)",
    "np.log(1.02 + torch.bincount(y))",
    "df['kind'].value_counts().sort_index().to_numpy()",
    "[shares[c] for c in y]",
]
FALLING = [
    "1 / torch.bincount(y)",
    "len(y) / (3 * np.bincount(y))",
    "torch.bincount(y).max() / torch.bincount(y)",
    "torch.bincount(y).float().pow(-1)",
    "(np.bincount(y) + 1) ** -0.5",
    "1 / np.log(1.02 + torch.bincount(y))",
    "(1 - 0.999) / (1 - 0.999 ** torch.bincount(y))",
    "1 - torch.bincount(y) / 96",
    "torch.softmax(-torch.bincount(y).float(), 0)",
    "np.unique(y, return_counts=True)[1] ** -1.0",
    "[1 / n for n in Counter(y).values()]",
    "torch.tensor([1 / (y == c).sum() for c in range(3)])",
]
UNCERTAIN = [
    "1 / other",
    "torch.tensor([1.0, 2.0])",
    "torch.bincount(y) / torch.bincount(z)",
    "torch.bincount(y) ** power",
    "sort(torch.bincount(y))",
]
EXPRESSIONS = {**dict.fromkeys(RISING, 1), **dict.fromkeys(FALLING, -1), **dict.fromkeys(UNCERTAIN, 0)}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_trend_of_an_expression(text: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.py"
    file.write_text(f"shares = torch.bincount(y) / 96\nweights = {text}\n")
    (_, statement) = ast.parse(file.read_text()).body
    assert isinstance(statement, ast.Assign)
    assert count_trend(Expression(file_scope(str(file)), statement.value)) == EXPRESSIONS[text]
