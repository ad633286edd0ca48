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
        says=("nan", "std|deviation"),
    ),
)
