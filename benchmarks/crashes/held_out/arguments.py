"""Crashes: missing, extra and unknown arguments."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "two_inputs_to_sequential",
        "a Sequential is given two inputs",
        kind="arguments",
        style="script",
        source="Stack Overflow, forward() takes 2 positional arguments but 3 were given",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    user, item = torch.randn(20, 3), torch.randn(20, 3)
    rating = (user * item).sum(1, keepdim=True)
    prediction = model(user, item)
    loss = nn.functional.mse_loss(prediction, rating)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("model(user, item)", "model(torch.cat([user, item], dim=1))"),),
        says=("sequential", "cat|one input|one argument|argument"),
    ),
)
