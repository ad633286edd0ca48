"""A JupyterLab server for the whole session, and fixtures that write and open notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest

from tests.browser import skip_browser_test
from tests.lab.lab_page import LabPage, OpenNotebook
from tests.lab.server import LabServer, run_server

SLOW_SETUP = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


class SlowModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        time.sleep(0.02)
        return self.layer(x)


def train(steps):
    for step in range(steps):
        x, y = next(iter(loader))
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.arange(64) % 3), batch_size=8, shuffle=True)
model, loss_fn = SlowModel(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
"""


@pytest.fixture(scope="session")
def jupyter_lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    if find_spec("jupyterlab") is None:
        skip_browser_test("jupyterlab is not installed")
    with run_server(browser, tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def write_notebook(jupyter_lab: LabServer, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Write a notebook with these code cells, and return its file name."""

    return partial(jupyter_lab.write, f"{request.node.name}.ipynb")


@pytest.fixture
def open_notebook(jupyter_lab: LabServer, write_notebook: Callable[..., str]) -> OpenNotebook:
    """Open a notebook with these code cells; keywords are those of ``LabServer.open``."""
    return lambda *sources, **appearance: jupyter_lab.open(write_notebook(*sources), **appearance)


@pytest.fixture
def start_cell(open_notebook: OpenNotebook) -> OpenNotebook:
    """Open a notebook whose first cell has built a slow setup, and start ``source`` as its second cell."""

    @contextmanager
    def start(source: str) -> Iterator[LabPage]:
        with open_notebook(SLOW_SETUP, source) as lab:
            lab.run_cells(0)
            assert lab.outputs(0) == []
            lab.run_cell(1)
            yield lab

    return start
