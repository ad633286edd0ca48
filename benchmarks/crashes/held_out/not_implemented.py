"""Crashes: modules without a forward of their own."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "misspelled_forward",
        "forward is misspelled",
        kind="not_implemented",
        style="script",
        source="Stack Overflow, NotImplementedError: Module is missing the required forward function",
        program="""
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 3)

    def foward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


net = Net()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(10, 4)), torch.randint(3, (10,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("def foward(self, x)", "def forward(self, x)"),),
        says=("forward", "foward"),
    ),
    crash(
        "forward_inside_constructor",
        "forward is indented into the constructor",
        kind="not_implemented",
        style="trainer",
        source="discuss.pytorch.org, forward indented wrongly",
        program="""
import torch
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.encode = nn.Linear(n, 3)
        self.decode = nn.Linear(3, n)

        def forward(self, x):
            return self.decode(torch.tanh(self.encode(x)))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def fit(self, x, epochs):
        for _ in range(epochs):
            loss = nn.functional.mse_loss(self.model(x), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(AutoEncoder(9)).fit(torch.randn(30, 9), 3)
""",
        repair=(
            (
                "        def forward(self, x):\n            return self.decode(torch.tanh(self.encode(x)))\n",
                "    def forward(self, x):\n        return self.decode(torch.tanh(self.encode(x)))\n",
            ),
        ),
        says=("forward", "indent|__init__|inside"),
    ),
    crash(
        "dataset_getitem_misspelled",
        "the data set has no __getitem__",
        kind="not_implemented",
        style="custom_parts",
        source="discuss.pytorch.org, Subclasses of Dataset should implement __getitem__",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, n):
        self.x = torch.linspace(-1, 1, n).unsqueeze(1)

    def __len__(self):
        return len(self.x)

    def __get_item__(self, i):
        return self.x[i], self.x[i] ** 2


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for x, y in DataLoader(Squares(40), batch_size=10, shuffle=True):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("__get_item__", "__getitem__"),),
        says=(
            "__getitem__",
            "__get_item__|squares|misspel",
        ),
    ),
)
