"""Tests of the numbers of a loop that its code computes without storing them, and of E708 and E710 on them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.loop_monitor.loop_numbers import loop_numbers
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOADER = DataLoader(TensorDataset(torch.arange(10.0)), batch_size=4)
X, Y = points()


class _Meter:
    total = 7  # of the class, not of the object

    def __init__(self) -> None:
        self.hits = 6

    def __len__(self) -> int:
        raise AssertionError("the user's code must not run")


def computed(values: dict[str, Any]) -> dict[str, float]:
    """Return the quotients and means in the code of this function."""
    hits, counts, flags = values["hits"], [3, torch.tensor(2), np.int64(1)], [torch.tensor([True, False])]
    meter, loader, mean, np_, zero = _Meter(), LOADER, len, np, 0
    numbers = {key[2]: number for key, number in loop_numbers(sys._getframe())}
    if zero:
        print(hits / len(loader), hits / len(loader.dataset), sum(counts) / len(counts), np_.mean(counts))
        print(torch.cat(flags).float().mean(), 100.0 * meter.hits / 3, torch.stack(flags).mean().item())
        print(sum(flags) / 2)  # one value for each position
        print(hits / zero, meter.total / 2, len(meter) / 2, mean(counts), loader.pop() / 2, hits / values["hits"])
    return numbers


def test_expressions_of_variables_are_evaluated_without_running_the_users_code() -> None:
    assert computed({"hits": 9}) == {
        "hits / len(loader)": 3.0,
        "hits / len(loader.dataset)": 0.9,
        "sum(counts) / len(counts)": 2.0,
        "np_.mean(counts)": 2.0,
        "torch.cat(flags).float().mean()": 0.5,
        "100.0 * meter.hits / 3": 200.0,
        "torch.stack(flags).mean()": 0.5,
    }


LOOP = """
import torch

def train(setup):
    for epoch in range(3):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
        loader = setup.val_loader
        is_labeled = loader.dataset.tensors[1] >= 0
        with torch.no_grad():
            {evaluate}
        print(epoch, {shown})
"""
IS_RIGHT = "(setup.model(x).argmax(1) == y)"
COUNTED = f"hits = sum({IS_RIGHT}.sum().item() for x, y in loader)"
LISTED = f"hits = [{IS_RIGHT}.sum().item() for x, y in loader]"
MASKS = f"hits = [{IS_RIGHT} for x, y in loader]"


@pytest.mark.parametrize(
    ("evaluate", "shown", "code"),
    [
        (COUNTED, "hits / len(loader)", "E708"),
        (LISTED, "sum(hits) / len(hits)", "E708"),
        (MASKS, "torch.cat(hits).float().mean()", "E710"),
        (COUNTED, "hits / len(loader.dataset)", None),
        (MASKS, "torch.cat(hits)[is_labeled].float().mean()", None),
    ],
)
def test_wrong_metric_that_is_only_printed_is_reported(
    tmp_path: Path, evaluate: str, shown: str, code: str | None
) -> None:
    labels = Y.clone()
    if evaluate == MASKS:
        labels[::5] = -100
    loaders = [DataLoader(TensorDataset(X, labels), batch_size=16) for _ in range(2)]
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    setup = Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))
    train = load_loop(tmp_path / "loop.py", LOOP.format(evaluate=evaluate, shown=shown))
    found = [finding for finding in all_findings(train, setup) if finding.code in ("E708", "E710")]
    assert [finding.code for finding in found] == ([code] if code else [])
    if code:
        assert shown in found[0].message
        assert (shown if code == "E708" else "hits = ") in source_line(found[0])
