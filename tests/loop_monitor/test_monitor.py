"""Tests of LoopMonitor on unusual loops: correct counts, and no trace in torch or in the loop."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.hooks.module_hooks import observe_forward_passes, observe_mode_switches
from nbdebug.hooks.training_events import observe_clipping, observe_grad_scaler, observe_matching_steps
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import batch_loss, batches, codes, event_findings, summarize_loop, train_plainly

X, Y = points()


def setup_without_optimizer() -> Setup:
    return minimal_setup(network(3), X, Y, nn.CrossEntropyLoss(), optimizers=())


def test_monitor_tracks_optimizer_created_inside_the_loop() -> None:
    def train(setup: Setup) -> None:
        optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1)
        for x, y in batches(setup):
            optimizer.zero_grad()
            batch_loss(setup, x, y).backward()
            optimizer.step()

    def train_without_clearing(setup: Setup) -> None:
        optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1)
        for x, y in batches(setup):
            batch_loss(setup, x, y).backward()
            optimizer.step()

    assert not event_findings(train, setup_without_optimizer())
    loop = summarize_loop(train, setup_without_optimizer())
    assert (loop.steps, loop.backward_passes, loop.uncleared_intervals) == (12, 12, 0)
    assert codes(event_findings(train_without_clearing, setup_without_optimizer())) == ["O505"]


def test_monitor_tracks_optimizer_that_replaces_the_one_of_the_setup() -> None:
    def train(setup: Setup) -> None:
        setup.optimizers = (torch.optim.Adam(setup.model.parameters(), lr=0.01),)
        train_plainly(setup)

    loop = summarize_loop(train)
    assert loop.steps == 12
    assert "O506" not in codes(event_findings(train))


def test_monitor_ignores_optimizer_of_another_model() -> None:
    def train(setup: Setup) -> None:
        other = classifier()
        for (x, y), (a, b) in zip(batches(setup), batches(other), strict=True):
            for trained, inputs, targets in ((setup, x, y), (other, a, b)):
                trained.optimizers[0].zero_grad()
                batch_loss(trained, inputs, targets).backward()
                trained.optimizers[0].step()

    loop = summarize_loop(train)
    assert loop.steps == 12
    assert loop.accumulation.undivided_steps == 0
    assert loop.reaches_model
    assert not event_findings(train)


def test_two_simultaneous_watches_record_their_own_model() -> None:
    first, second = classifier(), classifier()
    first_loss = F.cross_entropy(first.model(X[:16]), Y[:16]).item()
    with (
        nbdebug.watch(first.model, first.optimizers[0]) as first_watch,
        nbdebug.watch(second.model, second.optimizers[0]) as second_watch,
    ):
        train_plainly(first)
        train_plainly(second, 2)
    assert (first_watch.result.steps, second_watch.result.steps) == (12, 8)
    assert not first_watch.error_summary
    assert not second_watch.error_summary
    assert first_watch.record.series("loss")[1][0] == pytest.approx(first_loss)
    assert len(first_watch.record.series("loss")[1]) == 12


def test_record_excludes_losses_that_do_not_reach_the_model() -> None:
    """A critic on detached outputs, whose backward passes do not reach the watched model."""
    losses = []

    def train(setup: Setup) -> None:
        critic = nn.Linear(3, 1)
        critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
        for x, y in batches(setup):
            critic_optimizer.zero_grad()
            (100 + critic(setup.model(x).detach()).mean()).backward()
            critic_optimizer.step()
            setup.optimizers[0].zero_grad()
            loss = batch_loss(setup, x, y)
            losses.append(loss.item())
            loss.backward()
            setup.optimizers[0].step()

    with Debugger.of(classifier()).watch() as watch:
        train(watch.setup)
    assert watch.record.series("loss")[1].tolist()[1:] == pytest.approx(losses[1:])


def test_monitor_of_two_optimizers_counts_steps_of_both() -> None:
    model = network(3)
    optimizers = (torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters(), lr=0.01))

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            for optimizer in setup.optimizers:
                optimizer.zero_grad(set_to_none=False)
            batch_loss(setup, x, y).backward()
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            for optimizer in setup.optimizers:
                optimizer.step()

    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=optimizers)
    loop = summarize_loop(train, setup)
    assert (
        loop.steps,
        loop.backward_passes,
        loop.cleared_after_backward,
        loop.clipping.calls,
        loop.clipping.late_calls,
    ) == (24, 12, 0, 12, 0)
    assert not event_findings(train, setup)


@pytest.mark.parametrize("to_none", [True, False])
def test_monitor_recognizes_gradients_cleared_to_none_or_to_zero(to_none: bool) -> None:
    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            batch_loss(setup, x, y).backward()
            setup.optimizers[0].step()
            setup.model.zero_grad(set_to_none=to_none)

    loop = summarize_loop(train)
    assert loop.checked_intervals > 3
    assert loop.uncleared_intervals == 0


def test_monitor_of_closure_counts_one_step_with_many_backward_passes() -> None:
    model = network(3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def train(setup: Setup) -> None:
        for x, y in batches(setup):

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = batch_loss(setup, x, y)
                loss.backward()
                return loss

            optimizer.step(closure)

    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=(optimizer,))
    loop = summarize_loop(train, setup)
    assert loop.steps == 12
    assert loop.backward_passes > 24
    assert not event_findings(train, setup)


def test_monitor_tracks_loop_in_a_thread() -> None:
    def train(setup: Setup) -> None:
        worker = threading.Thread(target=train_plainly, args=(setup,))
        worker.start()
        worker.join()

    assert summarize_loop(train).steps == 12
    assert not event_findings(train)


def test_repeated_watch_adds_one_set_of_hooks_and_removes_them() -> None:
    setup = classifier()
    classes = (torch.optim.Optimizer, nn.Module, torch.amp.GradScaler, torch.Tensor)
    attributes, hook_counts = [dict(vars(cls)) for cls in classes], set()
    for _ in range(3):
        with Debugger.of(setup).watch():
            train_plainly(setup, 1)
            hook_counts.add(len(setup.model._forward_pre_hooks))
    assert len(hook_counts) == 1
    with pytest.raises(RuntimeError, match="stopped"), Debugger.of(setup).watch():
        train_plainly(setup, 1)
        raise RuntimeError("stopped")
    assert [dict(vars(cls)) for cls in classes] == attributes
    assert not setup.model._forward_pre_hooks
    assert not setup.model._forward_hooks
    assert not _global_optimizer_pre_hooks
    assert not _global_optimizer_post_hooks


def test_tracked_optimizer_can_be_pickled_and_copied() -> None:
    def train(setup: Setup) -> None:
        train_plainly(setup, 1)
        assert pickle.loads(pickle.dumps(setup.optimizers[0])).state_dict()["state"]
        copy.deepcopy(setup.optimizers[0])

    assert not event_findings(train)


MONITOR_CALLBACKS = [
    *("on_backward_begin", "on_backward_end", "on_step_begin", "on_step_end"),
    *("on_gradients_cleared", "on_clipping", "on_grad_scaler", "on_forward_end"),
]


@pytest.mark.parametrize("name", MONITOR_CALLBACKS)
def test_monitor_callback_that_raises_is_reported_and_training_continues(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing_callback(*_: Any) -> None:
        raise ZeroDivisionError(name)

    def train(setup: Setup) -> list[float]:
        torch.manual_seed(0)
        scaler, losses = torch.amp.GradScaler("cpu"), []
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            loss = batch_loss(setup, x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(setup.optimizers[0])
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            scaler.step(setup.optimizers[0])
            scaler.update()
            losses.append(loss.item())
        return losses

    expected = train(classifier())
    monkeypatch.setattr(LoopMonitor, name, failing_callback)
    setup = classifier()
    with Debugger.of(setup).watch() as watch:
        losses = train(setup)
    assert losses == expected
    assert name in watch.error_summary


def test_observers_discard_callback_results_and_pass_errors_of_the_loop() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def callback(*_: Any) -> Any:
        return "ignored"

    with (
        observe_clipping(callback),
        observe_grad_scaler(callback),
        observe_forward_passes(model, callback, callback),
        observe_mode_switches(callback),
        observe_matching_steps(lambda _: True, callback, callback),
    ):
        output = model.train()(X)
        assert isinstance(output, torch.Tensor)
        F.cross_entropy(output, Y).backward()
        assert isinstance(nn.utils.clip_grad_norm_(model.parameters(), 1.0), torch.Tensor)
        assert optimizer.step() is None
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.ones(2, 9))
        with pytest.raises(ValueError, match="training mode is expected to be boolean"):
            model.train("yes")
    assert not model._forward_hooks
