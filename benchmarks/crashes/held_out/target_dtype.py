"""Crashes: targets whose dtype the loss does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "binary_targets_integer",
        "the binary loss gets integer targets",
        kind="target_dtype",
        style="trainer",
        source="discuss.pytorch.org, BCEWithLogitsLoss result type Float can't be cast to Long",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BinaryTrainer:
    def __init__(self, model, lr=0.01):
        self.model = model
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train(self, loader, epochs=2):
        for _ in range(epochs):
            for x, y in loader:
                logits = self.model(x).squeeze(1)
                loss = self.criterion(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


torch.manual_seed(0)
x = torch.randn(80, 6)
y = (x[:, 0] + x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
BinaryTrainer(nn.Linear(6, 1)).train(loader)
""",
        repair=(("self.criterion(logits, y)", "self.criterion(logits, y.float())"),),
        line=("self.criterion(logits, y)", "y = (x[:, 0] + x[:, 1] > 0).long()"),
        says=(
            "long|int64|integer",
            "target|label|.float()|float32|`y`",
        ),
    ),
    crash(
        "one_hot_integer_targets",
        "one-hot targets of integers for the cross entropy",
        kind="target_dtype",
        style="lightning_like",
        source="Stack Overflow, Expected floating point type for target with class probabilities",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        target = F.one_hot(y, num_classes=10)
        return F.cross_entropy(self(x), target)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Digits()
optimizer = module.configure_optimizers()
for i in range(3):
    loss = module.training_step((torch.rand(12, 8, 8), torch.randint(10, (12,))), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("F.one_hot(y, num_classes=10)", "F.one_hot(y, num_classes=10).float()"),),
        line=("F.one_hot(y, num_classes=10)", "F.cross_entropy(self(x), target)"),
        says=("one_hot|one-hot|class ind|class num|.float()|float32",),
    ),
)
