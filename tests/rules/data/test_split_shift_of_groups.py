"""Tests of D109 with splits by group: rows of one machine are alike, and few machines are in validation."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

_TRAIN, _VAL, _ROWS, _COLUMNS = 36, 12, 40, 24


def machine_setup(seed: int, *, is_mixed: bool) -> Setup:
    """Spectra of machines, each with a signature of its own that outweighs its fault; rows by machine or in any order.

    The machines are split, so that validation rows tell each other's fault, and training rows hardly do.
    """
    generator = torch.Generator().manual_seed(seed)
    faults = torch.arange(_TRAIN + _VAL) % 2
    signatures = torch.randn(_TRAIN + _VAL, _COLUMNS, generator=generator)
    signatures[:, :4] += faults[:, None] - 0.5
    machine = torch.arange(_TRAIN + _VAL).repeat_interleave(_ROWS)
    x = signatures[machine] + 0.3 * torch.randn(len(machine), _COLUMNS, generator=generator)
    splits = torch.arange(len(machine)).split([_TRAIN * _ROWS, _VAL * _ROWS])
    orders = [rows[torch.randperm(len(rows), generator=generator)] if is_mixed else rows for rows in splits]
    train, val = (TensorDataset(x[rows], faults[machine][rows]) for rows in orders)
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(val, 64)
    return Setup(nn.Linear(_COLUMNS, 2), *loaders, loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_mixed", [False, True])
def test_split_shift_of_a_split_by_machine_is_quiet(seed: int, *, is_mixed: bool) -> None:
    assert rule_findings(machine_setup(seed, is_mixed=is_mixed), "D109") == []
