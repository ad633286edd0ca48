"""Tests of D105 for inputs and targets that are each sorted by their own values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(500, 6, generator=GENERATOR)
VALUE = (X @ torch.tensor([0.5, 1, -1, 0.5, 1, 0]) + 0.1 * torch.randn(500, generator=GENERATOR))[:, None]
CLASS = X[:, 1:4].argmax(1)
IMAGES = torch.rand(500, 1, 6, 6, generator=GENERATOR) + CLASS[:, None, None, None]
TOKENS = torch.randint(0, 40, (500, 6), generator=GENERATOR)
Rows = tuple[Tensor, Tensor]


def setup_of(train: Rows, val: Rows, loss_fn: nn.Module) -> Setup:
    width = max(val[1].shape[1] if val[1].dim() > 1 else 3, 1)
    layers = [nn.Flatten(), nn.Linear(train[0][0].numel(), width)]
    if not train[0].is_floating_point():
        layers = [nn.Embedding(40, 4), nn.Flatten(), nn.Linear(4 * train[0].shape[1], width)]
    loaders = [DataLoader(TensorDataset(*rows), 25) for rows in (train, val)]
    return Setup(nn.Sequential(*layers), *loaders, loss_fn=loss_fn)


def split(x: Tensor, y: Tensor) -> tuple[Rows, Rows]:
    return (x[:300], y[:300]), (x[300:], y[300:])


def sorted_apart(x: Tensor, y: Tensor, key: Callable[[Tensor], Tensor], descending: bool = False) -> tuple[Rows, Rows]:
    (train_x, train_y), val = split(x, y)
    return (train_x[key(train_x).argsort()], train_y.sort(0, descending=descending).values), val


def by_column(number: int) -> Callable[[Tensor], Tensor]:
    return lambda rows: rows.flatten(1)[:, number]


MSE, CE = nn.MSELoss(), nn.CrossEntropyLoss()
LOGS = torch.stack([X[:, 0], X[:, 0].exp()], 1)
FAULTY: dict[str, Callable[[], Setup]] = {
    "table and values": lambda: setup_of(*sorted_apart(X, VALUE, by_column(0)), MSE),
    "table and classes": lambda: setup_of(*sorted_apart(X, CLASS, by_column(4)), CE),
    "falling targets": lambda: setup_of(*sorted_apart(X, VALUE, by_column(2), descending=True), MSE),
    "images by brightness": lambda: setup_of(
        *sorted_apart(IMAGES - CLASS[:, None, None, None], CLASS, lambda rows: rows.flatten(1).mean(1)), CE
    ),
    "each column of several targets": lambda: setup_of(
        *sorted_apart(X, torch.cat([VALUE, -VALUE], 1), by_column(0)), MSE
    ),
    "tokens": lambda: setup_of(*sorted_apart(TOKENS, (TOKENS[:, 3] > 19).long(), by_column(0)), CE),
}


def sorted_together(x: Tensor, y: Tensor, key: Tensor) -> Setup:
    order = key[:300].argsort()
    (train_x, train_y), val = split(x, y)
    return setup_of((train_x[order], train_y[order]), val, MSE if y.is_floating_point() else CE)


def recordings() -> Setup:
    """Runs to failure: the time decides in the one training run, and each validation run fails at another time."""
    times = torch.rand(300, generator=GENERATOR).sort().values
    runs = [torch.rand(50, generator=GENERATOR).sort().values for _ in range(4)]
    failed = [run > limit for run, limit in zip(runs, (0.1, 0.9, 0.3, 0.8), strict=True)]
    train = torch.stack([times, times + 0.1 * torch.randn(300, generator=GENERATOR)], 1), (times > 0.5).long()
    val_times = torch.cat(runs)
    return setup_of(train, (torch.stack([val_times, torch.cat(failed).float()], 1), torch.cat(failed).long()), CE)


def subset_of_sorted() -> Setup:
    order = VALUE[:, 0].argsort()
    dataset = TensorDataset(torch.cat([VALUE, X], 1)[order].exp(), VALUE[order])
    draw = torch.randperm(500, generator=torch.Generator().manual_seed(1)).tolist()
    loaders = DataLoader(Subset(dataset, draw[:300]), 25), DataLoader(Subset(dataset, draw[300:]), 25)
    return Setup(nn.Linear(7, 1), *loaders, loss_fn=MSE)


def grid() -> Setup:
    positions = torch.linspace(-1, 1, 300)[:, None]
    val = 2 * torch.rand(200, 1, generator=GENERATOR) - 1
    return setup_of((positions, positions**3), (val, val**2), MSE)


def rare_class() -> Setup:
    """One validation sample of the rare class is on the other side of the threshold."""
    x, val_x = X[:300].clone(), X[300:]
    x[:, 0] = x[:, 0].sort().values
    val_y = torch.zeros(200, dtype=torch.long).index_fill(0, val_x[:, 0].argsort()[80], 1)
    return setup_of((x, (x[:, 0] > 2).long()), (val_x, val_y), CE)


HEALTHY: dict[str, Callable[[], Setup]] = {
    "one odd sample of a rare class": rare_class,
    "in no order": lambda: setup_of(*split(X, VALUE), MSE),
    "by the target": lambda: sorted_together(X, VALUE, VALUE[:, 0]),
    "by the class": lambda: sorted_together(X, CLASS, CLASS),
    "by a column": lambda: sorted_together(X, VALUE, X[:, 0]),
    "a column that decides": lambda: sorted_together(LOGS, X[:, :1] ** 3, X[:, 0]),
    "brightness that decides": lambda: sorted_together(IMAGES, CLASS, IMAGES.flatten(1).mean(1)),
    "random parts of sorted rows": subset_of_sorted,
    "a grid": grid,
    "times of recordings": recordings,
    "validation at later times": lambda: setup_of(
        (X[:300, :1].sort(0).values, X[:300, :1].sort(0).values.exp()),
        (X[300:, :1] + 10, torch.randn(200, 1, generator=GENERATOR)),
        MSE,
    ),
    "a code of the class": lambda: setup_of(
        (
            F.pad(X[:300], (1, 0)).index_fill(1, torch.tensor([0]), 0)
            + F.pad(CLASS[:300].sort().values[:, None], (0, 6)),
            CLASS[:300].sort().values,
        ),
        (F.pad(X[300:], (1, 0)), CLASS[300:]),
        CE,
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_inputs_and_targets_that_are_sorted_apart_are_an_error(name: str) -> None:
    (finding,) = rule_faults(FAULTY[name](), "D105")
    assert finding.severity == "error"
    assert "targets are sorted. In validation" in finding.message


@pytest.mark.parametrize("name", HEALTHY)
def test_rows_that_are_sorted_as_a_whole_are_quiet(name: str) -> None:
    assert [f for f in rule_faults(HEALTHY[name](), "D105") if "are sorted" in f.message] == []


def test_the_line_that_sorts_the_targets_alone_is_named(tmp_path: Path) -> None:
    text = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
y = x.sum(1, keepdim=True)
def build():
    train_x = x[:300][x[:300, 0].argsort()]
    train_y = y[:300].sort(dim=0).values  # here
    val = TensorDataset(x[300:], y[300:])
    return DataLoader(TensorDataset(train_x, train_y), 20, shuffle=True), DataLoader(val, 20)
"""
    file = tmp_path / "program.py"
    setup = Setup(nn.Linear(4, 1), *run_program(file, text)["build"](), loss_fn=MSE)
    setup.files = {str(file)}
    (finding,) = rule_faults(setup, "D105")
    assert source_line(finding).endswith("# here")
