"""Crashes: leaves changed in place."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "bias_of_forget_gate",
        "the bias of the forget gate is filled in the constructor",
        kind="leaf_inplace",
        style="hand_written_model",
        source="discuss.pytorch.org, initialize the forget gate bias",
        program="""
import torch
from torch import nn


class PeakDetector(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.lstm.bias_ih_l0[hidden : 2 * hidden] = 1.0
        self.head = nn.Linear(hidden, 2)

    def forward(self, signal):
        states, _ = self.lstm(signal.unsqueeze(-1))
        return self.head(states.amax(dim=1))


torch.manual_seed(0)
model = PeakDetector()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    signal = torch.randn(8, 25)
    loss = nn.functional.cross_entropy(model(signal), (signal.amax(1) > 2).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "        self.lstm.bias_ih_l0[hidden : 2 * hidden] = 1.0\n",
                "        with torch.no_grad():\n            self.lstm.bias_ih_l0[hidden : 2 * hidden] = 1.0\n",
            ),
        ),
        line=("self.lstm.bias_ih_l0[hidden : 2 * hidden] = 1.0",),
        says=("no_grad|.data|init", "bias_ih_l0"),
    ),
)
