"""Reinforcement learning: values, policies, both."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import loader

GAMMA = 0.99


def transitions(count: int = 512) -> tuple[Tensor, ...]:
    """State, action, reward, next state and end of episode of a cart that is pushed left or right."""
    g = torch.Generator().manual_seed(0)
    state = torch.randn(count, 4, generator=g)
    action = torch.randint(3, (count,), generator=g)
    next_state = state + 0.1 * (action[:, None] - 1.0) + 0.05 * torch.randn(count, 4, generator=g)
    done = (next_state.norm(dim=1) > 2.5).float()
    return state, action, 1 - next_state.norm(dim=1) / 3, next_state, done


def network(outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


@healthy
def q_learning_by_step() -> Debugger:
    q = network(3)
    target = copy.deepcopy(q).requires_grad_(False).eval()

    def step(batch: list[Tensor]) -> Tensor:
        state, action, reward, next_state, done = batch
        value = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            target_value = reward + GAMMA * (1 - done) * target(next_state).max(1).values
        return F.smooth_l1_loss(value, target_value)

    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    return Debugger(q, loader(*transitions()), optimizer=optimizer, step_fn=step, extra_state=[target])


class DQN(nn.Module):
    """A value network and its target network in one module."""

    def __init__(self) -> None:
        super().__init__()
        self.q = network(3)
        self.target = copy.deepcopy(self.q).requires_grad_(False)

    def forward(self, state: Tensor, next_state: Tensor) -> Any:
        with torch.no_grad():
            best = self.target(next_state).amax(1)
        return self.q(state), best


def bellman(output: Any, target: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    values, best = output
    action, reward, done = target
    return F.mse_loss(values.gather(1, action[:, None]).squeeze(1), reward + GAMMA * (1 - done) * best)


@healthy
def q_learning_in_one_module() -> Debugger:
    model = DQN()
    return Debugger(
        model,
        loader(*transitions()),
        loss_fn=bellman,
        optimizer=torch.optim.Adam(model.q.parameters(), lr=1e-3),
        unpack=lambda batch: ((batch[0], batch[3]), (batch[1], batch[2], batch[4])),
    )


@healthy
def values_of_chosen_actions() -> Debugger:
    """The target contains the action as a number, and its return."""
    state, action, reward, *_ = transitions()

    def action_loss(q: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(q.gather(1, target[:, :1].long()).squeeze(1), target[:, 1])

    model = network(3)
    train = loader(state, torch.stack([action.float(), reward], 1))
    return Debugger(model, train, loss_fn=action_loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


@healthy
def values_of_integer_actions() -> Debugger:
    """The batch contains state, action and return; the loss takes three arguments."""
    state, action, reward, *_ = transitions()

    def action_loss(q: Tensor, action: Tensor, value: Tensor) -> Tensor:
        return F.mse_loss(q.gather(1, action.unsqueeze(1)).squeeze(1), value)

    model = network(3)
    train = loader(state, action, reward)
    return Debugger(model, train, loss_fn=action_loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


@healthy
def policy_gradient() -> Debugger:
    state, action, reward, *_ = transitions()
    gain = (reward - reward.mean()) / reward.std()

    def reinforce(logits: Tensor, action: Tensor, gain: Tensor) -> Tensor:
        return -(torch.distributions.Categorical(logits=logits).log_prob(action) * gain).mean()

    model = network(3)
    train = loader(state, action, gain)
    return Debugger(model, train, loss_fn=reinforce, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 3), nn.Linear(64, 1)

    def forward(self, state: Tensor) -> Any:
        h = self.body(state)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


@healthy
def clipped_policy_with_a_critic() -> Debugger:
    state, action, reward, *_ = transitions()
    model = ActorCritic()
    with torch.no_grad():
        old_log_prob = model(state)[0].log_prob(action)

    def step(batch: list[Tensor]) -> Tensor:
        state, action, gain, old_log_prob = batch
        policy, value = model(state)
        ratio, advantage = (policy.log_prob(action) - old_log_prob).exp(), gain - value.detach()
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return -surrogate + 0.5 * F.mse_loss(value, gain) - 0.01 * policy.entropy().mean()

    train = loader(state, action, reward, old_log_prob)
    return Debugger(model, train, optimizer=torch.optim.Adam(model.parameters(), lr=3e-4), step_fn=step)
