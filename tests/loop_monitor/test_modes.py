"""Tests of T613 (training in eval mode) and E701 (evaluating in train mode) on loops."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    ModeDependentNetwork,
    TrainFunction,
    all_findings,
    batch_loss,
    codes,
    event_findings,
    load_loop,
    source_line,
    summarize_loop,
)

X, Y = points()


def setup_with_validation(model: nn.Module | None = None) -> Setup:
    validation = DataLoader(TensorDataset(X[::2], Y[::2]), batch_size=8)
    return minimal_setup(model or ModeDependentNetwork(), X, Y, nn.CrossEntropyLoss(), val_loader=validation)


def step(setup: Setup, x: Tensor, y: Tensor) -> None:
    setup.optimizers[0].zero_grad()
    batch_loss(setup, x, y).backward()
    setup.optimizers[0].step()


def evaluate(setup: Setup, switches_mode: bool = True, no_grad: bool = True) -> float:
    if switches_mode:
        setup.model.eval()
    accuracy = 0.0
    with torch.set_grad_enabled(not no_grad):
        for x, y in setup.val_loader:
            accuracy += (setup.model(x).argmax(1) == y).float().mean().item()
    return accuracy


def epochs(before_epoch: Callable[[Setup], Any], after_epoch: Callable[[Setup], Any]) -> TrainFunction:
    def train(setup: Setup) -> None:
        for _ in range(4):
            before_epoch(setup)
            for x, y in setup.train_loader:
                step(setup, x, y)
            after_epoch(setup)

    return train


def no_operation(_: Setup) -> None:
    pass


def switch_to_train_mode(setup: Setup) -> None:
    setup.model.train()


def mode_findings(train: TrainFunction, model: nn.Module | None = None) -> list[Finding]:
    findings = event_findings(train, setup_with_validation(model))
    return [finding for finding in findings if finding.code in ("T613", "E701")]


def test_training_in_eval_mode_on_loop_that_never_returns_to_train_mode_fires() -> None:
    (finding,) = mode_findings(epochs(no_operation, evaluate))
    assert (finding.code, finding.severity) == ("T613", "error")
    assert source_line(finding) == "setup.model.eval()"
    assert "12 of 16 training steps" in finding.message
    assert finding.evidence["layers"] == ["1", "3"]


def test_evaluating_in_train_mode_of_a_part_names_the_part_that_stays_in_train_mode() -> None:
    body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    model = nn.Sequential(body, nn.Sequential(nn.Dropout(), nn.Linear(8, 3)))

    def evaluate_part(setup: Setup) -> None:
        body.eval()
        evaluate(setup, switches_mode=False)

    (finding,) = mode_findings(epochs(switch_to_train_mode, evaluate_part), model)
    assert (finding.code, finding.where.module) == ("E701", "1")
    assert source_line(finding) == "body.eval()"
    assert list(finding.evidence["layers"]) == ["1.0"]


class OwnTrainMethod(nn.Module):
    """Overrides train(), and may forget to set the mode of its layers."""

    def __init__(self, passes_on: bool) -> None:
        super().__init__()
        self.layers, self.passes_on = ModeDependentNetwork(), passes_on

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def train(self, mode: bool = True) -> OwnTrainMethod:
        if self.passes_on or not mode:
            return super().train(mode)
        self.training = mode
        return self


@pytest.mark.parametrize("passes_on", [False, True])
def test_training_in_eval_mode_of_own_train_method_fires_unless_it_reaches_the_layers(passes_on: bool) -> None:
    findings = mode_findings(epochs(switch_to_train_mode, evaluate), OwnTrainMethod(passes_on))
    assert [finding.code for finding in findings] == [] if passes_on else ["T613"]
    assert all("self.training = mode" in source_line(finding) for finding in findings)


@pytest.mark.parametrize("no_grad", [True, False])
def test_evaluating_in_train_mode_fires_with_and_without_gradients(no_grad: bool) -> None:
    (finding,) = mode_findings(
        epochs(switch_to_train_mode, lambda setup: evaluate(setup, switches_mode=False, no_grad=no_grad))
    )
    assert (finding.code, finding.severity) == ("E701", "error")
    assert "16 of 16 passes" in finding.message
    assert "setup.model(x).argmax(1)" in source_line(finding)


def test_evaluating_in_train_mode_of_which_only_the_own_flag_is_off_fires() -> None:
    def evaluate_with_flag(setup: Setup) -> None:
        setup.model.training = False
        evaluate(setup, switches_mode=False)

    (finding,) = mode_findings(epochs(switch_to_train_mode, evaluate_with_flag))
    assert finding.code == "E701"


UNCALLED_EVAL = """
import torch

