"""Crashes: states that do not fit what they are loaded into, and copies that cannot be made."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "saved_from_data_parallel",
        "the state was saved from a wrapper, and its keys begin with module.",
        kind="saved_state",
        style="script",
        source="Stack Overflow, Missing key(s) in state_dict, module. prefix of DataParallel",
        program="""
import io

import torch
from torch import nn


def make_net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


class Wrapped(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(torch.randn(9, 4)), torch.randint(2, (9,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
file = io.BytesIO()
parallel = Wrapped(make_net())
train(parallel, 3)
torch.save(parallel.state_dict(), file)
file.seek(0)
model = make_net()
model.load_state_dict(torch.load(file))
train(model, 2)
""",
        repair=(("torch.save(parallel.state_dict(), file)", "torch.save(parallel.module.state_dict(), file)"),),
        line=("torch.save(parallel.state_dict(), file)", "model.load_state_dict(torch.load(file))"),
        says=("module.", "prefix|strip|removeprefix|replace|.module.state_dict|wrapped|wrapper"),
    ),
    crash(
        "pretrained_head_of_other_size",
        "the pretrained state has a head of other classes, and strict=False does not help",
        kind="saved_state",
        style="trainer",
        source="GitHub issue, size mismatch for head.weight with strict=False",
        program="""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.head = nn.Linear(12, classes)

    def forward(self, x):
        return self.head(self.body(x))


def pretrained():
    return Net(classes=10).state_dict()


class Finetune:
    def __init__(self, classes):
        self.classes = classes
        self.net = Net(classes)
        state = pretrained()
        self.net.load_state_dict(state, strict=False)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self):
        x, y = torch.randn(8, 6), torch.randint(self.classes, (8,))
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.net(x), y).backward()
        self.optimizer.step()


torch.manual_seed(0)
finetune = Finetune(classes=3)
for _ in range(3):
    finetune.step()
""",
        repair=(
            (
                "        state = pretrained()\n",
                '        state = {k: v for k, v in pretrained().items() if not k.startswith("head.")}\n',
            ),
        ),
        line=(
            "        state = pretrained()",
            "self.net.load_state_dict(state, strict=False)",
            "self.net = Net(classes)",
        ),
        says=("head", "10", "3", "strict|remove|drop|delete|pop(|filter|skip|leave out|startswith"),
    ),
    crash(
        "optimizer_state_of_frozen_body",
        "the optimizer was saved while the body was frozen and is loaded into one of all parameters",
        kind="saved_state",
        style="notebook_cells",
        source="discuss.pytorch.org, loaded state dict contains a parameter group that doesn't match the size",
        program="""
import torch
from torch import nn


def step(model, optimizer):
    loss = nn.functional.mse_loss(model(torch.randn(8, 3)), torch.zeros(8, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
model[0].requires_grad_(False)
# %%
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(3):
    step(model, optimizer)
saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
# %%
model.load_state_dict(saved["model"])
model.requires_grad_(True)
# %%
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
optimizer.load_state_dict(saved["optimizer"])
for _ in range(3):
    step(model, optimizer)
""",
        repair=(('optimizer.load_state_dict(saved["optimizer"])\n', ""),),
        line=(
            'optimizer.load_state_dict(saved["optimizer"])',
            "optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)",
            "if p.requires_grad], lr=1e-3)",
        ),
        says=("2", "4", "parameters"),
    ),
)
