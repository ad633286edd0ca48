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
    crash(
        "embedding_row_zeroed",
        "the row of the padding is set to zero outside no_grad",
        kind="leaf_inplace",
        style="typed",
        source="discuss.pytorch.org, zero one row of an embedding",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class TextConfig:
    vocab: int = 25
    dim: int = 8
    padding: int = 0


class MeanEmbedding(nn.Module):
    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(config.vocab, config.dim))
        self.table[config.padding].zero_()
        self.head = nn.Linear(config.dim, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table[tokens].mean(dim=1))


torch.manual_seed(0)
model = MeanEmbedding(TextConfig())
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randint(25, (8, 5))), torch.randint(2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.table[config.padding].zero_()", "self.table.data[config.padding].zero_()"),),
        says=("table", "no_grad|.data|init"),
    ),
)
