"""Tests of O505 for gradients that the loss of one optimizer leaves in the parameters of another one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, run_watched, source_line

X = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
Y = X[:, :1] * X[:, 1:2]


class ActorCritic(nn.Module):
    """A critic that rates states and actions, an actor that proposes them, and a second critic."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.other_head = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        rating: Tensor = self.critic(x)
        return rating

    def rate_own_action(self, x: Tensor) -> Tensor:
        rating: Tensor = self.critic(torch.cat([x[:, :2], self.actor(x[:, :2])], 1))
        return rating


TrainFunction = Callable[[Setup, ActorCritic, torch.optim.Optimizer, torch.optim.Optimizer], None]


def loop_findings(train: TrainFunction) -> list[Finding]:
    """Return the findings of O505 for a loop with an optimizer of the actor and one of the critic."""
    model = ActorCritic()
    actor_optimizer = torch.optim.SGD(model.actor.parameters(), lr=0.01)
    critic_optimizer = torch.optim.SGD([*model.critic.parameters(), *model.other_head.parameters()], lr=0.01)
    setup = minimal_setup(model, X, Y, nn.MSELoss(), optimizers=(critic_optimizer, actor_optimizer))
    findings = all_findings(lambda setup: train(setup, model, actor_optimizer, critic_optimizer), setup)
    return [finding for finding in findings if finding.code == "O505"]


def repeated(setup: Setup) -> list[tuple[Tensor, Tensor]]:
    return [(x, y) for x, y in setup.train_loader for _ in range(2)]  # type: ignore[union-attr]


def clears_critic_after_its_step(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        actor.zero_grad()
        (-model.rate_own_action(x).mean()).backward()
        actor.step()
        F.mse_loss(model(x), y).backward()
        critic.step()
        critic.zero_grad()


def clears_critic_before_the_pass_of_the_actor(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        actor.zero_grad()
        critic.zero_grad()
        (-model.rate_own_action(x).mean()).backward()
        actor.step()
        for _ in range(2):
            F.mse_loss(model(x), y).backward()
        critic.step()


def with_a_direct_term(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        model.actor.zero_grad()
        (model.actor(x[:, :2]).square().mean() - model.rate_own_action(x).mean()).backward()
        actor.step()
        F.mse_loss(model(x), y).backward()
        critic.step()
        model.critic.zero_grad()


def clears_before_each_pass(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        actor.zero_grad()
        (-model.rate_own_action(x).mean()).backward()
        actor.step()
        critic.zero_grad()
        F.mse_loss(model(x), y).backward()
        critic.step()


def sets_gradients_to_none(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        (-model.rate_own_action(x).mean()).backward()
        actor.step()
        for parameter in model.parameters():
            parameter.grad = None
        F.mse_loss(model(x), y).backward()
        critic.step()
        critic.zero_grad()
        actor.zero_grad()


def names_the_inputs_of_the_pass(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        actor.zero_grad()
        (-model.rate_own_action(x).mean()).backward(inputs=[*model.actor.parameters()])
        actor.step()
        F.mse_loss(model(x), y).backward()
        critic.step()
        critic.zero_grad()


def freezes_the_critic(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        actor.zero_grad()
        model.critic.requires_grad_(False)
        (-model.rate_own_action(x).mean()).backward()
        actor.step()
        model.critic.requires_grad_(True)
        F.mse_loss(model(x), y).backward()
        critic.step()
        critic.zero_grad()


def sums_losses_for_one_step(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        F.mse_loss(model.rate_own_action(x), y).backward()
        F.mse_loss(model(x), y).backward()
        for optimizer in (actor, critic):
            optimizer.step()
            optimizer.zero_grad()


def accumulates_over_batches(
    setup: Setup, model: ActorCritic, actor: torch.optim.Optimizer, critic: torch.optim.Optimizer
) -> None:
    for number, (x, y) in enumerate(repeated(setup)):
        F.mse_loss(model.rate_own_action(x), y).backward()
        actor.step()
        actor.zero_grad()
        if number % 2:
            critic.step()
            critic.zero_grad()


def sums_losses_of_two_heads_in_a_trunk(
    setup: Setup, model: ActorCritic, trunk: torch.optim.Optimizer, heads: torch.optim.Optimizer
) -> None:
    for x, y in repeated(setup):
        F.mse_loss(model.rate_own_action(x), y).backward()
        heads.step()
        heads.zero_grad()
        F.mse_loss(model.actor(x[:, :2]), y.expand(-1, 2)).backward()
        trunk.step()
        trunk.zero_grad()


FAULTY = (clears_critic_after_its_step, clears_critic_before_the_pass_of_the_actor, with_a_direct_term)
HEALTHY = (
    *(clears_before_each_pass, sets_gradients_to_none, names_the_inputs_of_the_pass, freezes_the_critic),
    *(sums_losses_for_one_step, accumulates_over_batches, sums_losses_of_two_heads_in_a_trunk),
)


@pytest.mark.parametrize("train", FAULTY)
def test_gradients_of_the_loss_of_another_optimizer_are_reported(train: TrainFunction) -> None:
    (finding,) = loop_findings(train)
    assert finding.severity == "error"
    assert source_line(finding) == "F.mse_loss(model(x), y).backward()"
    assert finding.where.module == "critic"


@pytest.mark.parametrize("train", HEALTHY)
def test_other_sums_of_gradients_are_quiet(train: TrainFunction) -> None:
    assert loop_findings(train) == []


def test_fix_clears_the_gradients_before_the_own_pass() -> None:
    (finding,) = loop_findings(clears_critic_after_its_step)
    (edit,) = finding.edits
    assert edit.text.strip() == "critic.zero_grad()"


def test_counts_are_those_of_the_steps() -> None:
    model = ActorCritic()
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.01) for part in (model.critic, model.actor)]
    setup = minimal_setup(model, X, Y, nn.MSELoss(), optimizers=tuple(optimizers))
    _, watch = run_watched(
        lambda setup: clears_critic_after_its_step(setup, model, optimizers[1], optimizers[0]), setup
    )
    leftover = watch.session.loop_monitor.leftover_gradients.summary(model)
    assert leftover is not None
    assert leftover.steps == leftover.checked_steps == len(repeated(setup))
    assert leftover.parameters == {f"critic.{name}" for name, _ in model.critic.named_parameters()}
