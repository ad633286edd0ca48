"""Crashes: anomaly mode that stops at values that are not finite."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "std_of_one_value",
        "the standard deviation of one value",
        kind="anomaly",
        style="trainer",
        source="discuss.pytorch.org, Function 'StdBackward0' returned nan values",
        program="""
import torch
from torch import nn


class GroupTrainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def spread(self, scores, groups):
        spreads = [scores[groups == group].std() for group in groups.unique()]
        return torch.stack(spreads).nansum()

    def step(self, x, groups):
        scores = self.model(x).squeeze(1)
        loss = scores.pow(2).mean() + 0.1 * self.spread(scores, groups)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
torch.autograd.set_detect_anomaly(True)
trainer = GroupTrainer()
for _ in range(3):
    trainer.step(torch.randn(7, 5), torch.tensor([0, 0, 0, 1, 1, 1, 2]))
""",
        repair=(("scores[groups == group].std()", "scores[groups == group].var(correction=0)"),),
        line=("scores[groups == group].std()", "torch.tensor([0, 0, 0, 1, 1, 1, 2])"),
        says=(
            "nan",
            "std|deviation",
            "one value|single|one element|1 element|only one|one sample|1 value|group",
        ),
    ),
    crash(
        "log_of_probability",
        "the logarithm of a probability that is exactly zero",
        kind="anomaly",
        style="functional",
        source="Stack Overflow, Function 'LogBackward0' / 'MulBackward0' returned nan values",
        program="""
import torch
from torch import nn


def entropy(probabilities):
    return -(probabilities * torch.log(probabilities)).sum(dim=1).mean()


def confident_loss(model, x, y):
    probabilities = torch.softmax(1000 * model(x), dim=1)
    return nn.functional.cross_entropy(model(x), y) + 0.01 * entropy(probabilities)


torch.manual_seed(0)
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.autograd.detect_anomaly():
    for _ in range(3):
        loss = confident_loss(model, torch.randn(40, 5), torch.randint(3, (40,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        repair=(("torch.log(probabilities)", "torch.log(probabilities.clamp(min=1e-9))"),),
        line=("torch.log(probabilities)", "torch.softmax(1000 * model(x), dim=1)"),
        says=(
            "nan|finite",
            "log",
            "zero|clamp|eps|probabilit",
        ),
    ),
)
