"""Test of a cell that raises in JupyterLab: the block under it, its explanation, and the fix pasted into the cell."""

from __future__ import annotations

from tests.lab.charts import STATIC_FORMATS
from tests.lab.lab_page import OpenNotebook

SETUP = """
%load_ext nbdebug
import torch
from torch import nn

x, y = torch.randn(16, 1, 8, 8), torch.arange(16) % 3
"""
CRASH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(256, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))

net = Net()
loss = nn.functional.cross_entropy(net(x), y)
loss.backward()
print("the loss is finite:", loss.isfinite().item())
"""
LINE_AT_FAULT = "self.fc = nn.Linear(256, 3)"


def test_fix_of_crash_pasted_into_cell_makes_it_run(open_notebook: OpenNotebook) -> None:
    with open_notebook(SETUP, CRASH, "%why") as lab:
        lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        lab.run_cells(0, 1)
        block = lab.output(1).locator("pre", has_text="nbdebug X1001")
        block.wait_for()
        assert block.count() == 1
        text = lab.output(1).inner_text()
        assert text.index("RuntimeError") < text.index("nbdebug X1001")
        assert "self.fc = nn.Linear(144, 3)" in block.inner_text()

        lab.run_cells(2)
        page = lab.output(2).locator(".nbdebug")
        page.locator(".nb-raised").wait_for()
        assert "float32 [16, 144]" in page.locator(".nb-raised").inner_text()
        assert page.locator("path.nb-broken").count() == 2
        assert lab.display_formats(2) == STATIC_FORMATS
        page.get_by_role("button", name="Copy: fix").click()
        page.get_by_text("Copied").wait_for()

        lab.cell(1).locator(".cm-line", has_text=LINE_AT_FAULT).click()
        for key in ("End", "Shift+Home", "Control+V"):
            lab.page.keyboard.press(key)
        assert "        self.fc = nn.Linear(144, 3)" in lab.cell(1).locator(".cm-content").inner_text()
        lab.run_cells(1)
        assert lab.output(1).inner_text().strip() == "the loss is finite: True"
