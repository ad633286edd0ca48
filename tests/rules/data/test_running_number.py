"""Tests of D115 on columns that number the rows of a sorted table."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_faults

ROWS, CLASSES = 300, 3
GENERATOR = torch.Generator().manual_seed(0)
NUMBERS = torch.randperm(2 * ROWS, generator=GENERATOR)[:ROWS].sort().values.float()
NOISE = torch.randn(ROWS, 3, generator=GENERATOR)
SORTED_LABELS = torch.arange(ROWS) * CLASSES // ROWS
RANDOM_LABELS = SORTED_LABELS[torch.randperm(ROWS, generator=GENERATOR)]
UNEVEN = torch.rand(ROWS, generator=GENERATOR).sort().values

# By name: a column, the labels, and whether the column is the row number of a table that was sorted by label.
COLUMNS: dict[str, tuple[Tensor, Tensor, bool]] = {
    "row number": (NUMBERS, SORTED_LABELS, True),
    "standardized row number": ((NUMBERS - NUMBERS.mean()) / NUMBERS.std(), SORTED_LABELS, True),
    "row number of a table in random order": (NUMBERS, RANDOM_LABELS, False),
    "measurement that decides the class": (UNEVEN, SORTED_LABELS, False),
    "rounded measurement": ((50 * UNEVEN).round(), SORTED_LABELS, False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_target_leak_reports_row_numbers_of_sorted_tables(name: str) -> None:
    column, labels, is_leak = COLUMNS[name]
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    x = torch.cat([NOISE, column.unsqueeze(1)], 1)[order]
    findings = rule_faults(minimal_setup(nn.Linear(4, CLASSES), x, labels[order], nn.CrossEntropyLoss()), "D115")
    assert [finding.evidence.get("runs") for finding in findings] == ([CLASSES] if is_leak else [])
