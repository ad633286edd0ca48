"""Test of the page of a data profile in JupyterLab, while it reads and when it is complete."""

from __future__ import annotations

import pytest

from tests.lab.lab_page import OpenNotebook

SETUP = """
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug


class Images(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(0.002)
        return (self.x[index] - 0.5) / 0.5, self.y[index]


loaded = load_digits()
x, y = torch.tensor(loaded.images / 16, dtype=torch.float32)[:, None], torch.tensor(loaded.target)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
x, y = x[order], y[order]
train_x, train_y, val_x, val_y = x[:1200].clone(), y[:1200].clone(), x[1200:].clone(), y[1200:].clone()
val_x[:6], val_y[:6] = train_x[:6], train_y[:6]
val_x[10:30], val_y[10:30] = train_x[10:30] * 0.8 + 0.05, train_y[10:30]
train_y[100:180] = (train_y[100:180] + 1 + torch.arange(80) % 9) % 10
loaders = DataLoader(Images(train_x, train_y), 32, shuffle=True, num_workers=2), DataLoader(Images(val_x, val_y), 32)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
dbg = nbdebug.Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss())
"""


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 700)])
def test_data_page_grows_and_its_tabs_show_samples(open_notebook: OpenNotebook, theme: str, width: int) -> None:
    with open_notebook(SETUP, "%load_ext nbdebug\n%data dbg", theme=theme, size=(width, 1000)) as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        output = lab.output(1)
        output.locator(".nb-stop").wait_for(timeout=30_000)
        output.locator(".nb-row").first.wait_for(timeout=30_000)
        lab.wait_idle()
        output.locator(".nb-d-tabs .nb-tab", has_text="Checks").wait_for()
        for name, selector in [
            ("Samples", ".nb-d-card img"),
            ("Drift", ".nb-row"),
            ("Duplicates", ".nb-d-card img"),
            ("Labels", ".nb-d-card img"),
            ("Checks", ".nb-mark"),
            ("Splits", ".nb-row"),
        ]:
            output.locator(".nb-d-tabs .nb-tab", has_text=name).click()
            output.locator(selector).first.wait_for()
        page = output.locator(".nb-d-content")
        assert page.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
        assert "exact duplicates of validation in training" in output.inner_text()
        assert "labels look wrong" in output.inner_text()
