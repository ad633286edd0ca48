"""Reinforcement learning: rewards, advantages, moving targets, target networks."""

from __future__ import annotations

import copy
import random
from collections import deque
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.datasets import loader
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual

GAMMA = 0.9


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, outputs))


def contextual_rewards(x: Tensor, action: Tensor) -> Tensor:
    """One for the action of the octant of a state, minus a tenth otherwise."""
    best = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return torch.where(action == best, 1.0, -0.1)


class Walk:
    """A walk on a line; the end at the right gives a reward."""

    def reset(self) -> Tensor:
        self.position, self.time = 0.0, 0
        return self.state

    @property
    def state(self) -> Tensor:
        return torch.tensor([self.position, self.time / 12])

    def step(self, action: int) -> tuple[Tensor, float, bool]:
        self.position += 0.25 * (2 * action - 1)
        self.time += 1
        done = abs(self.position) >= 1 or self.time >= 12
        return self.state, float(self.position >= 1) - 0.01, done


@unusual
def reinforce_with_a_baseline() -> tuple[Debugger, TrainingLoop]:
    policy = mlp(2, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    states = loader(torch.randn(256, 2))

    def train() -> None:
        walk, baseline = Walk(), 0.0
        for _ in range(60):
            state, done, log_probabilities, rewards = walk.reset(), False, list[Tensor](), list[float]()
            while not done:
                choice = Categorical(logits=policy(state))
                action = choice.sample()
                log_probabilities.append(choice.log_prob(action))
                state, reward, done = walk.step(int(action))
                rewards.append(reward)
            total = sum(rewards)
            baseline += 0.1 * (total - baseline)
            optimizer.zero_grad()
            (-torch.stack(log_probabilities).sum() * (total - baseline)).backward()
            optimizer.step()

    return Debugger(policy, states, optimizer=optimizer), train


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(2, 32), nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Any:
        hidden = torch.tanh(self.body(x))
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


@unusual
def advantage_actor_critic() -> tuple[Debugger, TrainingLoop]:
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def train() -> None:
        walk = Walk()
        for _ in range(60):
            state, done, steps = walk.reset(), False, list[Any]()
            while not done:
                logits, value = model(state)
                choice = Categorical(logits=logits)
                action = choice.sample()
                state, reward, done = walk.step(int(action))
                steps.append((choice.log_prob(action), value, reward, choice.entropy()))
            returns, total = list[float](), 0.0
            for *_, reward, _ in reversed(steps):
                total = reward + GAMMA * total
                returns.insert(0, total)
            log_p, value, _, entropy = zip(*steps, strict=True)
            values = torch.stack(value)
            advantage = torch.tensor(returns) - values
            optimizer.zero_grad()
            loss = -(torch.stack(log_p) * advantage.detach()).mean() + 0.5 * advantage.square().mean()
            (loss - 0.01 * torch.stack(entropy).mean()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    return Debugger(model, [torch.randn(16, 2) for _ in range(8)], optimizer=optimizer), train


def walk_transitions(count: int = 600) -> list[tuple[Tensor, int, float, Tensor, float]]:
    walk, transitions = Walk(), list[tuple[Tensor, int, float, Tensor, float]]()
    state = walk.reset()
    while len(transitions) < count:
        action = int(torch.randint(2, ()))
        after, reward, done = walk.step(action)
        transitions.append((state, action, reward, after, float(done)))
        state = walk.reset() if done else after
    return transitions


def transition_columns() -> list[Tensor]:
    """State, action, reward, next state and end of the transitions of random walks."""
    columns = zip(*walk_transitions(), strict=True)
    return [torch.stack(c) if isinstance(c[0], Tensor) else torch.tensor(c) for c in columns]


@unusual
def deep_q_learning_with_replay_and_target_network() -> tuple[Debugger, TrainingLoop]:
    q = mlp(2, 2)
    target = copy.deepcopy(q).requires_grad_(False)
    optimizer = torch.optim.Adam(q.parameters(), lr=3e-3)

    def train() -> None:
        buffer = deque(walk_transitions(), maxlen=1000)
        for step in range(200):
            state, action, reward, after, done = zip(*random.sample(buffer, 32), strict=True)
            with torch.no_grad():
                best = target(torch.stack(after)).amax(1)
                wanted = torch.tensor(reward) + GAMMA * (1 - torch.tensor(done)) * best
            value = q(torch.stack(state)).gather(1, torch.tensor(action)[:, None]).squeeze(1)
            optimizer.zero_grad()
            F.smooth_l1_loss(value, wanted).backward()
            optimizer.step()
            if step % 20 == 19:
                target.load_state_dict(q.state_dict())

    return Debugger(q, [torch.randn(32, 2) for _ in range(8)], optimizer=optimizer), train


@unusual
def double_q_learning_in_one_module_by_loader() -> tuple[Debugger, TrainingLoop]:
    networks = nn.ModuleDict({"online": mlp(2, 2), "target": mlp(2, 2)})
    online, target = networks["online"], networks["target"].requires_grad_(False)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.RMSprop(online.parameters(), lr=1e-3)
    data = loader(*transition_columns())

    def train() -> None:
        for s, a, r, n, d in batches(data, 10):
            with torch.no_grad():
                choice = online(n).argmax(1, keepdim=True)
                wanted = r + GAMMA * (1 - d) * target(n).gather(1, choice).squeeze(1)
            optimizer.zero_grad()
            F.mse_loss(online(s).gather(1, a[:, None]).squeeze(1), wanted).backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                    slow.lerp_(fast, 0.05)

    return Debugger(networks, data, optimizer=optimizer), train


@unusual
def deterministic_policy_gradients_with_two_optimizers() -> tuple[Debugger, TrainingLoop]:
    actor, critic = nn.Sequential(mlp(2, 1), nn.Tanh()), mlp(3, 1)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=2e-3)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=5e-3)
    data = loader(torch.randn(512, 2))

    def train() -> None:
        for (state,) in batches(data, 8):
            with torch.no_grad():
                action = (actor(state) + 0.2 * torch.randn(len(state), 1)).clamp(-1, 1)
                reward = -(action - torch.sin(state[:, :1])).square()
            critic_optimizer.zero_grad()
            F.mse_loss(critic(torch.cat([state, action], 1)), reward).backward()
            critic_optimizer.step()
            actor_optimizer.zero_grad()
            (-critic(torch.cat([state, actor(state)], 1)).mean()).backward()
            actor_optimizer.step()

    return Debugger(actor, data, optimizer=actor_optimizer), train


