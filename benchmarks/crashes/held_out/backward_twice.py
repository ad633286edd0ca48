"""Crashes: backward through a graph that was freed."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "hidden_state_between_batches",
        "the state of the LSTM carries the graph of the last batch",
        kind="backward_twice",
        style="script",
        source="discuss.pytorch.org, LSTM and backward a second time",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
series = torch.sin(torch.arange(0, 60, 0.1)).reshape(-1, 1, 1)
lstm = nn.LSTM(1, 12)
head = nn.Linear(12, 1)
optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=0.01)

state = (torch.zeros(1, 1, 12), torch.zeros(1, 1, 12))
for start in range(0, 500, 100):
    chunk = series[start : start + 101]
    optimizer.zero_grad()
    output, state = lstm(chunk[:-1], state)
    loss = nn.functional.mse_loss(head(output), chunk[1:])
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "    output, state = lstm(chunk[:-1], state)\n",
                "    output, state = lstm(chunk[:-1], tuple(s.detach() for s in state))\n",
            ),
        ),
        line=("output, state = lstm(chunk[:-1], state)",),
        says=("state", "detach"),
    ),
)
