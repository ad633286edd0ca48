"""Tests of O502 for schedules whose factors make the rate too low."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp, rings, training_setup
from tests.rules.rule_findings import own_findings

WEIGHTED_CLASSES = Path(__file__).parents[3] / "benchmarks/mutants/programs/weighted_classes.py"


def rate_instead_of_factor(step: int) -> float:
    return 1e-3 * (1 - step / 1000)


def decay(step: int) -> float:
    return 1 - step / 1000


@pytest.mark.parametrize(
    ("function", "rate", "place", "cause"),
    [
        (rate_instead_of_factor, 1e-2, "return 1e-3", "returned factors of at most 0.001"),
        (decay, 1e-6, "", "steps are so short"),
    ],
)
def test_lr_too_low_of_a_schedule_names_its_function_if_its_factors_are_small(
    function: object, rate: float, place: str, cause: str
) -> None:
    torch.manual_seed(0)
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=rate)
    optimizer = setup.optimizers[0]
    debugger = Debugger.of(setup)
    with debugger.watch(final_tests=False):
        scheduler = LambdaLR(optimizer, function)  # type: ignore[arg-type]
        for _ in range(4):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                F.cross_entropy(setup.model(x), y).backward()
                optimizer.step()
                scheduler.step()
    (finding,) = [finding for finding in debugger.findings if finding.code == "O502"]
    assert cause in finding.cause
    assert (finding.where.source or "").strip().startswith(place)


@pytest.mark.parametrize(
    ("kind", "rate", "limit", "cause"),
    [
        (torch.optim.SGD, 1e-1, 1e-3, "Clipping shortens the steps"),
        (torch.optim.SGD, 1e-4, 100.0, "The steps are so short"),
        (torch.optim.Adam, 1e-6, 1e-3, "The steps are so short"),
    ],
    ids=["low limit", "high limit", "adaptive"],
)
def test_short_steps_are_due_to_clipping_if_it_shrinks_them(
    kind: type[torch.optim.Optimizer], rate: float, limit: float, cause: str
) -> None:
    torch.manual_seed(0)
    setup = training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=rate)
    model = setup.eager_model
    optimizer = kind(model.parameters(), lr=rate)  # type: ignore[call-arg]
    debugger = Debugger(model, setup.train_loader, loss_fn=setup.loss_fn, optimizer=optimizer)
    with debugger.watch(final_tests=False):
        for _ in range(4):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
                optimizer.step()
    (finding,) = own_findings(debugger, "O502")
    assert cause in finding.cause
    assert ("clip_grad_norm_" in (finding.where.source or "")) == (limit < 1 and kind is torch.optim.SGD)


def test_lr_too_low_is_quiet_if_the_loss_had_settled() -> None:
    torch.manual_seed(0)
    program = runpy.run_path(str(WEIGHTED_CLASSES))
    options = {name: program[name] for name in ("loss_fn", "optimizer", "scheduler")}
    debugger = Debugger(program["model"], program["train_loader"], program["val_loader"], **options)
    with debugger.watch():
        program["train"]()
    assert [finding.code for finding in debugger.findings if finding.code == "O502"] == []
