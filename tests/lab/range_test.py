"""Notebooks with a range test, and what its page shows."""

from __future__ import annotations

from typing import Any

from tests.lab.lab_page import LabPage

SETUP = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug


class Net(nn.Sequential):
    pause = 0.0

    def forward(self, x):
        time.sleep(self.pause)
        return super().forward(x)


torch.manual_seed(0)
x = torch.randn(256, 8)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=32, shuffle=True)
model = Net(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
"""
RANGE_TEST = "result = dbg.lr_range(steps=60, seeds=2)"
PRINT_RATE = "print(optimizer.param_groups[0]['lr'], dbg.log)"


def rate_handle(lab: LabPage) -> Any:
    """The slider that selects a learning rate on the chart."""
    return lab.output(1).get_by_role("slider", name="learning rate to read")


def use_button(lab: LabPage) -> Any:
    """The button that sets the learning rate of the optimizer."""
    return lab.output(1).locator(".nb-use")


def kernel_rate(lab: LabPage) -> str:
    """The learning rate of the optimizer and the log of the debugger in the kernel."""
    lab.run_cells(2)
    return str(lab.output(2).inner_text())
