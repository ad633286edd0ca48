"""Watched training runs, faulty and healthy, with every mode of the watch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.report import Report
from nbdebug.rules.examples import mlp, rings, train, training_setup, waves
from nbdebug.setup import Setup
from tests.rules.dynamics.healthy_runs import CE, HEALTHY, MSE, Run
from tests.watching.budgets import TINY_BUDGET, without_enforcement

each_watch_mode = pytest.mark.parametrize("watch_mode", ["losses only", "few snapshots", "many snapshots"])
DYNAMICS_RULES = ("T601", "T602", "T604", "T605", "T606", "T607", "T609", "T610", "T611", "T612", "T614")
RUN_RULES = (*DYNAMICS_RULES, "O501", "O502", "L218")


def watch_report(setup: Setup, loop: Callable[[], None], watch_mode: str = "many snapshots") -> Report:
    debugger = Debugger.of(setup)
    # No rule on runs reads the tests of the trained model.
    watch = debugger.watch(budget=1.0 if watch_mode == "many snapshots" else TINY_BUDGET, final_tests=False)
    with without_enforcement(watch) if watch_mode == "few snapshots" else watch:
        loop()
    return debugger.findings


def run_fault_codes(report: Report) -> list[str]:
    return [finding.code for finding in report.faults if finding.code in RUN_RULES]


def classifier_run(lr: float, epochs: int = 6, *, optimizer_name: str = "Adam", tail: nn.Module | None = None) -> Run:
    model = nn.Sequential(*mlp(8, 32, 32, 2), *([tail] if tail else []))
    optimizer = getattr(torch.optim, optimizer_name)(model.parameters(), lr=lr)
    setup = training_setup(model, rings(), rings(256, seed=1), CE, optimizer=optimizer)
    return setup, lambda: train(setup, epochs)


def regression_run(lr: float, epochs: int = 6, *, optimizer_name: str = "Adam") -> Run:
    model = mlp(4, 32, 32, 1)
    optimizer = getattr(torch.optim, optimizer_name)(model.parameters(), lr=lr)
    setup = training_setup(model, waves(), waves(256, seed=1), MSE, optimizer=optimizer)
    return setup, lambda: train(setup, epochs)


def memorized_samples() -> Run:
    data = rings(48, noise=0.4), rings(256, noise=0.4, seed=1)
    setup = training_setup(mlp(8, 128, 128, 2), *data, CE, batch_size=16)

    def loop() -> None:
        for _ in range(25):
            train(setup, 1)
            with torch.no_grad():
                [CE(setup.model(x), y) for x, y in setup.val_loader]

    return setup, loop


FAULTY: dict[str, tuple[str, Callable[[], Run]]] = {
    "classifier, Adam 100 times too high": ("O501", lambda: classifier_run(1.0)),
    "classifier, SGD far too high": ("O501", lambda: classifier_run(30.0, optimizer_name="SGD")),
    "regression, Adam 100 times too high": ("O501", lambda: regression_run(0.5)),
    "regression, SGD explodes": ("O501", lambda: regression_run(2.0, optimizer_name="SGD")),
    "classifier, Adam 1000 times too low": ("O502", lambda: classifier_run(1e-5)),
    "classifier, Adam 100 times too low": ("O502", lambda: classifier_run(5e-5)),
    "classifier, SGD too low": ("O502", lambda: classifier_run(2e-4, optimizer_name="SGD")),
    "regression, Adam too low": ("O502", lambda: regression_run(1e-5)),
    "few samples memorized": ("T609", memorized_samples),
}


@each_watch_mode
@pytest.mark.parametrize("name", FAULTY)
def test_watch_of_faulty_run_ranks_its_fault_first(name: str, watch_mode: str) -> None:
    code, build = FAULTY[name]
    assert run_fault_codes(watch_report(*build(), watch_mode))[:1] == [code]


@pytest.mark.parametrize(
    ("name", "watch_mode"),
    [
        (name, mode)
        for name, sparse_mode in zip(HEALTHY, cycle(("losses only", "few snapshots")))
        for mode in (sparse_mode, "many snapshots")
    ],
)
def test_watch_of_healthy_run_has_no_faults(name: str, watch_mode: str) -> None:
    torch.manual_seed(0)
    report = watch_report(*HEALTHY[name](), watch_mode)
    assert [str(finding) for finding in report.faults if finding.code in RUN_RULES] == []


def test_lr_too_high_finding_names_the_learning_rate() -> None:
    model = mlp(8, 32, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3.25)
    setup = training_setup(model, rings(), rings(256, seed=1), CE, optimizer=optimizer)
    finding = next(finding for finding in watch_report(setup, lambda: train(setup, 5)) if finding.code == "O501")
    assert "3.25" in finding.message
    assert finding.evidence["rate"] == 3.25


class ConstantScore(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).clamp(9.0, 10.0)


@pytest.mark.parametrize("is_limited", [True, False])
def test_lr_too_high_needs_a_gradient_since_weight_decay_alone_also_makes_long_steps(is_limited: bool) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(400, 8), 3 + torch.randn(400, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 16), (ConstantScore if is_limited else nn.Linear)(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if is_limited else 30.0, weight_decay=0.1)
    setup = training_setup(model, (x, y), (x, y), nn.MSELoss(), optimizer=optimizer)
    codes = [finding.code for finding in watch_report(setup, lambda: train(setup, 20))]
    assert ("O501" in codes) is not is_limited


def test_run_rules_after_five_steps_are_not_checked() -> None:
    setup, _ = classifier_run(1e-5)
    x, y = next(iter(setup.train_loader))

    def train_five_steps() -> None:
        for _ in range(5):
            setup.optimizers[0].zero_grad()
            CE(setup.model(x), y).backward()
            setup.optimizers[0].step()

    report = watch_report(setup, train_five_steps)
    assert run_fault_codes(report) == []
    assert any("only 5 loss values" in skipped.why for skipped in report.not_checked)


def test_stopped_early_after_keyboard_interrupt_is_quiet() -> None:
    setup, _ = classifier_run(3e-4)
    debugger = Debugger.of(setup)

    def train_and_interrupt() -> None:
        train(setup, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), debugger.watch():
        train_and_interrupt()
    assert "T614" not in [finding.code for finding in debugger.findings]


def test_loss_on_floor_of_softmax_before_cross_entropy_gives_both_floors() -> None:
    setup, loop = classifier_run(1e-2, 14, tail=nn.Softmax(1))
    finding = next(finding for finding in watch_report(setup, loop) if finding.code == "L218")
    assert finding.evidence["floor of the head"] == pytest.approx(0.3133, abs=1e-3)
    assert finding.evidence["floor"] == pytest.approx(0, abs=1e-3)
    assert finding.where.module == str(len(setup.eager_model) - 1)  # type: ignore[arg-type]
