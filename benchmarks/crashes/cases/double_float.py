"""Crashes: float64 from NumPy that meets float32."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "cell_state_double",
        "the first state of a GRU cell is made from a NumPy array",
        kind="double_float",
        style="hand_written_model",
        source="discuss.pytorch.org, RNN hidden state dtype",
        program="""
import numpy as np
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, n_in=3, hidden=16):
        super().__init__()
        self.hidden = hidden
        self.cell = nn.GRUCell(n_in, hidden)
        self.out = nn.Linear(hidden, n_in)

    def forward(self, sequence):
        h = torch.from_numpy(np.zeros((sequence.shape[0], self.hidden)))
        outputs = []
        for t in range(sequence.shape[1]):
            h = self.cell(sequence[:, t], h)
            outputs.append(self.out(h))
        return torch.stack(outputs, dim=1)


torch.manual_seed(0)
series = torch.randn(12, 20, 3).cumsum(1)
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    prediction = model(series[:, :-1])
    loss = nn.functional.l1_loss(prediction, series[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "h = torch.from_numpy(np.zeros((sequence.shape[0], self.hidden)))",
                "h = torch.zeros(sequence.shape[0], self.hidden)",
            ),
        ),
        says=("float64|double", "float32", "cell"),
    ),
    crash(
        "dataset_of_arrays",
        "a data set hands out rows of a float64 array",
        kind="double_float",
        style="custom_parts",
        source="discuss.pytorch.org, custom dataset gives DoubleTensor",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __init__(self, n, length):
        t = np.linspace(0, 1, length)
        self.frequency = np.arange(n) % 5 + 1
        self.signals = np.stack([np.sin(2 * np.pi * f * t) for f in self.frequency])[:, None, :]

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        return self.signals[index], self.frequency[index] - 1


torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(1, 8, 7), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for signals, classes in DataLoader(Signals(40, 50), batch_size=10):
    loss = nn.functional.cross_entropy(model(signals), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return self.signals[index], ", "return self.signals[index].astype(np.float32), "),),
        line=("return self.signals[index], ", "model(signals), classes)", "self.signals = np.stack("),
        says=("float64|double", "float32|float()"),
    ),
    crash(
        "binary_targets_double",
        "the binary targets come from NumPy as float64",
        kind="double_float",
        style="functional",
        source="Stack Overflow, Found dtype Double but expected Float",
        program="""
import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(0)
X = torch.from_numpy(rng.normal(size=(60, 4)).astype(np.float32))
labels = torch.from_numpy((rng.random(60) > 0.5).astype(np.float64))
weight = torch.zeros(4, 1, requires_grad=True)


def score(x):
    return torch.sigmoid(x @ weight).squeeze(1)


optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(4):
    loss = F.binary_cross_entropy(score(X), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("astype(np.float64)", "astype(np.float32)"),),
        line=("astype(np.float64)", "loss = F.binary_cross_entropy(score(X), labels)"),
        says=("float64|double", "float32|float()"),
    ),
)
