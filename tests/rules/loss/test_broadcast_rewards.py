"""Tests of L205 on losses of an actor and a critic: rewards that are broadcast against the values of states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

STATES = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
PAYOFFS = torch.rand(32, 4, generator=torch.Generator().manual_seed(1))
BEST = PAYOFFS.argmax(1)
Loss = Callable[[tuple[Tensor, Tensor], Tensor], Tensor]


class ActorCritic(nn.Module):
    """The logits of 4 actions and the value of each state, as a row or as a column."""

    def __init__(self, is_column: bool) -> None:
        super().__init__()
        self.actor, self.critic, self.is_column = nn.Linear(6, 4), nn.Linear(6, 1), is_column

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        value = self.critic(state)
        return self.actor(state), value if self.is_column else value.squeeze(-1)


def policy_loss(log_prob: Tensor, advantage: Tensor) -> Tensor:
    return (advantage.square() - log_prob * advantage.detach()).mean()


def gathered_reward(output: tuple[Tensor, Tensor], payoff: Tensor) -> Tensor:
    policy = Categorical(logits=output[0])
    action = policy.sample()
    reward = payoff.gather(1, action.unsqueeze(1))
    return policy_loss(policy.log_prob(action), reward - output[1])


def squeezed_reward(output: tuple[Tensor, Tensor], payoff: Tensor) -> Tensor:
    policy = Categorical(logits=output[0])
    action = policy.sample()
    reward = payoff.gather(1, action.unsqueeze(1)).squeeze(1)
    return policy_loss(policy.log_prob(action), reward - output[1])


def reward_of_action(output: tuple[Tensor, Tensor], payoff: Tensor) -> Tensor:
    log_probs = output[0].log_softmax(1)
    action = log_probs.exp().multinomial(1)
    rewards = torch.take_along_dim(payoff, action, dim=1)
    return policy_loss(log_probs.gather(1, action), torch.sub(rewards, output[1]))


def reward_of_match(output: tuple[Tensor, Tensor], best: Tensor) -> Tensor:
    policy = Categorical(logits=output[0])
    action = policy.sample()
    reward = (action == best).float()
    return policy_loss(policy.log_prob(action), reward - output[1])


def reward_of_comparison(output: tuple[Tensor, Tensor], best: Tensor) -> Tensor:
    hits = torch.where(output[0].argmax(1) == best, 1.0, -1.0)
    log_prob = output[0].log_softmax(1).amax(1)
    return policy_loss(log_prob, -(output[1] - hits))


def every_pair(output: tuple[Tensor, Tensor], best: Tensor) -> Tensor:
    hits = (output[0].argmax(1) == best).float()
    margin = output[1] - hits[:, None]
    return margin.square().mean() + output[0].square().mean()


def setup_of(loss_fn: Loss, target: Tensor, is_column: bool) -> Setup:
    torch.manual_seed(0)
    return minimal_setup(ActorCritic(is_column), STATES, target, loss_fn)


@pytest.mark.parametrize(
    ("loss_fn", "target", "is_column", "source"),
    [
        (gathered_reward, PAYOFFS, False, "reward - output[1]"),
        (reward_of_action, PAYOFFS, False, "torch.sub(rewards, output[1])"),
        (reward_of_match, BEST, True, "reward - output[1]"),
        (reward_of_comparison, BEST, True, "output[1] - hits"),
    ],
)
def test_broadcast_loss_of_rewards_against_values_is_placed(
    loss_fn: Loss, target: Tensor, is_column: bool, source: str
) -> None:
    (finding,) = rule_findings(setup_of(loss_fn, target, is_column), "L205")
    assert finding.evidence["result"] == (16, 16)
    assert source in (finding.where.source or "")
    assert "target" not in finding.message + finding.cause
    assert any(f" and {name} (" in finding.message for name in ("reward", "rewards", "hits"))


@pytest.mark.parametrize(
    "arrange",
    [lambda y: y, lambda y: y.double().float(), lambda y: y[:, None].squeeze(1), lambda y: y.detach().clone()],
    ids=["as given", "converted", "arranged", "copied"],
)
def test_target_of_a_broadcast_is_called_a_target(arrange: Callable[[Tensor], Tensor]) -> None:
    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return (output - arrange(target)).square().mean()

    (finding,) = rule_findings(minimal_setup(nn.Linear(6, 1), STATES, PAYOFFS[:, 0], loss_fn), "L205")
    assert " and target (" in finding.message
    assert "targets of other samples" in finding.cause


@pytest.mark.parametrize(
    ("loss_fn", "target", "is_column"),
    [
        (squeezed_reward, PAYOFFS, False),
        (reward_of_action, PAYOFFS, True),
        (reward_of_match, BEST, False),
        (reward_of_comparison, BEST, False),
        (every_pair, BEST, False),
    ],
)
def test_broadcast_loss_of_rewards_with_the_shape_of_values_is_quiet(
    loss_fn: Loss, target: Tensor, is_column: bool
) -> None:
    assert rule_findings(setup_of(loss_fn, target, is_column), "L205") == []


def value_loss(select: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def loss_fn(values: Tensor, record: Tensor) -> Tensor:
        return (select(values, record[:, 0].long()) - record[:, 1]).square().mean()

    return loss_fn


@pytest.mark.parametrize(
    ("select", "is_crossed"),
    [
        (lambda values, action: values[:, action], True),
        (lambda values, action: values.index_select(1, action), True),
        (lambda values, action: values.gather(1, action[:, None]).squeeze(1), False),
        (lambda values, action: values[torch.arange(len(values)), action], False),
        (lambda values, action: values[:, action].diagonal(), False),
    ],
    ids=["index", "index_select", "gather", "rows and columns", "diagonal"],
)
def test_values_at_the_actions_of_all_samples_are_reported(
    select: Callable[[Tensor, Tensor], Tensor], is_crossed: bool
) -> None:
    record = torch.stack([BEST.float(), PAYOFFS.amax(1)], 1)
    findings = rule_findings(minimal_setup(nn.Linear(6, 4), STATES, record, value_loss(select)), "L205")
    assert ["gather" in finding.fix for finding in findings] == [True] * is_crossed


def paired_distance(output: Tensor, target: Tensor) -> Tensor:
    """Pair outputs and targets by their distances, and return the mean distance of the pairs."""
    cost = (output.detach() - target).abs()
    order = cost.argmin(0)
    return (output[order, 0] - target).abs().mean()


def all_distances(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).abs().mean()


@pytest.mark.parametrize(("loss_fn", "count"), [(paired_distance, 0), (all_distances, 1)])
def test_broadcast_counts_only_if_the_loss_is_computed_of_it(loss_fn: Callable[..., Tensor], count: int) -> None:
    setup = minimal_setup(nn.Linear(6, 1), STATES, STATES[:, 0], loss_fn)
    assert len(rule_findings(setup, "L205")) == count
