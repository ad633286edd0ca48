"""Tests of D105 with labels whose relation to the inputs some draws of rows hide, and of its withdrawal after a run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.loop_monitor.conclusions import LABELS_UNPREDICTABLE, disproved_assumptions
from nbdebug.loop_monitor.summary import LoopSummary
from nbdebug.measurements import Measurements
from nbdebug.rule_engine import rule_registry
from nbdebug.setup import Setup

_CODES, _CLASSES, _ROWS = 40, 30, 3000


def interplay_setup(seed: int) -> Setup:
    """Two of four codes determine the class together, except for strays; neither alone tells much."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, _CODES, (_ROWS, 4), generator=generator)
    group = torch.randint(0, 6, (_CODES,), generator=generator)
    table = torch.randint(0, _CLASSES, (6, 6), generator=generator)
    y = table[group[codes[:, 0]], group[codes[:, 3]]]
    is_stray = torch.rand(_ROWS, generator=generator) < 0.15
    y = torch.where(is_stray, torch.randint(0, _CLASSES, (_ROWS,), generator=generator), y)
    train, val = (TensorDataset(codes[rows], y[rows]) for rows in (slice(2400), slice(2400, None)))
    model = nn.Sequential(nn.Embedding(_CODES, 8), nn.Flatten(), nn.Linear(32, _CLASSES))
    return Setup(model, DataLoader(train, 50, shuffle=True), DataLoader(val, 50), loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("seed", [9, 35, 110, 129])  # the first rows of one split, and they alone, show no relation
def test_relation_that_the_first_rows_of_a_split_hide_is_no_finding(seed: int) -> None:
    assert rule_registry.find_rule("D105")(Measurements(interplay_setup(seed))) == []


def is_disproved_by_training(x: Tensor, y: Tensor) -> bool:
    """Train a network on 400 rows, and return whether the run disproves that no label can be predicted."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 2))
    train, val = (TensorDataset(x[rows], y[rows]) for rows in (slice(400), slice(400, None)))
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(val, 100)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    with debugger.watch() as run:
        for _ in range(6):
            for inputs, labels in loaders[0]:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
    return LABELS_UNPREDICTABLE in disproved_assumptions(LoopSummary(), run.record)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_error_of_a_checkup_is_withdrawn_only_if_the_network_predicts_validation_labels(
    seed: int, *, is_shuffled: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(900, 2, generator=generator)
    y = (x.prod(1) > 0).long()
    if is_shuffled:
        y[:400] = y[:400][torch.randperm(400, generator=generator)]
    assert is_disproved_by_training(x, y) != is_shuffled


def test_error_of_labels_without_relation_assumes_that_no_network_predicts_them() -> None:
    (finding,) = rule_registry.find_rule("D105")(Measurements(image_setup()))
    assert (finding.severity or "error", finding.assumes) == ("error", (LABELS_UNPREDICTABLE,))


def image_setup() -> Setup:
    """Gray images with a bright row or column, whose validation labels are those of other images."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (800,), generator=generator)
    lines = torch.rand(800, 6, 6, generator=generator)
    lines[:, 2] += y[:, None]
    lines[:, :, 3] += 1 - y[:, None]
    labels = torch.cat([y[:400], y[400:][torch.randperm(400, generator=generator)]])
    train, val = (TensorDataset(lines[rows], labels[rows]) for rows in (slice(400), slice(400, None)))
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    return Setup(model, DataLoader(train, 50, shuffle=True), DataLoader(val, 50), loss_fn=nn.CrossEntropyLoss())
