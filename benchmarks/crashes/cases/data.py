"""Crashes: data of another type, indices out of range, and samples that cannot be stacked."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "scaler_returns_doubles",
        "a scaler written with numpy turns single precision into double",
        kind="data",
        style="custom_parts",
        source="Stack Overflow, mat1 and mat2 must have the same dtype, but got Double and Float",
        program="""
import numpy as np
import torch
from torch import nn


class Scaler:
    def fit(self, values):
        self.mean = np.asarray(values, dtype=np.float64).mean(axis=0)
        self.std = np.asarray(values, dtype=np.float64).std(axis=0)
        return self

    def transform(self, values):
        return (values - self.mean) / self.std


class HousePrices:
    def __init__(self, rows=80):
        generator = np.random.default_rng(7)
        self.x = generator.normal(3, 2, (rows, 5)).astype(np.float32)
        self.y = self.x.sum(axis=1, keepdims=True)
        self.scaler = Scaler().fit(self.x)

    def batches(self, size):
        for start in range(0, len(self.x), size):
            rows = slice(start, start + size)
            yield torch.from_numpy(self.scaler.transform(self.x[rows])), torch.from_numpy(self.y[rows])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.L1Loss()
for x, y in HousePrices().batches(20):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return (values - self.mean) / self.std",
                "return ((values - self.mean) / self.std).astype(np.float32)",
            ),
        ),
        line=(
            "return (values - self.mean) / self.std",
            "yield torch.from_numpy(self.scaler.transform(self.x[rows])), torch.from_numpy(self.y[rows])",
            "loss = criterion(model(x), y)",
            "self.mean = np.asarray(values, dtype=np.float64).mean(axis=0)",
            "self.std = np.asarray(values, dtype=np.float64).std(axis=0)",
        ),
        says=("float64|double", ".float()|float32"),
    ),
    crash(
        "unknown_word_past_the_table",
        "the unknown word gets the number after the last word, and the embedding has no row for it",
        kind="data",
        style="script",
        source="discuss.pytorch.org, embedding, IndexError index out of range in self",
        program="""
import torch
from torch import nn

TRAIN = ["the film was good", "the plot was bad", "a good film", "a bad bad plot"]
MORE = ["the acting was good", "a boring film"]


class Vocabulary:
    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.numbers = {word: number for number, word in enumerate(words)}
        self.unknown = len(self.numbers)

    def __len__(self):
        return len(self.numbers)

    def encode(self, text):
        return torch.tensor([self.numbers.get(word, self.unknown) for word in text.split()])


class BagOfWords(nn.Module):
    def __init__(self, size, dim=10):
        super().__init__()
        self.embedding = nn.Embedding(size, dim)
        self.linear = nn.Linear(dim, 2)

    def forward(self, tokens):
        return self.linear(self.embedding(tokens).mean(0))


torch.manual_seed(0)
vocabulary = Vocabulary(TRAIN)
model = BagOfWords(len(vocabulary))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for text, label in zip(TRAIN + MORE, [1, 0, 1, 0, 1, 0]):
    logits = model(vocabulary.encode(text))
    loss = nn.functional.cross_entropy(logits, torch.tensor(label))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("        return len(self.numbers)\n", "        return len(self.numbers) + 1\n"),),
        line=(
            "        return len(self.numbers)",
            "self.unknown = len(self.numbers)",
            "model = BagOfWords(len(vocabulary))",
            "self.embedding = nn.Embedding(size, dim)",
        ),
        says=("embedding", "7"),
    ),
    crash(
        "gather_of_flat_actions",
        "the replay memory gives the actions as a vector, gather wants a column",
        kind="data",
        style="trainer",
        source="Stack Overflow, Index tensor must have the same number of dimensions as input tensor, DQN",
        program="""
import random
from collections import namedtuple

import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state")


class ReplayMemory:
    def __init__(self):
        self.items = []

    def push(self, *values):
        self.items.append(Transition(*values))

    def sample(self, size):
        batch = Transition(*zip(*random.sample(self.items, size)))
        actions = torch.tensor(batch.action)
        return torch.stack(batch.state), actions, torch.tensor(batch.reward), torch.stack(batch.next_state)


class Agent:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=1e-3, amsgrad=True)
        self.memory = ReplayMemory()

    def optimize(self):
        states, actions, rewards, next_states = self.memory.sample(16)
        values = self.policy(states).gather(1, actions)
        with torch.no_grad():
            following = self.policy(next_states).max(1).values
        expected = (rewards + 0.99 * following).unsqueeze(1)
        loss = nn.functional.smooth_l1_loss(values, expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


random.seed(0)
torch.manual_seed(0)
agent = Agent()
for _ in range(40):
    agent.memory.push(torch.randn(4), random.randrange(2), random.random(), torch.randn(4))
for _ in range(3):
    agent.optimize()
""",
        repair=(("actions = torch.tensor(batch.action)", "actions = torch.tensor(batch.action).unsqueeze(1)"),),
        line=("actions = torch.tensor(batch.action)", "values = self.policy(states).gather(1, actions)"),
        says=("gather", "unsqueeze|[:, none]|view|reshape|column"),
    ),
)
