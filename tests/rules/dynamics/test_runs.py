"""Whole training runs: the fault that shows only in them is found, and nothing is said of runs that are well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.report import Report
from nbdebug.rules.examples import mlp, rings, train, training_setup, waves
from nbdebug.setup import Setup
from tests.rules.dynamics.healthy_runs import CE, HEALTHY, MSE, Run
from tests.watching.budgets import TINY_BUDGET, without_enforcement

looked_at = pytest.mark.parametrize("rhythm", ["losses only", "seldom", "often"])
OWN = ("T601", "T602", "T604", "T605", "T606", "T607", "T609", "T610", "T611", "T612", "T614", "O501", "O502", "L218")


def watched(setup: Setup, loop: Callable[[], None], rhythm: str = "often") -> Report:
    debugger = Debugger.of(setup)
    watch = debugger.watch(budget=1.0 if rhythm == "often" else TINY_BUDGET)
    with without_enforcement(watch) if rhythm == "seldom" else watch:
        loop()
    return debugger.findings


def loud(report: Report) -> list[str]:
    return [one.code for one in report.faults if one.code in OWN]


def classified(lr: float, epochs: int = 6, *, kind: str = "Adam", tail: nn.Module | None = None) -> Run:
    model = nn.Sequential(*mlp(8, 32, 32, 2), *([tail] if tail else []))
    made = getattr(torch.optim, kind)(model.parameters(), lr=lr)
    setup = training_setup(model, rings(), rings(256, seed=1), CE, optimizer=made)
    return setup, lambda: train(setup, epochs)


def fitted(lr: float, epochs: int = 6, *, kind: str = "Adam") -> Run:
    model = mlp(4, 32, 32, 1)
    made = getattr(torch.optim, kind)(model.parameters(), lr=lr)
    setup = training_setup(model, waves(), waves(256, seed=1), MSE, optimizer=made)
    return setup, lambda: train(setup, epochs)


def by_heart() -> Run:
    data = rings(48, noise=0.4), rings(256, noise=0.4, seed=1)
    setup = training_setup(mlp(8, 128, 128, 2), *data, CE, batch_size=16)

    def loop() -> None:
        for _ in range(25):
            train(setup, 1)
            with torch.no_grad():
                [CE(setup.model(x), y) for x, y in setup.val_loader]

    return setup, loop


FAULTS: dict[str, tuple[str, Callable[[], Run]]] = {
    "classifier, Adam a hundred times too high": ("O501", lambda: classified(1.0)),
    "classifier, plain descent far too high": ("O501", lambda: classified(30.0, kind="SGD")),
    "regression, Adam a hundred times too high": ("O501", lambda: fitted(0.5)),
    "regression that explodes": ("O501", lambda: fitted(2.0, kind="SGD")),
    "classifier, Adam a thousand times too low": ("O502", lambda: classified(1e-5)),
    "classifier, Adam a hundred times too low": ("O502", lambda: classified(5e-5)),
    "classifier, plain descent too low": ("O502", lambda: classified(2e-4, kind="SGD")),
    "regression, Adam too low": ("O502", lambda: fitted(1e-5)),
    "a few samples by heart": ("T609", by_heart),
}


@looked_at
@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_of_a_run_is_found_and_ranks_first(name: str, rhythm: str) -> None:
    code, build = FAULTS[name]
    assert loud(watched(*build(), rhythm))[:1] == [code]


@looked_at
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_a_run_that_is_well(name: str, rhythm: str) -> None:
    torch.manual_seed(0)
    assert [str(one) for one in watched(*HEALTHY[name](), rhythm).faults if one.code in OWN] == []


def test_the_rate_is_placed_at_the_line_that_sets_it() -> None:
    model = mlp(8, 32, 32, 2)
    made = torch.optim.Adam(model.parameters(), lr=3.25)
    setup = training_setup(model, rings(), rings(256, seed=1), CE, optimizer=made)
    found = next(one for one in watched(setup, lambda: train(setup, 5)) if one.code == "O501")
    assert "3.25" in found.message
    assert found.evidence["rate"] == 3.25


def test_a_run_of_a_few_steps_is_not_judged() -> None:
    setup, _ = classified(1e-5)
    x, y = next(iter(setup.train_loader))

    def five() -> None:
        for _ in range(5):
            setup.optimizers[0].zero_grad()
            CE(setup.model(x), y).backward()
            setup.optimizers[0].step()

    short = watched(setup, five)
    assert loud(short) == []
    assert any("only 5 loss values" in one.why for one in short.not_checked)


def test_a_run_that_was_stopped_by_hand_did_not_stop_early() -> None:
    setup, _ = classified(3e-4)
    debugger = Debugger.of(setup)

    def interrupted() -> None:
        train(setup, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), debugger.watch():
        interrupted()
    assert "T614" not in [one.code for one in debugger.findings]


def test_softmax_in_front_of_its_loss_leaves_the_loss_on_a_floor() -> None:
    report = watched(*classified(1e-2, 14, tail=nn.Softmax(1)))
    found = next(one for one in report if one.code == "L218")
    assert found.evidence["floor of the head"] == pytest.approx(0.3133, abs=1e-3)
    assert found.evidence["floor"] == pytest.approx(0, abs=1e-3)
