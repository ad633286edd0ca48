"""Crashes: changes in place of what the backward pass needs, and of leaves."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "critic_steps_before_actor_loss",
        "the critic is stepped between the forward and the backward pass of the actor loss",
        kind="in_place",
        style="trainer",
        source="discuss.pytorch.org, a variable needed for gradient computation has been modified, optimizer.step",
        program="""
import torch
from torch import nn


class ActorCritic:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def value(self, states, actions):
        return self.critic(torch.cat([states, actions], dim=1))

    @staticmethod
    def apply(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def learn(self, states, actions, returns):
        critic_loss = nn.functional.mse_loss(self.value(states, actions), returns)
        actor_loss = -self.value(states, self.actor(states)).mean()
        self.apply(self.critic_opt, critic_loss)
        self.apply(self.actor_opt, actor_loss)


torch.manual_seed(0)
agent = ActorCritic()
for _ in range(3):
    agent.learn(torch.randn(20, 4), torch.randn(20, 2), torch.randn(20, 1))
""",
        repair=(
            (
                "        actor_loss = -self.value(states, self.actor(states)).mean()\n"
                "        self.apply(self.critic_opt, critic_loss)\n",
                "        self.apply(self.critic_opt, critic_loss)\n"
                "        actor_loss = -self.value(states, self.actor(states)).mean()\n",
            ),
        ),
        line=(
            "actor_loss = -self.value(",
            "self.apply(self.critic_opt, critic_loss)",
            "self.apply(self.actor_opt, actor_loss)",
        ),
        says=("critic", "step"),
    ),
    crash(
        "gate_scaled_in_place",
        "a gate multiplies the output of a sigmoid in place",
        kind="in_place",
        style="hand_written_model",
        source="Stack Overflow, SigmoidBackward0 is at version 1; expected version 0 instead",
        program="""
import torch
from torch import nn


class Highway(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate, self.body = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        carry = 1 - gate
        gate *= self.body(x).relu()
        return gate + carry * x


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), Highway(8), Highway(8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x, y = torch.randn(10, 3), torch.randint(2, (10,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("gate *= self.body(x).relu()", "gate = gate * self.body(x).relu()"),),
        says=("gate", "*=|in place|in-place|inplace"),
    ),
)
