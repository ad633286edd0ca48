"""Crashes: tensors changed in place that backward needs."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "step_between_two_backwards",
        "the optimizer of one network steps before the loss of the other is differentiated",
        kind="inplace",
        style="trainer",
        source="GitHub issue, GAN and in-place operation since 1.5",
        program="""
import torch
from torch import nn


class ActorCritic:
    def __init__(self):
        self.critic = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)

    def update(self, state, reward):
        action = self.actor(state)
        value = self.critic(torch.cat([state, action], dim=1))
        critic_loss = nn.functional.mse_loss(value, reward)
        actor_loss = -value.mean()

        self.critic_optimizer.zero_grad()
        critic_loss.backward(retain_graph=True)
        self.critic_optimizer.step()

        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()


torch.manual_seed(0)
agent = ActorCritic()
for _ in range(3):
    agent.update(torch.randn(10, 3), torch.randn(10, 1))
""",
        repair=(
            ("        actor_loss = -value.mean()\n", ""),
            (
                "        self.actor_optimizer.zero_grad()\n",
                "        value = self.critic(torch.cat([state, self.actor(state)], dim=1))\n"
                "        actor_loss = -value.mean()\n        self.actor_optimizer.zero_grad()\n",
            ),
        ),
        line=("self.critic_optimizer.step()", "actor_loss = -value.mean()", "actor_loss.backward()"),
        says=("step", "critic"),
    ),
    crash(
        "states_written_into_tensor",
        "the states of a recurrence are written into one tensor that is read again",
        kind="inplace",
        style="functional",
        source="Stack Overflow, filling a tensor in a loop",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
inner = nn.Linear(4, 4)
head = nn.Linear(4, 1)


def unroll(x):
    steps = x.shape[0]
    states = torch.zeros(steps, x.shape[1], 4)
    states[0] = x[0]
    for t in range(1, steps):
        states[t] = torch.tanh(inner(states[t - 1]) + x[t])
    return states


optimizer = torch.optim.SGD([*inner.parameters(), *head.parameters()], lr=0.05)
for _ in range(3):
    x = torch.randn(6, 9, 4)
    loss = head(unroll(x)[-1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("    states = torch.zeros(steps, x.shape[1], 4)\n    states[0] = x[0]\n", "    states = [x[0]]\n"),
            (
                "states[t] = torch.tanh(inner(states[t - 1]) + x[t])",
                "states.append(torch.tanh(inner(states[t - 1]) + x[t]))",
            ),
            ("return states", "return torch.stack(states)"),
        ),
        line=("states[t] = torch.tanh(",),
        says=("in place|in-place|inplace", "states"),
    ),
    crash(
        "inplace_relu_after_softmax",
        "an activation in place changes the output of the exponential before it",
        kind="inplace",
        style="script",
        source="discuss.pytorch.org, ReLU(inplace=True)",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)


class ExpNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 12)
        self.act = nn.ReLU6(inplace=True)
        self.fc2 = nn.Linear(12, 1)

    def forward(self, x):
        h = torch.exp(self.fc1(x))
        h = self.act(h)
        return self.fc2(h)


model = ExpNet()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 5)
    loss = ((model(x) - x[:, :1]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.ReLU6(inplace=True)", "nn.ReLU6()"),),
        line=("nn.ReLU6(inplace=True)", "h = self.act(h)"),
        says=("inplace", "act"),
    ),
    crash(
        "diagonal_filled",
        "the diagonal of the distances is filled in place, before their root is differentiated",
        kind="inplace",
        style="functional",
        source="Stack Overflow, sqrt and in-place modification",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def spread_loss(z):
    squared = (z.unsqueeze(0) - z.unsqueeze(1)).pow(2).sum(2) + 1e-6
    distances = squared.sqrt()
    distances.fill_diagonal_(10.0)
    return F.relu(1.0 - distances).mean()


def train(encoder, steps):
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
    for _ in range(steps):
        loss = spread_loss(encoder(torch.randn(14, 6)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(nn.Linear(6, 2), 3)
""",
        repair=(("    distances.fill_diagonal_(10.0)\n", "    distances = distances + 10.0 * torch.eye(len(z))\n"),),
        line=("distances.fill_diagonal_(10.0)", "distances = squared.sqrt()"),
        says=("in place|in-place|inplace", "distances|fill_diagonal_"),
    ),
)
