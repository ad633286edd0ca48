"""Crashes: floats used as indices."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "gather_float_actions",
        "the actions of a replay memory come back as floats",
        kind="float_index",
        style="trainer",
        source="discuss.pytorch.org, gather(): Expected dtype int64 for index, DQN",
        program="""
import random

import torch
from torch import nn


class Memory:
    def __init__(self):
        random.seed(0)
        self.rows = []

    def push(self, state, action, reward):
        self.rows.append((state, action, reward))

    def sample(self, n):
        states, actions, rewards = zip(*random.sample(self.rows, n))
        return torch.stack(states), torch.Tensor(actions), torch.Tensor(rewards)


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-3)

    def learn(self, memory):
        states, actions, rewards = memory.sample(16)
        values = self.q(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(values, rewards)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
memory, agent = Memory(), Agent()
for i in range(64):
    memory.push(torch.randn(4), i % 2, float(i % 3))
for _ in range(3):
    agent.learn(memory)
""",
        repair=(("torch.Tensor(actions)", "torch.tensor(actions)"),),
        line=("torch.Tensor(actions)", "gather(1, actions.unsqueeze(1))"),
        says=("gather|index|actions", "long|int64", "float"),
    ),
    crash(
        "permutation_times_fraction",
        "rows are chosen with a tensor of floats",
        kind="float_index",
        style="functional",
        source="Stack Overflow, tensors used as indices must be long, int, byte or bool tensors",
        program="""
import torch
from torch import nn


def make_blobs(n):
    labels = torch.arange(n) % 3
    return torch.randn(n, 2) + 3 * labels.unsqueeze(1), labels


def draw_rows(n, size):
    return torch.floor(torch.rand(size) * n)


def train_step(model, optimizer, x, y):
    rows = draw_rows(len(x), 32)
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


torch.manual_seed(0)
x, y = make_blobs(150)
model = nn.Linear(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    train_step(model, optimizer, x, y)
""",
        repair=(("torch.floor(torch.rand(size) * n)", "torch.floor(torch.rand(size) * n).long()"),),
        line=("torch.floor(torch.rand(size) * n)", "model(x[rows]), y[rows]"),
        says=("long|int64", "float", "ind"),
    ),
)
