"""Loops that other tools stumble over: each must be followed as it is, and left as it was."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import optimizer as torchs

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.hooks.module_hooks import observe_forward_passes, observe_mode_switches
from nbdebug.hooks.training_events import observe_clipping, observe_grad_scaler, observe_matching_steps
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import batches, loss_of, seen, watched

X, Y = points()


def plain(setup: Setup, epochs: int = 3) -> None:
    for x, y in batches(setup, epochs):
        setup.optimizers[0].zero_grad()
        loss_of(setup, x, y).backward()
        setup.optimizers[0].step()


def without_optimizer() -> Setup:
    return minimal_setup(network(3), X, Y, nn.CrossEntropyLoss(), optimizers=())


def test_an_optimizer_made_inside_the_cell_is_followed() -> None:
    def train(setup: Setup) -> None:
        optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1)
        for x, y in batches(setup):
            optimizer.zero_grad()
            loss_of(setup, x, y).backward()
            optimizer.step()

    def forgetting(setup: Setup) -> None:
        optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1)
        for x, y in batches(setup):
            loss_of(setup, x, y).backward()
            optimizer.step()

    assert not watched(train, without_optimizer())
    loop = seen(train, without_optimizer())
    assert (loop.steps, loop.backward_passes, loop.uncleared_intervals) == (12, 12, 0)
    assert [one.code for one in watched(forgetting, without_optimizer())] == ["O505"]


def test_an_optimizer_made_again_in_the_cell_counts_beside_the_stale_one() -> None:
    def train(setup: Setup) -> None:
        setup.optimizers = (torch.optim.Adam(setup.model.parameters(), lr=0.01),)
        plain(setup)

    loop = seen(train)
    assert loop.steps == 12
    assert "O506" not in [one.code for one in watched(train)]


def test_the_optimizer_of_another_model_is_not_followed() -> None:
    def train(setup: Setup) -> None:
        other = classifier()
        for (x, y), (a, b) in zip(batches(setup), batches(other), strict=True):
            for one, inputs, target in ((setup, x, y), (other, a, b)):
                one.optimizers[0].zero_grad()
                loss_of(one, inputs, target).backward()
                one.optimizers[0].step()

    loop = seen(train)
    assert loop.steps == 12
    assert loop.accumulation.undivided_steps == 0
    assert loop.reaches_model
    assert not watched(train)


def test_two_watches_of_two_models_at_once_hear_their_own() -> None:
    first, second = classifier(), classifier()
    losses = [pytest.approx(F.cross_entropy(first.model(X[:16]), Y[:16]).item())]
    with (
        nbdebug.watch(first.model, first.optimizers[0]) as one,
        nbdebug.watch(second.model, second.optimizers[0]) as two,
    ):
        plain(first)
        plain(second, 2)
    assert (one.result.steps, two.result.steps) == (12, 8)
    assert not one.error_summary
    assert not two.error_summary
    assert one.record.series("loss")[1].tolist()[:1] == losses
    assert len(one.record.series("loss")[1]) == 12


def test_losses_of_another_model_are_not_those_of_this_one() -> None:
    """As of a judge, whose backward passes end before the network that is watched."""
    losses = []

    def train(setup: Setup) -> None:
        judge = nn.Linear(3, 1)
        judging = torch.optim.Adam(judge.parameters(), lr=0.01)
        for x, y in batches(setup):
            judging.zero_grad()
            (100 + judge(setup.model(x).detach()).mean()).backward()
            judging.step()
            setup.optimizers[0].zero_grad()
            loss = loss_of(setup, x, y)
            losses.append(loss.item())
            loss.backward()
            setup.optimizers[0].step()

    with Debugger.of(classifier()).watch() as run:
        train(run.setup)
    assert run.record.series("loss")[1].tolist()[1:] == pytest.approx(losses[1:])


def test_two_optimizers_with_one_model() -> None:
    model = network(3)
    optimizers = (torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters(), lr=0.01))

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            for one in setup.optimizers:
                one.zero_grad(set_to_none=False)
            loss_of(setup, x, y).backward()
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            for one in setup.optimizers:
                one.step()

    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=optimizers)
    loop = seen(train, setup)
    assert (
        loop.steps,
        loop.backward_passes,
        loop.cleared_after_backward,
        loop.clipping.calls,
        loop.clipping.late_calls,
    ) == (24, 12, 0, 12, 0)
    assert not watched(train, setup)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_cleared_to_none_or_to_zero(to_none: bool) -> None:
    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            loss_of(setup, x, y).backward()
            setup.optimizers[0].step()
            setup.model.zero_grad(set_to_none=to_none)

    loop = seen(train)
    assert loop.checked_intervals > 3
    assert loop.uncleared_intervals == 0


def test_a_closure_is_one_step_of_many_passes() -> None:
    model = network(3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def train(setup: Setup) -> None:
        for x, y in batches(setup):

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = loss_of(setup, x, y)
                loss.backward()
                return loss

            optimizer.step(closure)

    setup = minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=(optimizer,))
    loop = seen(train, setup)
    assert loop.steps == 12
    assert loop.backward_passes > 24
    assert not watched(train, setup)


def test_a_loop_in_a_thread_is_followed() -> None:
    def train(setup: Setup) -> None:
        worker = threading.Thread(target=plain, args=(setup,))
        worker.start()
        worker.join()

    assert seen(train).steps == 12
    assert not watched(train)


def test_a_cell_that_is_run_again_leaves_one_set_of_hooks_and_then_none() -> None:
    setup = classifier()
    kinds = (torch.optim.Optimizer, nn.Module, torch.amp.GradScaler, torch.Tensor)
    before, hooks = [dict(vars(kind)) for kind in kinds], set()
    for _ in range(3):
        with Debugger.of(setup).watch():
            plain(setup, 1)
            hooks.add(len(setup.model._forward_pre_hooks))
    assert len(hooks) == 1
    with pytest.raises(RuntimeError, match="stopped"), Debugger.of(setup).watch():
        plain(setup, 1)
        raise RuntimeError("stopped")
    assert [dict(vars(kind)) for kind in kinds] == before
    assert not setup.model._forward_pre_hooks
    assert not setup.model._forward_hooks
    assert not torchs._global_optimizer_pre_hooks
    assert not torchs._global_optimizer_post_hooks


def test_optimizers_can_be_saved_and_copied_while_they_are_followed() -> None:
    def train(setup: Setup) -> None:
        plain(setup, 1)
        assert pickle.loads(pickle.dumps(setup.optimizers[0])).state_dict()["state"]
        copy.deepcopy(setup.optimizers[0])

    assert not watched(train)


BROKEN = [
    *("on_backward_begin", "on_backward_end", "on_step_begin", "on_step_end"),
    *("on_gradients_cleared", "on_clipping", "on_grad_scaler", "on_forward_end"),
]


@pytest.mark.parametrize("name", BROKEN)
def test_what_fails_in_the_follower_never_reaches_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError(name)

    def train(setup: Setup) -> list[float]:
        torch.manual_seed(0)
        scaler, losses = torch.amp.GradScaler("cpu"), []
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            loss = loss_of(setup, x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(setup.optimizers[0])
            nn.utils.clip_grad_norm_(setup.model.parameters(), 1.0)
            scaler.step(setup.optimizers[0])
            scaler.update()
            losses.append(loss.item())
        return losses

    expected = train(classifier())
    monkeypatch.setattr(LoopMonitor, name, broken)
    setup = classifier()
    with Debugger.of(setup).watch() as run:
        losses = train(setup)
    assert losses == expected
    assert name in run.error_summary


def test_every_probe_gives_back_nothing_and_passes_what_the_loop_raises() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def answering(*_: Any) -> Any:
        return "something"

    with (
        observe_clipping(answering),
        observe_grad_scaler(answering),
        observe_forward_passes(model, answering, answering),
        observe_mode_switches(answering),
        observe_matching_steps(lambda _: True, answering, answering),
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
