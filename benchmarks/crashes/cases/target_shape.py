"""Crashes: targets whose shape the loss does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "column_of_class_targets",
        "class numbers come as a column",
        kind="target_shape",
        style="script",
        source="Stack Overflow, 0D or 1D target tensor expected, multi-target not supported",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
X = torch.randn(60, 4)
y = torch.randint(0, 3, (60, 1))
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    outputs = model(X)
    loss = criterion(outputs, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("criterion(outputs, y)", "criterion(outputs, y.squeeze(1))"),),
        line=("criterion(outputs, y)", "torch.randint(0, 3, (60, 1))"),
        says=("squeeze", "60"),
    ),
    crash(
        "binary_output_column",
        "the output is a column, the targets are not",
        kind="target_shape",
        style="notebook_cells",
        source="Stack Overflow, Target size must be the same as input size",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(128, 8)
y = (X.sum(dim=1) > 0).float()
# %%
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# %%
for i in range(0, 128, 32):
    xb, yb = X[i : i + 32], y[i : i + 32]
    pred = model(xb)
    loss = criterion(pred, yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("pred = model(xb)", "pred = model(xb).squeeze(1)"),),
        line=("pred = model(xb)", "loss = criterion(pred, yb)", "y = (X.sum(dim=1) > 0).float()"),
        says=("squeeze", "32"),
    ),
    crash(
        "tagger_classes_last",
        "the classes of a tagger stand last, the loss wants them second",
        kind="target_shape",
        style="hand_written_model",
        source="discuss.pytorch.org, Expected target size [4, 3], got [4, 7]",
        program="""
import torch
from torch import nn


class GRUTagger(nn.Module):
    def __init__(self, vocab=70, dim=16, hidden=24, tags=9):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.tag = nn.Linear(hidden, tags)

    def forward(self, words):
        states, _ = self.gru(self.embed(words))
        return self.tag(states)


torch.manual_seed(0)
model = GRUTagger()
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    words, tags = torch.randint(70, (6, 14)), torch.randint(9, (6, 14))
    scores = model(words)
    loss = loss_function(scores, tags)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("loss_function(scores, tags)", "loss_function(scores.transpose(1, 2), tags)"),),
        line=("loss_function(scores, tags)", "return self.tag(states)"),
        says=("transpose|permute|flatten|second", "9", "14"),
    ),
)
