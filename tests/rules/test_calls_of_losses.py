"""Tests of losses that take the output alone or the whole batch, and of weights in a column of the target."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

X, _ = points()
READINGS = X.sum(1)
WEIGHTS = torch.rand(64, generator=torch.Generator().manual_seed(0)) + 0.1


class Readings(Dataset[Any]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": X[index], "reading": READINGS[index], "weight": WEIGHTS[index, None]}


class ReadingModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network(1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.body(x).squeeze(1)
        return output


def spread_loss(output: Tensor) -> Tensor:
    return (output.mean(0) - 1).square().mean()


def batch_loss(output: Tensor, batch: dict[str, Tensor]) -> Tensor:
    return ((output - batch["reading"]).square() * batch["weight"].squeeze(1)).mean()


def broadcast_batch_loss(output: Tensor, batch: dict[str, Tensor]) -> Tensor:
    return ((output - batch["reading"]).square() * batch["weight"]).mean()


def test_checkup_of_loss_of_the_output_alone_reports_no_crash() -> None:
    setup = minimal_setup(network(2), X, READINGS, spread_loss)
    report = Debugger.of(setup).checkup()
    assert not [finding.code for finding in report if finding.code.startswith("X")]
    assert not report.pass_error


@pytest.mark.parametrize(("loss_fn", "codes"), [(batch_loss, []), (broadcast_batch_loss, ["L205"])])
def test_checkup_of_loss_of_the_whole_batch_calls_it_so(loss_fn: Any, codes: list[str]) -> None:
    setup = Setup(ReadingModel(), DataLoader(Readings(), 16), loss_fn=loss_fn)
    report = Debugger.of(setup).checkup(select=["L205", "X"])
    assert [finding.code for finding in report if finding.severity != "note"] == codes


def column_loss(output: Tensor, target: Tensor) -> Tensor:
    reading, weight = target.split(1, dim=1)
    return ((output - reading.squeeze(1)).square() * weight.squeeze(1)).mean()


def broadcast_column_loss(output: Tensor, target: Tensor) -> Tensor:
    reading, weight = target.split(1, dim=1)
    return ((output - reading.squeeze(1)).square() * weight).mean()


@pytest.mark.parametrize(("loss_fn", "count"), [(column_loss, 0), (broadcast_column_loss, 1)])
def test_broadcast_loss_of_weights_in_a_column_is_reported(loss_fn: Any, count: int) -> None:
    targets = torch.stack([READINGS, WEIGHTS], 1)
    assert len(rule_faults(minimal_setup(ReadingModel(), X, targets, loss_fn), "L205")) == count


class ReadingColumn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network(1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.body(x)
        return output


column_loss = nn.HuberLoss()


def train_column(model: nn.Module, batches: DataLoader[Any]) -> None:
    for x, reading in batches:
        column_loss(model(x), reading).backward()


def test_loss_of_torch_that_broadcasts_is_located_at_its_only_call() -> None:
    (fault,) = rule_faults(minimal_setup(ReadingColumn(), X, READINGS, column_loss), "L205")
    assert fault.where.source == "        column_loss(model(x), reading).backward()"
    assert fault.edits


squeezed_loss, sliced_loss, widened_loss = nn.PoissonNLLLoss(), nn.L1Loss(), nn.SmoothL1Loss()


def train_reshaped(model: nn.Module, batches: DataLoader[Any]) -> None:
    for x, reading in batches:
        output = model(x).squeeze(1)
        squeezed_loss(output, reading).backward()
        sliced_loss(model(x)[:, 0], reading).backward()
        reading = reading.unsqueeze(1)
        widened_loss(model(x), reading).backward()


@pytest.mark.parametrize("loss_fn", [squeezed_loss, sliced_loss, widened_loss], ids=["squeezed", "sliced", "widened"])
def test_loss_whose_operands_the_loop_reshapes_is_judged_only_in_a_watched_loop(loss_fn: nn.Module) -> None:
    debugger = Debugger.of(minimal_setup(ReadingColumn(), X, READINGS, loss_fn))
    assert not debugger.checkup(select=["L205"])
    assert [item.why for item in debugger.findings.not_checked if "changes the shape" in item.why]
    with debugger.watch(final_tests=False):
        for x, reading in debugger.setup.train_loader:
            loss_fn(debugger.setup.model(x), reading).backward()
    assert "L205" in {finding.code for finding in debugger.findings}
