"""Crashes: calls with wrong arguments, states that do not fit, optimizers and schedulers used otherwise."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "resume_gives_whole_checkpoint",
        "the checkpoint holds the state under a key of its own and is given to the model as a whole",
        kind="calls",
        style="trainer",
        source="Stack Overflow, Missing key(s) in state_dict, Unexpected key(s): epoch, model_state_dict",
        program="""
import os
import tempfile

import torch
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))


class Trainer:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.pt")
        self.model = make_model()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.epoch = 0

    def save(self):
        torch.save({"epoch": self.epoch, "model_state_dict": self.model.state_dict()}, self.path)

    def resume(self):
        checkpoint = torch.load(self.path)
        self.model.load_state_dict(checkpoint)

    def train(self, epochs):
        for _ in range(epochs):
            x = torch.randn(20, 6)
            loss = nn.functional.mse_loss(self.model(x), x[:, :1])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.epoch += 1


torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    first = Trainer(folder)
    first.train(2)
    first.save()
    second = Trainer(folder)
    second.resume()
    second.train(2)
""",
        repair=(
            ("self.model.load_state_dict(checkpoint)", 'self.model.load_state_dict(checkpoint["model_state_dict"])'),
        ),
        line=("self.model.load_state_dict(checkpoint)", "checkpoint = torch.load(self.path)"),
        says=("model_state_dict", "model_state_dict\"]|model_state_dict']|under|nested|inside|holds|whole|wrapped"),
    ),
    crash(
        "one_cycle_of_epochs_stepped_per_batch",
        "the one-cycle schedule has as many steps as epochs and is stepped after each batch",
        kind="calls",
        style="script",
        source="discuss.pytorch.org, OneCycleLR, Tried to step more times than the total number of steps",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 6
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 10), torch.randint(0, 3, (80,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=EPOCHS)

for epoch in range(EPOCHS):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.item()
    print(epoch, running / len(loader))
""",
        repair=(("total_steps=EPOCHS)", "total_steps=EPOCHS * len(loader))"),),
        line=(
            "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=EPOCHS)",
            "scheduler.step()",
        ),
        says=("total_steps|steps_per_epoch", "len(loader)|30|batch|per epoch|each epoch"),
    ),
)
