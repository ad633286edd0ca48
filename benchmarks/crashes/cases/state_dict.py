"""Crashes: state dicts whose keys or sizes do not fit."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "checkpoint_of_data_parallel",
        "the keys of a checkpoint have the prefix module.",
        kind="state_dict",
        style="script",
        source="Stack Overflow, Missing keys & unexpected keys in state_dict, DataParallel",
        program="""
import io

import torch
from torch import nn

torch.manual_seed(0)
trained = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
file = io.BytesIO()
torch.save(trained.state_dict(), file)
file.seek(0)

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
state = torch.load(file)
model.load_state_dict(state)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(9, 4)), torch.randint(2, (9,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            ("state = torch.load(file)", 'state = {k.removeprefix("module."): v for k, v in torch.load(file).items()}'),
        ),
        line=("state = torch.load(file)", "model.load_state_dict(state)", "torch.save(trained.state_dict(), file)"),
        says=("module.", "prefix"),
    ),
    crash(
        "renamed_layer",
        "a layer was renamed since the checkpoint was written",
        kind="state_dict",
        style="trainer",
        source="discuss.pytorch.org, Missing key(s) in state_dict",
        program="""
import torch
from torch import nn


class OldNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        return self.classifier(torch.relu(self.conv(x)).amax(dim=(2, 3)))


class Trainer:
    def __init__(self, checkpoint):
        self.model = Net()
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
weights = OldNet().state_dict()
trainer = Trainer({"model": weights})
for _ in range(3):
    trainer.step(torch.rand(5, 1, 8, 8), torch.randint(3, (5,)))
""",
        repair=(
            (
                "weights = OldNet().state_dict()",
                'weights = {k.replace("fc.", "classifier."): v for k, v in OldNet().state_dict().items()}',
            ),
        ),
        line=("weights = OldNet().state_dict()", "self.classifier = nn.Linear(4, 3)", "self.model.load_state_dict("),
        says=(
            "fc",
            "classifier",
            "renam|map|->|→|replace|same size|same shape",
        ),
    ),
    crash(
        "whole_checkpoint_loaded",
        "the whole checkpoint is loaded instead of the weights in it",
        kind="state_dict",
        style="functional",
        source="Stack Overflow, Unexpected key(s) in state_dict: epoch, model_state_dict",
        program="""
import io

import torch
from torch import nn


def save(model, optimizer, epoch):
    file = io.BytesIO()
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    return file.getvalue()


def resume(model, data):
    checkpoint = torch.load(io.BytesIO(data))
    model.load_state_dict(checkpoint)
    return checkpoint["epoch"]


def train(model, epochs):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        x = torch.randn(10, 3)
        loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return optimizer


torch.manual_seed(0)
first = nn.Linear(3, 1)
data = save(first, train(first, 2), epoch=2)
second = nn.Linear(3, 1)
train(second, 4 - resume(second, data))
""",
        repair=(("load_state_dict(checkpoint)", 'load_state_dict(checkpoint["model"])'),),
        says=("[\"model\"]|['model']|inside|nested|whole checkpoint|under ",),
    ),
    crash(
        "optimizer_state_of_other_model",
        "the state of an optimizer is loaded after the head was frozen",
        kind="state_dict",
        style="typed",
        source="GitHub issue, loaded state dict contains a parameter group that doesn't match the size",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Stage:
    lr: float
    steps: int = 2
    train_body: bool = True


def parameters(model: nn.Sequential, stage: Stage) -> list[nn.Parameter]:
    layers = model if stage.train_body else model[2:]
    return list(layers.parameters())


def run(model: nn.Sequential, stage: Stage, state: dict[str, object] | None) -> dict[str, object]:
    optimizer = torch.optim.Adam(parameters(model, stage), lr=stage.lr)
    if state is not None:
        optimizer.load_state_dict(state)
    for _ in range(stage.steps):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return optimizer.state_dict()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
state = run(model, Stage(lr=1e-2, train_body=False), None)
run(model, Stage(lr=1e-3), state)
""",
        repair=(("run(model, Stage(lr=1e-3), state)", "run(model, Stage(lr=1e-3), None)"),),
        line=("run(model, Stage(lr=1e-3), state)", "optimizer.load_state_dict(state)", "train_body=False), None)"),
        says=("optimizer", "parameter", "2", "4"),
    ),
)
