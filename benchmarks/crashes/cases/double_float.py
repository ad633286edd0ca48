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
)
