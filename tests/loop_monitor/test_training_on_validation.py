"""Tests of E711 (steps on validation batches) and P806 (evaluation with gradients), and of loops that resemble them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, batch_loss, codes, summarize_loop

EPOCHS = 3


def make_setup(optimizers: int = 1) -> Setup:
    x, y = points()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    parts = (model.parameters(),) if optimizers == 1 else (model[0].parameters(), model[2].parameters())
    setup = minimal_setup(model, x, y, nn.CrossEntropyLoss(), optimizers=tuple(torch.optim.Adam(p) for p in parts))
    setup.val_loader = DataLoader(TensorDataset(x.flip(0), y.flip(0)), batch_size=16)
    return setup


def step(setup: Setup, x: torch.Tensor, y: torch.Tensor, index: int = 0) -> None:
    setup.model.zero_grad()
    batch_loss(setup, x, y).backward()
    setup.optimizers[index].step()


def train_on_both(setup: Setup) -> None:
    for loader in (setup.train_loader, setup.val_loader) * EPOCHS:
        for x, y in loader:
            step(setup, x, y)


def swap_loaders(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.val_loader:
            step(setup, x, y)
        with torch.no_grad():
            for x, y in setup.train_loader:
                batch_loss(setup, x, y)


def accumulate_on_validation(setup: Setup) -> None:
    for loader in (setup.train_loader, setup.val_loader) * EPOCHS:
        for i, (x, y) in enumerate(loader):
            batch_loss(setup, x, y).backward()
            if i % 2 == 1:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()


def evaluate_each_epoch(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            step(setup, x, y)
        with torch.no_grad():
            for x, y in setup.val_loader:
                batch_loss(setup, x, y)


def evaluate_one_batch_at_each_step(setup: Setup) -> None:
    validation = cycle(setup.val_loader)
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            with torch.no_grad():
                batch_loss(setup, *next(validation))
            step(setup, x, y)


def measure_input_gradients_in_evaluation(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            step(setup, x, y)
        for x, y in setup.val_loader:
            batch_loss(setup, x.requires_grad_(), y).backward()


def train_on_stored_batches(setup: Setup) -> None:
    stored = [*setup.train_loader]
    for _ in range(EPOCHS):
        for x, y in stored:
            step(setup, x, y)
        with torch.no_grad():
            for x, y in setup.val_loader:
                batch_loss(setup, x, y)


def search_architecture(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.val_loader:
            step(setup, x, y, 1)
        for x, y in setup.train_loader:
            step(setup, x, y, 0)


LOOPS: dict[str, tuple[Callable[[Setup], None], int, bool]] = {
    "on both loaders": (train_on_both, 1, True),
    "loaders swapped": (swap_loaders, 1, True),
    "accumulation on both": (accumulate_on_validation, 1, True),
    "evaluation after each epoch": (evaluate_each_epoch, 1, False),
    "one validation batch at each step": (evaluate_one_batch_at_each_step, 1, False),
    "gradients of validation inputs": (measure_input_gradients_in_evaluation, 1, False),
    "steps on stored batches": (train_on_stored_batches, 1, False),
    "an optimizer of its own for validation": (search_architecture, 2, False),
}


@pytest.mark.parametrize("name", LOOPS)
def test_training_on_validation_finds_steps_on_validation_batches_only(name: str) -> None:
    train, optimizers, is_faulty = LOOPS[name]
    assert ("E711" in codes(all_findings(train, make_setup(optimizers)))) == is_faulty


def test_training_on_validation_counts_each_step() -> None:
    setup = make_setup()
    summary = summarize_loop(train_on_both, setup)
    assert summary.validation_steps == EPOCHS * len(setup.val_loader)
    assert summary.tracked_steps == 2 * summary.validation_steps


def test_training_on_validation_with_one_loader_for_both_is_not_checked() -> None:
    setup = make_setup()
    setup.val_loader = setup.train_loader
    assert "E711" not in codes(all_findings(train_on_both, setup))


def evaluate(gradients: bool, backward: bool = False) -> Callable[[Setup], None]:
    def train(setup: Setup) -> None:
        for _ in range(EPOCHS):
            for x, y in setup.train_loader:
                step(setup, x, y)
            with torch.set_grad_enabled(gradients):
                for x, y in setup.val_loader:
                    loss = batch_loss(setup, x, y)
                    if backward:
                        loss.backward()

    return train


@pytest.mark.parametrize(
    ("train", "is_reported"),
    [
        pytest.param(evaluate(gradients=True), True, id="gradients enabled"),
        pytest.param(evaluate(gradients=False), False, id="gradients disabled"),
        pytest.param(evaluate(gradients=True, backward=True), False, id="graphs that are used"),
    ],
)
def test_gradients_in_evaluation_notes_graphs_without_backward_pass(
    train: Callable[[Setup], None], is_reported: bool
) -> None:
    findings = [finding for finding in all_findings(train, make_setup()) if finding.code == "P806"]
    assert [finding.severity for finding in findings] == ["note"] * is_reported
