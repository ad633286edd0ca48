"""Tests of O506 on loops with two optimizers, of which one never steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import TrainFunction, all_findings, source_line


class Clicks(nn.Module):
    """A sparse table before a network."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.tower = nn.Embedding(20, 4, sparse=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.tower(self.table(x))


def clicks() -> Setup:
    model = Clicks()
    rows = torch.arange(64) % 20, torch.arange(64) % 3
    optimizers = (torch.optim.Adam(model.tower.parameters(), lr=1e-2),)
    return minimal_setup(model, *rows, nn.CrossEntropyLoss(), optimizers=optimizers)


def body_and_head(are_both_passed: bool) -> Setup:
    model = network(3)
    optimizers = (torch.optim.SGD(model[2].parameters(), lr=0.1), torch.optim.SGD(model[0].parameters(), lr=0.1))
    passed = optimizers if are_both_passed else optimizers[:1]
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=passed)


OPTIMIZERS: dict[int, torch.optim.Optimizer] = {}


def training(part: str, second_steps_from: float, optimizer_class: type[torch.optim.Optimizer]) -> TrainFunction:
    """Train with the first optimizer of the setup and another one of ``part``, which steps from some step on."""

    def train(setup: Setup) -> None:
        if len(setup.optimizers) > 1:
            second = setup.optimizers[1]
        else:
            second = optimizer_class(list(setup.model.get_submodule(part).parameters()), lr=0.05)
            OPTIMIZERS[id(setup.model)] = second  # a program keeps it longer than the loop
        for number, (x, y) in enumerate([*setup.train_loader] * 4):
            setup.optimizers[0].zero_grad()
            second.zero_grad()
            nn.functional.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
            if number >= second_steps_from:
                second.step()

    return train


class Pair(nn.Module):
    """A critic that judges its input, and a generator that the loop calls by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.critic, self.generator = network(1), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.critic(x)


def pair() -> Setup:
    model = Pair()
    optimizers = (torch.optim.Adam(model.critic.parameters()),)
    x, _ = points()
    return minimal_setup(model, x, torch.ones(len(x), 1), nn.BCEWithLogitsLoss(), optimizers=optimizers)


def turns(is_mistaken: bool) -> TrainFunction:
    """Train critic and generator in turns; the turn of the generator may end with the step of the critic."""

    def train(setup: Setup) -> None:
        model, critic_optimizer, loss_fn = setup.model, setup.optimizers[0], nn.BCEWithLogitsLoss()
        generator_optimizer = torch.optim.Adam(model.generator.parameters())
        OPTIMIZERS[id(model)] = generator_optimizer
        for real, yes in [*setup.train_loader] * 4:
            fake = model.generator(torch.randn(len(real), 4))
            critic_optimizer.zero_grad()
            (loss_fn(model(real), yes) + loss_fn(model(fake.detach()), 1 - yes)).backward()
            critic_optimizer.step()
            generator_optimizer.zero_grad()
            loss_fn(model(fake), yes).backward()
            (critic_optimizer if is_mistaken else generator_optimizer).step()

    return train


NEVER = float("inf")


def unstepped(train: TrainFunction, setup: Setup) -> list[Finding]:
    findings = all_findings(train, setup)
    return [finding for finding in findings if finding.code == "O506" and finding.aspect == "one optimizer"]


@pytest.mark.parametrize(
    ("make", "train", "module"),
    [
        (clicks, training("table", NEVER, torch.optim.SparseAdam), "table"),
        (lambda: body_and_head(False), training("0", NEVER, torch.optim.Adam), "0"),
        (lambda: body_and_head(True), training("0", NEVER, torch.optim.Adam), "0"),
        (pair, turns(is_mistaken=True), "generator"),
    ],
    ids=["sparse table", "body", "both passed", "turns"],
)
def test_step_missing_of_one_of_two_optimizers_is_warning_at_its_part(
    make: Callable[[], Setup], train: TrainFunction, module: str
) -> None:
    (finding,) = unstepped(train, make())
    assert (finding.severity, finding.where.module) == ("warning", module)
    assert "never stepped" in finding.message


def frozen_body() -> Setup:
    setup = body_and_head(False)
    setup.model.get_submodule("0").requires_grad_(False)
    return setup


@pytest.mark.parametrize(
    ("make", "train"),
    [
        (clicks, training("table", 0, torch.optim.SparseAdam)),
        (lambda: body_and_head(True), training("0", 0, torch.optim.Adam)),
        (lambda: body_and_head(False), training("0", 10, torch.optim.Adam)),
        (frozen_body, training("0", NEVER, torch.optim.Adam)),
        (pair, turns(is_mistaken=False)),
    ],
    ids=["sparse table", "both passed", "later", "frozen", "turns"],
)
def test_step_missing_ignores_optimizers_that_step_and_frozen_parts(
    make: Callable[[], Setup], train: TrainFunction
) -> None:
    assert unstepped(train, make()) == []


def is_due(number: int) -> bool:
    return number + 1 % 4 == 0  # here


def steps_when_due(setup: Setup) -> None:
    optimizer = setup.optimizers[0]
    for _ in range(12):
        for number, (x, y) in enumerate(setup.train_loader):
            nn.functional.cross_entropy(setup.model(x), y).backward()
            if is_due(number + 1):
                optimizer.step()


def test_condition_that_is_never_true_is_placed_in_the_function_that_computes_it() -> None:
    findings = [finding for finding in all_findings(steps_when_due, classifier()) if finding.code == "O506"]
    assert [source_line(finding).endswith("# here") for finding in findings] == [True]
