"""Tests of O505 and O506 for events that recur in some steps only: every k-th batch, the last group, a closure."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    TrainFunction,
    all_findings,
    batch_loss,
    batches,
    source_line,
    train_plainly,
)


def small_batches(make_optimizer: type[torch.optim.Optimizer] = torch.optim.SGD) -> Setup:
    model = network(3)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(make_optimizer(model.parameters(), 0.1),))


def clearing_every(period: int) -> TrainFunction:
    """Steps at each batch, and gradients that are cleared at some."""

    def train(setup: Setup) -> None:
        for number, (x, y) in enumerate(batches(setup, 6)):
            if number % period == 0:
                setup.optimizers[0].zero_grad()
            batch_loss(setup, x, y).backward()
            setup.optimizers[0].step()

    return train


def accumulating(clears_each_epoch: bool) -> TrainFunction:
    """Groups of three batches in epochs of four."""

    def train(setup: Setup) -> None:
        for _ in range(8):
            if clears_each_epoch:
                setup.optimizers[0].zero_grad()
            for number, (x, y) in enumerate(setup.train_loader, start=1):
                (batch_loss(setup, x, y) / 3).backward()
                if number % 3 == 0:
                    setup.optimizers[0].step()
                    setup.optimizers[0].zero_grad()

    return train


def closure_steps(clears_inside: bool) -> TrainFunction:
    def train(setup: Setup) -> None:
        for x, y in batches(setup, 3):
            setup.optimizers[0].zero_grad()

            def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
                if clears_inside:
                    setup.optimizers[0].zero_grad()
                loss: torch.Tensor = batch_loss(setup, x, y)
                loss.backward()
                return loss

            setup.optimizers[0].step(closure)  # type: ignore[arg-type]

    return train


@pytest.mark.parametrize(("period", "severity"), [(2, "warning"), (3, "warning"), (4, "error")])
def test_zero_grad_at_every_kth_batch_is_reported_with_its_share(period: int, severity: str) -> None:
    (finding,) = (
        finding for finding in all_findings(clearing_every(period), small_batches()) if finding.code == "O505"
    )
    assert finding.severity == severity
    assert "inspected steps" in finding.message
    assert source_line(finding) == "batch_loss(setup, x, y).backward()"


def test_zero_grad_outside_the_closure_is_an_error() -> None:
    findings = all_findings(closure_steps(clears_inside=False), small_batches(torch.optim.LBFGS))
    (finding,) = (finding for finding in findings if finding.code == "O505")
    assert finding.severity == "error"
    assert "closure" in finding.cause
    assert source_line(finding) == "loss.backward()"


def test_last_group_carried_into_the_next_epoch_is_a_note() -> None:
    findings = all_findings(accumulating(clears_each_epoch=False), small_batches())
    (finding,) = (finding for finding in findings if finding.code in ("O505", "O506"))
    assert (finding.code, finding.severity) == ("O505", "note")
    assert "sum 4 batches, of which 1 belong to the previous epoch; expected 3" in finding.message


def test_lost_last_group_of_an_epoch_is_a_note_with_its_share() -> None:
    findings = all_findings(accumulating(clears_each_epoch=True), small_batches())
    (finding,) = (finding for finding in findings if finding.code == "O506")
    assert finding.severity == "note"
    assert "(25%)" in finding.message or "batches (2" in finding.message


@pytest.mark.parametrize(
    ("train", "make_optimizer"),
    [
        (train_plainly, torch.optim.SGD),
        (clearing_every(1), torch.optim.Adam),
        (closure_steps(clears_inside=True), torch.optim.LBFGS),
    ],
)
def test_gradients_that_are_cleared_have_no_finding(
    train: TrainFunction, make_optimizer: type[torch.optim.Optimizer]
) -> None:
    findings = all_findings(train, small_batches(make_optimizer))
    assert not [finding for finding in findings if finding.code in ("O505", "O506")]
