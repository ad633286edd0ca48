"""Crashes: last batches that are smaller."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "state_of_full_batch",
        "the state is made for the full batch, the last batch is smaller",
        kind="last_batch",
        style="script",
        source="Stack Overflow, Expected hidden size (1, 32, 16), got (1, 8, 16)",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
batch_size, hidden_size = 16, 12
data = TensorDataset(torch.randn(40, 9, 3), torch.randn(40, 1))
loader = DataLoader(data, batch_size=batch_size)
gru = nn.GRU(3, hidden_size, batch_first=True)
head = nn.Linear(hidden_size, 1)
optimizer = torch.optim.Adam([*gru.parameters(), *head.parameters()], lr=0.01)
for x, y in loader:
    h0 = torch.zeros(1, batch_size, hidden_size)
    _, last = gru(x, h0)
    loss = nn.functional.mse_loss(head(last[0]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.zeros(1, batch_size, hidden_size)", "torch.zeros(1, x.shape[0], hidden_size)"),),
        line=(
            "torch.zeros(1, batch_size, hidden_size)",
            "loader = DataLoader(data, batch_size=batch_size)",
            "_, last = gru(x, h0)",
        ),
        says=("16", "8", "batch"),
    ),
)
