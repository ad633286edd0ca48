"""Tests of D105 on files that were sorted by name as texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

ROWS = 240
X = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(0))
TEXT_ORDER = sorted(range(ROWS), key=str)
FROM_ONE = sorted(range(ROWS), key=lambda index: str(index + 1))
NUMERIC = [*range(ROWS)]


def regression(inputs: list[int], labels: list[int], rows: int = ROWS) -> Setup:
    """Build a setup whose inputs and labels are those of some numbers, of which a part is used."""
    dataset: TensorDataset | Subset[tuple[Tensor, ...]] = TensorDataset(X[inputs], X[labels].sum(1, keepdim=True))
    if rows < ROWS:
        dataset = Subset(dataset, np.random.default_rng(0).permutation(ROWS)[:rows].tolist())
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    return Setup(model, loader, loss_fn=nn.MSELoss(), optimizers=(optimizer,))


# By name: the numbers of inputs and labels, the rows that are used, and the part that is in text order.
ORDERS: dict[str, tuple[list[int], list[int], int, str | None]] = {
    "inputs": (TEXT_ORDER, NUMERIC, ROWS, "inputs"),
    "labels numbered from 1": (NUMERIC, FROM_ONE, ROWS, "labels"),
    "part of the inputs": (TEXT_ORDER, NUMERIC, 180, "inputs"),
    "both": (TEXT_ORDER, TEXT_ORDER, ROWS, None),
    "random labels": (NUMERIC, np.random.default_rng(1).permutation(ROWS).tolist(), ROWS, None),
}


@pytest.mark.parametrize("name", ORDERS)
def test_labels_unrelated_reports_text_order(name: str) -> None:
    inputs, labels, rows, part = ORDERS[name]
    findings = rule_faults(regression(inputs, labels, rows), "D105")
    assert [finding.evidence["part"] for finding in findings] == ([part] if part else [])
