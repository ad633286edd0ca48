"""Tests of L213 on losses that draw actions from the output and weight their log-probabilities."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

Loss = Callable[[Tensor, Tensor], Tensor]


def reward_of(actions: Tensor, rewards: Tensor) -> Tensor:
    return rewards.gather(1, actions.unsqueeze(1)).squeeze(1)


def reinforce(sign: float) -> Loss:
    def loss(scores: Tensor, rewards: Tensor) -> Tensor:
        policy = Categorical(logits=scores)
        actions = policy.sample()
        reward = reward_of(actions, rewards)
        gain = (policy.log_prob(actions) * (reward - reward.mean())).mean()
        return sign * gain - 0.01 * policy.entropy().mean()

    return loss


def weighted_cross_entropy(sign: float) -> Loss:
    """The same estimator by functions of torch alone, with rewards that are never negative."""

    def loss(scores: Tensor, rewards: Tensor) -> Tensor:
        actions = torch.multinomial(scores.softmax(1), 1).squeeze(1)
        weight = reward_of(actions, rewards.sigmoid())
        return sign * (weight * F.cross_entropy(scores, actions, reduction="none")).sum()

    return loss


def binary_policy(sign: float) -> Loss:
    def loss(scores: Tensor, rewards: Tensor) -> Tensor:
        policy = Bernoulli(logits=scores[:, 0])
        actions = policy.sample()
        return sign * (policy.log_prob(actions) * (actions * rewards[:, 0])).mean()

    return loss


def weighted_by_own_loss(scores: Tensor, rewards: Tensor) -> Tensor:
    """A score function estimator of a loss of the model: its weights are to be minimized."""
    policy = Categorical(logits=scores)
    actions = policy.sample()
    error = (scores.square().mean(1) - rewards[:, 0]).square()
    return (policy.log_prob(actions) * error.detach()).mean() + error.mean()


def masked_likelihood(scores: Tensor, rewards: Tensor) -> Tensor:
    """A mask of two values is no weight of actions."""
    policy = Categorical(logits=scores)
    actions = policy.sample()
    return (policy.log_prob(actions) * (rewards[:, 0] > 0).float()).mean()


def advantage_of_a_hit(scores: Tensor, rewards: Tensor) -> Tensor:
    """Rewards of 0 and 1, minus their mean."""
    policy = Categorical(logits=scores)
    actions = policy.sample()
    hits = (rewards.gather(1, actions[:, None])[:, 0] > 0).float()
    return (policy.log_prob(actions) * (hits - hits.mean())).mean()


CASES: dict[str, tuple[Loss, bool]] = {
    "two advantages, minimized": (advantage_of_a_hit, True),
    "categorical, minimized": (reinforce(1.0), True),
    "categorical, negated": (reinforce(-1.0), False),
    "cross-entropy, maximized": (weighted_cross_entropy(-1.0), True),
    "cross-entropy, minimized": (weighted_cross_entropy(1.0), False),
    "binary, minimized": (binary_policy(1.0), True),
    "binary, negated": (binary_policy(-1.0), False),
    "weights from the output": (weighted_by_own_loss, False),
    "a mask": (masked_likelihood, False),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_wrong_sign_of_policy_gradient(name: str) -> None:
    loss_fn, is_wrong = CASES[name]
    generator = torch.Generator().manual_seed(0)
    states, rewards = torch.randn(64, 5, generator=generator), torch.randn(64, 4, generator=generator)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 4))
    loader = DataLoader(TensorDataset(states, rewards), batch_size=32)
    setup = Setup(model, loader, loss_fn=loss_fn, optimizers=(torch.optim.Adam(model.parameters()),))
    findings = rule_faults(setup, "L213")
    assert [finding.evidence["followed"] for finding in findings] == ([0] if is_wrong else [])
    assert all(finding.evidence["actions"] > 8 for finding in findings)
