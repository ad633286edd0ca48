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
        says=(
            "sequential",
            "cat(|one input|single input|concat|user|item",
        ),
    ),
    crash(
        "super_not_called",
        "the constructor of the module does not call that of nn.Module",
        kind="arguments",
        style="custom_parts",
        source="Stack Overflow, cannot assign module before Module.__init__() call",
        program="""
import torch
from torch import nn


class Scaler(nn.Module):
    def __init__(self, n):
        self.layer = nn.Linear(n, n)
        self.gain = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return self.layer(x) * self.gain


torch.manual_seed(0)
model = nn.Sequential(Scaler(5), nn.ReLU(), nn.Linear(5, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(10, 5)
    loss = nn.functional.mse_loss(model(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "        self.layer = nn.Linear(n, n)\n",
                "        super().__init__()\n        self.layer = nn.Linear(n, n)\n",
            ),
        ),
        line=("self.layer = nn.Linear(n, n)", "def __init__(self, n)"),
        says=("super().__init__|super()",),
    ),
    crash(
        "recurrent_cell_state",
        "an LSTM gets one state instead of the pair of them",
        kind="arguments",
        style="reshape_by_hand",
        source="discuss.pytorch.org, LSTM hidden state must be a tuple",
        program="""
import torch
from torch import nn


class SkillEncoder(nn.Module):
    def __init__(self, width=6, hidden=10):
        super().__init__()
        self.hidden = hidden
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 3)

    def forward(self, plays):
        b, games, steps, w = plays.shape
        state = torch.zeros(2, b * games, self.hidden)
        out, _ = self.lstm(plays.reshape(b * games, steps, w), state)
        return self.head(out[:, -1]).reshape(b, games, 3).mean(1)


torch.manual_seed(0)
model = SkillEncoder()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 7, 6)), torch.randint(3, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("steps, w), state)", "steps, w), (state, state.clone()))"),),
        line=("steps, w), state)", "state = torch.zeros(2, b * games, self.hidden)"),
        says=("lstm", "pair|tuple|two|cell|(h|2"),
    ),
)