def validate(setup):
    setup.model.eval
    with torch.no_grad():
        for x, y in setup.val_loader:
            setup.model(x)

def train(setup):
    for _ in range(2):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
        validate(setup)
"""


def test_evaluating_in_train_mode_points_to_eval_that_is_not_called(tmp_path: Path) -> None:
    (finding,) = mode_findings(load_loop(tmp_path / "loop.py", UNCALLED_EVAL))
    assert source_line(finding).strip() == "setup.model.eval"
    assert "without calling it" in finding.cause


def test_mode_rules_on_correct_modes_find_nothing() -> None:
    assert not mode_findings(epochs(switch_to_train_mode, evaluate))
    passes = summarize_loop(epochs(switch_to_train_mode, evaluate), setup_with_validation()).forward_passes
    assert (passes.validation_passes, passes.validation_in_train_mode) == (16, 0)


def test_mode_rules_on_validation_within_an_epoch_find_nothing() -> None:
    def train(setup: Setup) -> None:
        for _ in range(3):
            for number, (x, y) in enumerate(setup.train_loader):
                setup.model.train()
                step(setup, x, y)
                if number % 2:
                    evaluate(setup)

    assert not mode_findings(train)


def freeze_batch_norm(setup: Setup) -> None:
    setup.model.train()
    setup.model[1].eval()


def monte_carlo_dropout(setup: Setup) -> None:
    setup.model.eval()
    setup.model[3].train()
    evaluate(setup, switches_mode=False)


def test_mode_rules_on_frozen_batch_norm_and_monte_carlo_dropout_find_nothing() -> None:
    model = ModeDependentNetwork()
    model(X)  # updates the running statistics
    assert not mode_findings(epochs(freeze_batch_norm, evaluate), model)
    assert not mode_findings(epochs(switch_to_train_mode, monte_carlo_dropout))


def test_training_in_eval_mode_of_new_batch_norm_is_a_warning_for_this_layer() -> None:
    (finding,) = mode_findings(epochs(freeze_batch_norm, evaluate))
    assert (finding.code, finding.severity, finding.where.module) == ("T613", "warning", "1")
    assert "do not normalize" in finding.message


def test_training_in_eval_mode_throughout_is_a_warning_or_a_note() -> None:
    def eval_mode(setup: Setup) -> None:
        setup.model.eval()

    (finding,) = mode_findings(epochs(eval_mode, no_operation))
    assert (finding.code, finding.severity) == ("T613", "warning")
    batch_norm_model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    batch_norm_model(X)  # updates the running statistics
    assert not mode_findings(epochs(eval_mode, no_operation), batch_norm_model)
    assert "T613" in codes(all_findings(epochs(eval_mode, no_operation), setup_with_validation(batch_norm_model)))


def fitted(model: nn.Module) -> nn.Module:
    """Return a model whose running statistics are those of several batches."""
    model(X)
    return model


def normalized(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), *layers, nn.ReLU(), nn.Linear(8, 3))


NEVER_NORMALIZES = {
    "one layer": lambda: normalized(nn.BatchNorm1d(8)),
    "two layers": lambda: normalized(nn.BatchNorm1d(8), nn.Linear(8, 8), nn.BatchNorm1d(8)),
    "new layer after a fitted one": lambda: nn.Sequential(
        fitted(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
    ),
    "no affine weights": lambda: normalized(nn.BatchNorm1d(8, affine=False)),
    "frozen bias": lambda: nn.Sequential(
        nn.Linear(4, 8).requires_grad_(False), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
    ),
}
NORMALIZES = {
    "fitted": lambda: fitted(normalized(nn.BatchNorm1d(8))),
    "fitted, two layers": lambda: fitted(normalized(nn.BatchNorm1d(8), nn.Linear(8, 8), nn.BatchNorm1d(8))),
    "no running statistics": lambda: normalized(nn.BatchNorm1d(8, track_running_stats=False)),
    "layer norm": lambda: normalized(nn.LayerNorm(8)),
    "frozen body": lambda: nn.Sequential(normalized(nn.BatchNorm1d(8)).requires_grad_(False), nn.Linear(3, 3)),
}


@pytest.mark.parametrize("name", NEVER_NORMALIZES)
def test_training_in_eval_mode_throughout_with_new_statistics_is_a_warning(name: str) -> None:
    (finding,) = mode_findings(epochs(lambda setup: setup.model.eval(), no_operation), NEVER_NORMALIZES[name]())
    assert (finding.code, finding.severity) == ("T613", "warning")
    assert "No batch has updated" in finding.cause


@pytest.mark.parametrize("name", NORMALIZES)
def test_training_in_eval_mode_throughout_without_new_statistics_finds_nothing(name: str) -> None:
    assert not mode_findings(epochs(lambda setup: setup.model.eval(), no_operation), NORMALIZES[name]())


def test_mode_rules_on_frozen_body_in_eval_mode_find_nothing() -> None:
    body = ModeDependentNetwork().requires_grad_(False)
    model = nn.Sequential(body, nn.ReLU(), nn.Linear(3, 3))
    assert not mode_findings(epochs(lambda setup: setup.model.eval(), no_operation), model)


def test_mode_rules_on_adversarial_examples_in_eval_mode_find_nothing() -> None:
    """Adversarial training: backward passes to the input in eval mode, then a step in train mode."""

    def train(setup: Setup) -> None:
        for _ in range(3):
            for x, y in setup.train_loader:
                setup.model.eval()
                adversarial_x = x.clone().requires_grad_()
                for _ in range(2):
                    F.cross_entropy(setup.model(adversarial_x), y).backward()
                    adversarial_x = (adversarial_x + 0.1 * adversarial_x.grad.sign()).detach().requires_grad_()
                setup.model.train()
                step(setup, adversarial_x.detach(), y)

    assert not mode_findings(train)


def test_mode_rules_on_forward_passes_without_gradients_in_train_mode_find_nothing() -> None:
    def train(setup: Setup) -> None:
        for _ in range(3):
            for x, y in setup.train_loader:
                with torch.no_grad():
                    setup.model(x)
                step(setup, x, y)

    assert not mode_findings(train)


def test_mode_rules_on_evaluation_of_averaged_model_find_nothing() -> None:
    def train(setup: Setup) -> None:
        average = torch.optim.swa_utils.AveragedModel(setup.model)
        for _ in range(3):
            setup.model.train()
            for x, y in setup.train_loader:
                step(setup, x, y)
                average.update_parameters(setup.model)
            torch.optim.swa_utils.update_bn(setup.train_loader, average)
            average.eval()
            for x, _ in setup.val_loader:
                average(x)

    assert not mode_findings(train)


def test_copies_and_saved_models_have_no_nbdebug_hooks(tmp_path: Any) -> None:
    model, copies = ModeDependentNetwork(), list[Any]()

    def train(setup: Setup) -> None:
        step(setup, X, Y)
        copies.append(copy.deepcopy(setup.model))
        torch.save(setup.model, tmp_path / "model.pt")

    event_findings(train, setup_with_validation(model))
    copies.append(torch.load(tmp_path / "model.pt", weights_only=False))
    for model_copy in copies:
        assert model_copy(X).shape == (64, 3)
        hooks = [*model_copy._forward_hooks.values(), *model_copy._forward_pre_hooks.values()]
        assert "nbdebug" not in repr(hooks)
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


@pytest.mark.parametrize("compiles_in_loop", [True, False])
def test_monitor_counts_passes_of_compiled_model_only_if_watched_itself(compiles_in_loop: bool) -> None:
    def train(setup: Setup) -> None:
        compiled = torch.compile(setup.model, backend="eager", fullgraph=True) if compiles_in_loop else setup.model
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(compiled(x), y).backward()
            setup.optimizers[0].step()

    model = ModeDependentNetwork()
    setup = setup_with_validation(model if compiles_in_loop else torch.compile(model, backend="eager", fullgraph=True))
    passes = summarize_loop(train, setup).forward_passes
    assert sum(count for _, count in passes.training_modes) == (0 if compiles_in_loop else 4)
    assert passes.mode_dependent == ("1", "3")


def test_training_in_eval_mode_with_data_parallel_on_cpu_fires() -> None:
    (finding,) = mode_findings(epochs(no_operation, evaluate), nn.DataParallel(ModeDependentNetwork()))
    assert finding.code == "T613"
