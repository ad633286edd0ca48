"""Test of the keys of the summary table in JupyterLab."""

from __future__ import annotations

import pytest

from tests.lab.charts import STATIC_FORMATS
from tests.lab.lab_page import OpenNotebook

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
FOCUSED_ROW = "document.activeElement.querySelector('.nb-name b')?.textContent"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_keys_move_through_summary_and_keep_focus_of_notebook(open_notebook: OpenNotebook, theme: str) -> None:
    with open_notebook(SETUP, "1 + 1", theme=theme) as lab:
        lab.run_cells(0)
        grid = lab.output(0).locator(".nb-grid")
        grid.wait_for()
        lab.page.locator(".nb-row").first.focus()
        focus = lab.focus_state()
        for key, name in [("ArrowDown", "0"), ("ArrowDown", "1"), ("ArrowDown", "2"), ("Enter", "2")]:
            lab.page.keyboard.press(key)
            assert lab.page.evaluate(FOCUSED_ROW) == name
        assert "O503" in grid.locator(".nb-told").inner_text()
        assert lab.focus_state() == focus
        lab.page.get_by_role("searchbox").fill("relu")
        assert grid.locator(".nb-row").count() == 2
        assert [set(output["data"]) for output in lab.outputs(0)[1:]] == STATIC_FORMATS
