"""The summary in real JupyterLab, where the notebook wants the same keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lab.server import Lab

SETUP = """
import torch
from torch import nn

import nbdebug

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
loader = [(torch.randn(8, 4), torch.arange(8) % 3)]
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
dbg.checkup()
dbg.summary()
"""
FOCUSED = "document.activeElement.querySelector('.nb-name b')?.textContent"
ACTIVE = "[panel.content.activeCellIndex, panel.content.mode]"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_keys_walk_through_the_table_and_leave_the_notebook_where_it_is(
    jupyter_lab: Lab, notebook: Callable[..., str], theme: str
) -> None:
    with jupyter_lab.open(notebook(SETUP, "1 + 1"), theme) as lab:
        lab.run_cell(0)
        lab.wait_idle()
        grid = lab.output(0).locator(".nb-grid")
        grid.wait_for()
        lab.page.locator(".nb-row").first.focus()
        place: Any = lab.page.evaluate(ACTIVE)
        for key, name in [("ArrowDown", "0"), ("ArrowDown", "1"), ("ArrowDown", "2"), ("Enter", "2")]:
            lab.page.keyboard.press(key)
            assert lab.page.evaluate(FOCUSED) == name
        assert "O503" in grid.locator(".nb-told").inner_text()
        assert lab.page.evaluate(ACTIVE) == place
        lab.page.get_by_role("searchbox").fill("relu")
        assert grid.locator(".nb-row").count() == 2
        assert [set(one["data"]) for one in lab.outputs(0)[1:]] == [{"text/plain", "text/html"}]
