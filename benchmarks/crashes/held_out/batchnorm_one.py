"""Crashes: batch normalization of one value per channel."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "remainder_of_one_sample",
        "the last batch has one sample, and batch normalization needs two",
        kind="batchnorm_one",
        style="trainer",
        source="Stack Overflow, Expected more than 1 value per channel when training",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, data, batch_size):
        self.loader = DataLoader(data, batch_size=batch_size, shuffle=True)
        self.model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self):
        for x, y in self.loader:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(TensorDataset(torch.randn(65, 6), torch.randint(2, (65,))), batch_size=16).fit()
""",
        repair=(("shuffle=True)", "shuffle=True, drop_last=True)"),),
        line=("shuffle=True)", "batch_size=16).fit()", "self.model(x), y)"),
        says=("drop_last|batch size|batch_size|eval", "batch"),
    ),
    crash(
        "pretraining_single_step",
        "a step of pre-training with one sample per step",
        kind="batchnorm_one",
        style="lightning_like",
        source="discuss.pytorch.org, batch size 1 with BatchNorm1d",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(10, 16)
        self.projector = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.projector(torch.relu(self.encoder(x)))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        return nn.functional.mse_loss(self(x), self(x + 0.1 * torch.randn_like(x)))

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.randn(24, 10)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Projector()
optimizer = module.configure_optimizers()
for i, batch in enumerate(module.train_dataloader()):
    loss = module.training_step(batch, i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "DataLoader(TensorDataset(torch.randn(24, 10)))",
                "DataLoader(TensorDataset(torch.randn(24, 10)), batch_size=8)",
            ),
        ),
        line=("DataLoader(TensorDataset(torch.randn(24, 10)))", "nn.BatchNorm1d(8)", "nn.functional.mse_loss(self(x)"),
        says=("batch", "projector", "1"),
    ),
)
