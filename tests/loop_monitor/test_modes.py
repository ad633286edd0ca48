"""T613 and E701 in a run: steps made in eval mode, validation in train mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import Thinned, Train, loss_of, noted, seen, source, watched

X, Y = points()


def thinned(model: nn.Module | None = None) -> Setup:
    validation = DataLoader(TensorDataset(X[::2], Y[::2]), batch_size=8)
    return minimal_setup(model or Thinned(), X, Y, nn.CrossEntropyLoss(), val_loader=validation)


def step(setup: Setup, x: Tensor, y: Tensor) -> None:
    setup.optimizers[0].zero_grad()
    loss_of(setup, x, y).backward()
    setup.optimizers[0].step()


def evaluate(setup: Setup, switches: bool = True, graphless: bool = True) -> float:
    if switches:
        setup.model.eval()
    right = 0.0
    with torch.set_grad_enabled(not graphless):
        for x, y in setup.val_loader:
            right += (setup.model(x).argmax(1) == y).float().mean().item()
    return right


def epochs(begin: Callable[[Setup], Any], end: Callable[[Setup], Any]) -> Train:
    def train(setup: Setup) -> None:
        for _ in range(4):
            begin(setup)
            for x, y in setup.train_loader:
                step(setup, x, y)
            end(setup)

    return train


def nothing(_: Setup) -> None:
    pass


def in_train_mode(setup: Setup) -> None:
    setup.model.train()


def loud(train: Train, model: nn.Module | None = None) -> list[Any]:
    return [one for one in watched(train, thinned(model)) if one.code in ("T613", "E701")]


def test_train_mode_that_is_never_switched_back_on() -> None:
    (found,) = loud(epochs(nothing, evaluate))
    assert (found.code, found.severity) == ("T613", "error")
    assert source(found) == "setup.model.eval()"
    assert "12 of 16 training steps" in found.message
    assert found.evidence["layers"] == ["1", "3"]


@pytest.mark.parametrize("graphless", [True, False])
def test_validation_in_train_mode(graphless: bool) -> None:
    (found,) = loud(epochs(in_train_mode, lambda setup: evaluate(setup, switches=False, graphless=graphless)))
    assert (found.code, found.severity) == ("E701", "error")
    assert "16 of 16 passes" in found.message
    assert "setup.model(x).argmax(1)" in source(found)


def test_each_in_its_mode_is_quiet() -> None:
    assert not loud(epochs(in_train_mode, evaluate))
    passes = seen(epochs(in_train_mode, evaluate), thinned()).forward_passes
    assert (passes.validation_passes, passes.validation_in_train_mode) == (16, 0)


def test_validation_within_an_epoch_is_told_from_training() -> None:
    def train(setup: Setup) -> None:
        for _ in range(3):
            for number, (x, y) in enumerate(setup.train_loader):
                setup.model.train()
                step(setup, x, y)
                if number % 2:
                    evaluate(setup)

    assert not loud(train)


def frozen_statistics(setup: Setup) -> None:
    setup.model.train()
    setup.model[1].eval()


def thinned_predictions(setup: Setup) -> None:
    setup.model.eval()
    setup.model[3].train()
    evaluate(setup, switches=False)


def test_frozen_statistics_and_monte_carlo_dropout_are_quiet() -> None:
    assert not loud(epochs(frozen_statistics, evaluate))
    assert not loud(epochs(in_train_mode, thinned_predictions))


def test_a_run_in_eval_mode_is_a_warning_where_all_of_it_trains() -> None:
    def eval_mode(setup: Setup) -> None:
        setup.model.eval()

    (found,) = loud(epochs(eval_mode, nothing))
    assert (found.code, found.severity) == ("T613", "warning")
    normed = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    assert not loud(epochs(eval_mode, nothing), normed)
    assert "T613" in [one.code for one in noted(epochs(eval_mode, nothing), thinned(normed))]


def test_a_frozen_body_in_eval_mode_with_a_head_is_quiet() -> None:
    body = Thinned().requires_grad_(False)
    model = nn.Sequential(body, nn.ReLU(), nn.Linear(3, 3))
    assert not loud(epochs(lambda setup: setup.model.eval(), nothing), model)


def test_attacks_in_eval_mode_before_each_step_are_quiet() -> None:
    """As in adversarial training: backward passes to the input, in eval mode, then a step in train mode."""

    def train(setup: Setup) -> None:
        for _ in range(3):
            for x, y in setup.train_loader:
                setup.model.eval()
                attacked = x.clone().requires_grad_()
                for _ in range(2):
                    F.cross_entropy(setup.model(attacked), y).backward()
                    attacked = (attacked + 0.1 * attacked.grad.sign()).detach().requires_grad_()
                setup.model.train()
                step(setup, attacked.detach(), y)

    assert not loud(train)


def test_samples_drawn_without_gradients_in_train_mode_are_quiet() -> None:
    def train(setup: Setup) -> None:
        for _ in range(3):
            for x, y in setup.train_loader:
                with torch.no_grad():
                    setup.model(x)
                step(setup, x, y)

    assert not loud(train)


def test_a_moving_average_is_evaluated_without_its_mode_being_mixed_up() -> None:
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

    assert not loud(train)


def test_copies_and_saved_models_hold_no_hook_of_ours(tmp_path: Any) -> None:
    model, kept = Thinned(), list[Any]()

    def train(setup: Setup) -> None:
        step(setup, X, Y)
        kept.append(copy.deepcopy(setup.model))
        torch.save(setup.model, tmp_path / "model.pt")

    watched(train, thinned(model))
    kept.append(torch.load(tmp_path / "model.pt", weights_only=False))
    for one in kept:
        assert one(X).shape == (64, 3)
        assert "nbdebug" not in repr([*one._forward_hooks.values(), *one._forward_pre_hooks.values()])
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


@pytest.mark.parametrize("inside", [True, False])
def test_a_compiled_model_is_followed_where_its_wrapper_was_given(inside: bool) -> None:
    def train(setup: Setup) -> None:
        compiled = torch.compile(setup.model, backend="eager", fullgraph=True) if inside else setup.model
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(compiled(x), y).backward()
            setup.optimizers[0].step()

    model = Thinned()
    setup = thinned(model if inside else torch.compile(model, backend="eager", fullgraph=True))
    passes = seen(train, setup).forward_passes
    assert sum(count for _, count in passes.training_modes) == (0 if inside else 4)
    assert passes.mode_dependent == ("1", "3")


def test_data_parallel_on_the_processor_is_followed() -> None:
    (found,) = loud(epochs(nothing, evaluate), nn.DataParallel(Thinned()))
    assert found.code == "T613"
