"""Crashes: words, labels and indices out of their range or of the wrong type."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "padded_ids_are_float",
        "the collate function pads into torch.zeros, and the words become floating point",
        kind="indices",
        style="custom_parts",
        source="discuss.pytorch.org, Expected tensor for argument #1 'indices' to have scalar types Long, Int",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader


def pad_batch(samples):
    longest = max(len(words) for words, _ in samples)
    batch = torch.zeros(len(samples), longest)
    for row, (words, _) in zip(batch, samples):
        row[: len(words)] = torch.tensor(words)
    return batch, torch.tensor([label for _, label in samples])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8, padding_idx=0)
        self.head = nn.Linear(8, 2)

    def forward(self, words):
        return self.head(self.table(words).amax(dim=1))


torch.manual_seed(0)
samples = [(list(range(1, 2 + i % 6)), i % 2) for i in range(24)]
loader = DataLoader(samples, batch_size=8, collate_fn=pad_batch)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters())
for words, labels in loader:
    loss = nn.functional.cross_entropy(model(words), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.zeros(len(samples), longest)", "torch.zeros(len(samples), longest, dtype=torch.long)"),),
        line=(
            "batch = torch.zeros(len(samples), longest)",
            "self.head(self.table(words).amax(dim=1))",
            "cross_entropy(model(words), labels)",
        ),
        says=("embedding|table", "long()|torch.long|dtype=long|int64"),
    ),
    crash(
        "actions_miss_an_axis",
        "the actions of a replay memory have one axis, gather needs as many as the values",
        kind="indices",
        style="trainer",
        source="Stack Overflow, DQN, Index tensor must have the same number of dimensions as input tensor",
        program="""
import random
from collections import deque

import torch
from torch import nn


class Agent:
    def __init__(self, n_states=4, n_actions=3):
        self.q = nn.Sequential(nn.Linear(n_states, 16), nn.ReLU(), nn.Linear(16, n_actions))
        self.memory = deque(maxlen=200)
        self.optimizer = torch.optim.Adam(self.q.parameters())

    def remember(self, state, action, reward, following):
        self.memory.append((state, torch.tensor(action), torch.tensor(reward), following))

    def learn(self, n=16):
        states, actions, rewards, following = map(torch.stack, zip(*random.sample(self.memory, n)))
        values = self.q(states).gather(1, actions)
        with torch.no_grad():
            goals = rewards + 0.9 * self.q(following).amax(1)
        loss = nn.functional.smooth_l1_loss(values.squeeze(1), goals)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
agent = Agent()
for _ in range(40):
    agent.remember(torch.randn(4), random.randrange(3), random.random(), torch.randn(4))
for _ in range(3):
    agent.learn()
""",
        repair=((".gather(1, actions)", ".gather(1, actions.unsqueeze(1))"),),
        line=("values = self.q(states).gather(1, actions)", "self.memory.append((state, torch.tensor(action)"),
        says=("actions", "unsqueeze|[:, none]|view(-1, 1)|reshape(-1, 1)"),
    ),
    crash(
        "subset_indices_from_linspace",
        "frames are chosen by torch.linspace, whose numbers are floating point",
        kind="indices",
        style="lightning_like",
        source="discuss.pytorch.org, tensors used as indices must be long, int, byte or bool tensors",
        program="""
import torch
from torch import nn


class FrameSampler:
    def __init__(self, n_frames):
        self.n_frames = n_frames

    def __call__(self, length):
        return torch.linspace(0, length - 1, self.n_frames)


class VideoModule(nn.Module):
    def __init__(self, n_frames=4):
        super().__init__()
        self.sampler = FrameSampler(n_frames)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(n_frames * 10, 2))

    def training_step(self, batch):
        clips, labels = batch
        chosen = self.sampler(clips.size(1))
        return nn.functional.cross_entropy(self.net(clips[:, chosen]), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
module = VideoModule()
optimizer = module.configure_optimizers()
for _ in range(3):
    optimizer.zero_grad()
    module.training_step((torch.rand(3, 30, 10), torch.randint(2, (3,)))).backward()
    optimizer.step()
""",
        repair=(
            ("torch.linspace(0, length - 1, self.n_frames)", "torch.linspace(0, length - 1, self.n_frames).long()"),
        ),
        line=(
            "return torch.linspace(0, length - 1, self.n_frames)",
            "self.net(clips[:, chosen])",
            "chosen = self.sampler(clips.size(1))",
        ),
        says=("chosen|linspace", "float", "long()|torch.long|int64|int()"),
    ),
)
