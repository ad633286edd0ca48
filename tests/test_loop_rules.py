"""What is seen of the user's own loop, and what the rules make of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopMonitor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import EVENT_RULES


def batches(setup: Setup, epochs: int = 3) -> Iterator[tuple[Any, Any]]:
    for _ in range(epochs):
        yield from setup.train_loader


def watched(setup: Setup, train: Callable[[Setup], object]) -> list[Finding]:
    debugger = Debugger.of(setup)
    with debugger.watch():
        train(setup)
    return [one for one in debugger.findings if one.severity != "note" and one.code in EVENT_RULES]


def codes(setup: Setup, train: Callable[[Setup], object]) -> list[str]:
    return [one.code for one in watched(setup, train)]


def loss_of(setup: Setup, x: Any, y: Any) -> Any:
    return F.cross_entropy(setup.model(x), y)


def never_clearing(setup: Setup) -> None:
    for x, y in batches(setup):
        loss_of(setup, x, y).backward()
        setup.optimizers[0].step()


def clearing_once_an_epoch(setup: Setup) -> None:
    for _ in range(4):
        setup.optimizers[0].zero_grad()
        for x, y in setup.train_loader:
            loss_of(setup, x, y).backward()
            setup.optimizers[0].step()


def accumulating_without_clearing(setup: Setup) -> None:
    for number, (x, y) in enumerate(batches(setup, 6)):
        (loss_of(setup, x, y) / 2).backward()
        if number % 2:
            setup.optimizers[0].step()


@pytest.mark.parametrize("train", [never_clearing, clearing_once_an_epoch, accumulating_without_clearing])
def test_gradients_that_pile_up(train: Callable[[Setup], None]) -> None:
    found = watched(classifier(), train)
    assert [one.code for one in found] == ["O505"]
    assert found[0].where.source is not None
    assert ".backward()" in found[0].where.source


def cleared_too_early(setup: Setup) -> None:
    for x, y in batches(setup):
        loss_of(setup, x, y).backward()
        setup.model.zero_grad()
        setup.optimizers[0].step()


def never_stepping(setup: Setup) -> None:
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        loss_of(setup, x, y).backward()


@pytest.mark.parametrize(("train", "line"), [(cleared_too_early, "zero_grad()"), (never_stepping, ".backward()")])
def test_steps_that_are_lost(train: Callable[[Setup], None], line: str) -> None:
    found = watched(classifier(), train)
    assert found[0].code == "O506"
    assert found[0].where.source is not None
    assert line in found[0].where.source


def test_the_optimizer_of_another_model_never_steps() -> None:
    setup = classifier()
    other = torch.optim.SGD(network(3).parameters(), lr=0.1)

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            other.zero_grad()
            setup.model.zero_grad()
            loss_of(setup, x, y).backward()
            other.step()

    assert "O506" in codes(setup, train)


def test_a_loss_of_a_copy_and_a_loss_of_plain_numbers() -> None:
    def of_a_copy(setup: Setup) -> None:
        for x, y in batches(setup):
            other = copy.deepcopy(setup.model)
            setup.optimizers[0].zero_grad()
            F.cross_entropy(other(x), y).backward()
            setup.optimizers[0].step()

    def of_numbers(setup: Setup) -> None:
        for x, y in batches(setup):
            loss = torch.tensor(loss_of(setup, x, y).item(), requires_grad=True)
            setup.optimizers[0].zero_grad()
            loss.backward()
            setup.optimizers[0].step()

    (copied,) = (one for one in watched(classifier(), of_a_copy) if one.code == "M301")
    assert copied.where.source is not None
    assert "deepcopy" in copied.where.source
    (detached,) = (one for one in watched(classifier(), of_numbers) if one.code == "L212")
    assert "reached the model" in detached.message


def scheduled(gamma: float = 0.5) -> Setup:
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=schedule)


def by_batch(setup: Setup) -> None:
    for x, y in batches(setup, 10):
        setup.optimizers[0].zero_grad()
        loss_of(setup, x, y).backward()
        setup.optimizers[0].step()
        setup.scheduler.step()


def by_epoch(setup: Setup) -> None:
    for _ in range(10):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            loss_of(setup, x, y).backward()
            setup.optimizers[0].step()
        setup.scheduler.step()


def plain(setup: Setup) -> None:
    for x, y in batches(setup, 10):
        setup.optimizers[0].zero_grad()
        loss_of(setup, x, y).backward()
        setup.optimizers[0].step()


def test_a_schedule_at_the_wrong_rhythm() -> None:
    (found,) = watched(scheduled(), by_batch)
    assert found.code == "O507"
    assert found.where.source is not None
    assert "scheduler.step()" in found.where.source
    (forgotten,) = watched(scheduled(), plain)
    assert "never stepped in 40 optimizer steps" in forgotten.message
    assert not codes(scheduled(0.8), by_epoch)


def test_a_cosine_over_all_steps_is_quiet() -> None:
    setup = scheduled()
    setup.optimizers[0].param_groups[0]["lr"] = 0.01
    setup.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(setup.optimizers[0], 40)
    assert not codes(setup, by_batch)


def adversaries(setup: Setup) -> None:
    """Two networks with an optimizer each, whose gradients run through each other."""
    judge, judging = nn.Linear(3, 1), setup.optimizers[1]
    judging.param_groups[0]["params"] = list(judge.parameters())
    for x, y in batches(setup):
        judging.zero_grad()
        judge(setup.model(x).detach()).mean().backward()
        judging.step()
        setup.optimizers[0].zero_grad()
        (loss_of(setup, x, y) + judge(setup.model(x)).mean()).backward()
        setup.optimizers[0].step()


def by_hand(setup: Setup) -> None:
    for x, y in batches(setup):
        for parameter in setup.model.parameters():
            parameter.grad = None
        loss_of(setup, x, y).backward()
        setup.optimizers[0].step()


def in_place(setup: Setup) -> None:
    for x, y in batches(setup):
        loss_of(setup, x, y).backward()
        setup.optimizers[0].step()
        for parameter in setup.model.parameters():
            parameter.grad.zero_()


def sharpness_aware(setup: Setup) -> None:
    """Two backward passes to a step, at the weights and a little further up."""
    for x, y in batches(setup):
        loss_of(setup, x, y).backward()
        with torch.no_grad():
            moves = [0.05 * p.grad / p.grad.norm() for p in setup.model.parameters()]
            for p, move in zip(setup.model.parameters(), moves, strict=True):
                p.add_(move)
        setup.optimizers[0].zero_grad()
        loss_of(setup, x, y).backward()
        with torch.no_grad():
            for p, move in zip(setup.model.parameters(), moves, strict=True):
                p.sub_(move)
        setup.optimizers[0].step()
        setup.optimizers[0].zero_grad()


@pytest.mark.parametrize("train", [by_hand, in_place, sharpness_aware])
def test_other_ways_to_clear_are_quiet(train: Callable[[Setup], None]) -> None:
    assert not codes(classifier(), train)


def test_two_optimizers_that_take_turns_are_quiet() -> None:
    setup = classifier()
    second = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.01)
    setup.optimizers = (*setup.optimizers, second)
    assert not codes(setup, adversaries)


def test_a_closure_is_quiet() -> None:
    model = network(3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))

    def train(setup: Setup) -> None:
        for x, y in batches(setup):

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = loss_of(setup, x, y)
                loss.backward()
                return loss

            optimizer.step(closure)

    assert not codes(setup, train)


def test_weights_that_are_put_back_at_the_end_have_changed_all_the_same() -> None:
    def train(setup: Setup) -> None:
        before = copy.deepcopy(setup.model.state_dict())
        plain(setup)
        setup.model.load_state_dict(before)

    assert not codes(classifier(), train)


def test_what_fails_while_watching_never_reaches_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = classifier()
    watch = nbdebug.watch(setup.model, setup.optimizers[0])
    with watch:
        monkeypatch.setattr(LoopMonitor, "is_inspecting", property(lambda self: 1 / 0))
        plain(setup)
    assert watch.result is not None
    assert "ZeroDivisionError" in watch.result.errors
    assert "not watched: " in str(watch.result)


def test_classes_are_put_back() -> None:
    setup = scheduled()
    kinds = (torch.optim.Optimizer, nn.Module, type(setup.scheduler))
    before = [dict(vars(kind)) for kind in kinds]
    with nbdebug.watch(setup.model, setup.optimizers[0]):
        plain(setup)
    assert [dict(vars(kind)) for kind in kinds] == before
    assert not setup.optimizers[0]._optimizer_step_pre_hooks