@unusual
def proximal_policy_optimization() -> tuple[Debugger, TrainingLoop]:
    model = ActorCritic()
    model.actor = nn.Linear(32, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    data = loader(torch.randn(256, 2), batch_size=64)

    def train() -> None:
        for (state,) in batches(data, 12):
            with torch.no_grad():
                logits, value = model(state)
                action = Categorical(logits=logits).sample()
                before = Categorical(logits=logits).log_prob(action)
                returns = contextual_rewards(state, action)
                advantage = returns - value
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            for _ in range(4):
                logits, value = model(state)
                ratio = (Categorical(logits=logits).log_prob(action) - before).exp()
                surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                optimizer.zero_grad()
                (-surrogate.mean() + 0.5 * F.mse_loss(value, returns)).backward()
                optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def gaussian_policy_with_free_deviation() -> tuple[Debugger, TrainingLoop]:
    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.log_std = mlp(2, 1), nn.Parameter(torch.zeros(1))

        def forward(self, state: Tensor) -> Normal:
            return Normal(self.mean(state), self.log_std.exp())

    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    data = loader(torch.randn(256, 2), batch_size=64)

    def train() -> None:
        for (state,) in batches(data, 20):
            choice = policy(state)
            action = choice.sample()
            reward = -(action - state[:, :1]).square()
            optimizer.zero_grad()
            (-(choice.log_prob(action) * (reward - reward.mean())).mean()).backward()
            optimizer.step()

    return Debugger(policy, data, optimizer=optimizer), train
