"""Crashes: class labels that the output does not have."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "labels_from_one",
        "classes are numbered from 1",
        kind="label_range",
        style="script",
        source="Stack Overflow, Target 3 is out of bounds",
        program="""
import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(1)
X = rng.normal(size=(90, 4)).astype(np.float32)
y = rng.integers(1, 4, size=90)

X, y = torch.from_numpy(X), torch.from_numpy(y)
model = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(5):
    outputs = model(X)
    loss = criterion(outputs, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.from_numpy(y)", "torch.from_numpy(y) - 1"),),
        line=("torch.from_numpy(y)", "rng.integers(1, 4, size=90)", "loss = criterion(outputs, y)", "nn.Linear(10, 3)"),
        says=("3", "label|target|class", "0"),
    ),
    crash(
        "one_output_two_classes",
        "two classes, but one output for the cross entropy",
        kind="label_range",
        style="lightning_like",
        source="Stack Overflow, Target 1 is out of bounds",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class SpamFilter(nn.Module):
    def __init__(self, n_words=40, hidden=12):
        super().__init__()
        self.hidden = nn.Linear(n_words, hidden)
        self.output = nn.Linear(hidden, 1)

    def forward(self, counts):
        return self.output(torch.tanh(self.hidden(counts)))

    def training_step(self, batch, batch_idx):
        counts, is_spam = batch
        return F.cross_entropy(self(counts), is_spam)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


torch.manual_seed(0)
module = SpamFilter()
optimizer = module.configure_optimizers()
for i in range(4):
    batch = torch.poisson(torch.ones(10, 40)), torch.arange(10) % 2
    loss = module.training_step(batch, i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Linear(hidden, 1)", "nn.Linear(hidden, 2)"),),
        line=("nn.Linear(hidden, 1)", "F.cross_entropy(self(counts), is_spam)"),
        says=("1", "2|binary_cross_entropy", "output"),
    ),
    crash(
        "classes_counted_in_subset",
        "the number of classes was counted as the number of distinct labels",
        kind="label_range",
        style="functional",
        source="discuss.pytorch.org, labels with gaps",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def make_data(n):
    torch.manual_seed(0)
    digits = torch.tensor([0, 1, 2, 5, 7, 9])[torch.randint(6, (n,))]
    return torch.randn(n, 10) + F.one_hot(digits, 10) * 2, digits


def make_model(n_classes):
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, n_classes))


def train(x, y, steps=3):
    model = make_model(n_classes=len(set(y.tolist())))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        log_probabilities = F.log_softmax(model(x), dim=1)
        loss = F.nll_loss(log_probabilities, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


train(*make_data(80))
""",
        repair=(("n_classes=len(set(y.tolist()))", "n_classes=int(y.max()) + 1"),),
        line=("n_classes=len(set(y.tolist()))", "loss = F.nll_loss(log_probabilities, y)", "nn.Linear(32, n_classes)"),
        says=("6", "7|9", "label|class|target"),
    ),
    crash(
        "labels_in_target_table_too_few",
        "a target is scattered into a table that has too few columns",
        kind="label_range",
        style="trainer",
        source="GitHub issue, index is out of bounds for dimension 1 in scatter_",
        program="""
import torch
from torch import nn


class SoftTrainer:
    def __init__(self, n_classes):
        self.n_classes = n_classes
        self.model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, n_classes))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def smooth(self, labels, epsilon=0.1):
        table = torch.full((len(labels), self.n_classes), epsilon / self.n_classes)
        return table.scatter_(1, labels.unsqueeze(1), 1 - epsilon)

    def step(self, x, labels):
        log_p = self.model(x).log_softmax(1)
        loss = -(self.smooth(labels) * log_p).sum(1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = SoftTrainer(n_classes=6)
for _ in range(4):
    trainer.step(torch.randn(30, 5), torch.randint(0, 7, (30,)))
""",
        repair=(("SoftTrainer(n_classes=6)", "SoftTrainer(n_classes=7)"),),
        line=(
            "SoftTrainer(n_classes=6)",
            "table.scatter_(1, labels.unsqueeze(1)",
            "torch.randint(0, 7, (30,))",
            "table = torch.full(",
        ),
        says=("6", "label|class|scatter"),
    ),
)
