"""Crashes: last batches that are smaller."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "view_with_fixed_batch",
        "a view with the batch size of the configuration",
        kind="last_batch",
        style="typed",
        source="discuss.pytorch.org, shape is invalid for input of size, last batch",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    batch_size: int = 12
    frames: int = 5
    n_classes: int = 3


class FrameNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.frame = nn.Linear(7, 10)
        self.head = nn.Linear(10 * config.frames, config.n_classes)

    def forward(self, video: Tensor) -> Tensor:
        x = torch.relu(self.frame(video.flatten(0, 1)))
        x = x.view(self.config.batch_size, 10 * self.config.frames)
        return self.head(x)


torch.manual_seed(0)
config = Config()
data = TensorDataset(torch.randn(30, config.frames, 7), torch.randint(3, (30,)))
model = FrameNet(config)
optimizer = torch.optim.Adam(model.parameters())
for video, label in DataLoader(data, batch_size=config.batch_size):
    loss = nn.functional.cross_entropy(model(video), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("x.view(self.config.batch_size,", "x.view(-1,"),),
        line=("x.view(self.config.batch_size,", "DataLoader(data, batch_size=config.batch_size)"),
        says=("12", "6", "batch"),
    ),
    crash(
        "real_labels_of_full_batch",
        "the labels of real and fake images are made once for the full batch",
        kind="last_batch",
        style="trainer",
        source="Stack Overflow, DCGAN target size must be the same as input size",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Discriminate:
    def __init__(self, batch_size):
        self.net = nn.Sequential(nn.Linear(6, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.real_label = torch.ones(batch_size, 1)
        self.fake_label = torch.zeros(batch_size, 1)

    def step(self, real):
        fake = torch.rand_like(real)
        loss = self.criterion(self.net(real), self.real_label) + self.criterion(self.net(fake), self.fake_label)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Discriminate(batch_size=20)
for real in DataLoader(torch.randn(50, 6), batch_size=20):
    trainer.step(real)
""",
        repair=(("torch.randn(50, 6), batch_size=20)", "torch.randn(50, 6), batch_size=20, drop_last=True)"),),
        line=(
            "torch.randn(50, 6), batch_size=20)",
            "self.real_label = torch.ones(",
            "self.criterion(self.net(real), self.real_label)",
        ),
        says=("20", "10", "batch"),
    ),
    crash(
        "memory_bank_slots",
        "the last batch is smaller than the slots of the memory bank",
        kind="last_batch",
        style="custom_parts",
        source="GitHub issue, MoCo queue and drop_last",
        program="""
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader


class Bank:
    def __init__(self, size, dim, slots):
        self.items = normalize(torch.randn(size, dim), dim=1)
        self.slots, self.place = slots, 0

    def push(self, keys):
        self.items[self.place : self.place + self.slots] = keys
        self.place = (self.place + self.slots) % len(self.items)


torch.manual_seed(0)
encoder = nn.Linear(8, 4)
bank = Bank(size=48, dim=4, slots=16)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for x in DataLoader(torch.randn(40, 8), batch_size=16):
    query = normalize(encoder(x), dim=1)
    key = normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1).detach()
    logits = torch.cat([(query * key).sum(1, keepdim=True), query @ bank.items.clone().T], dim=1)
    loss = nn.functional.cross_entropy(logits / 0.1, torch.zeros(len(x), dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bank.push(key)
""",
        repair=(("torch.randn(40, 8), batch_size=16)", "torch.randn(40, 8), batch_size=16, drop_last=True)"),),
        line=("torch.randn(40, 8), batch_size=16)", "self.items[self.place : self.place + self.slots] = keys"),
        says=("16", "8", "batch"),
    ),
)
