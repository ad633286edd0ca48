"""Tests of the guide in JupyterLab: steps that clicks run, a run of the user's own loop, and the journal."""

from __future__ import annotations

from pathlib import Path

from tests.lab.lab_page import LabPage, OpenNotebook
from tests.lab.server import LabServer

SETUP = """
import nbdebug, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 8)
train_loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32)
model = nn.Sequential(nn.Linear(8, 2), nn.Softmax(1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = nn.CrossEntropyLoss()
dbg = nbdebug.Debugger(model, train_loader, loss_fn=loss_fn, optimizer=optimizer)
"""
LOOP = """
with dbg.watch():
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
"""


def test_guide_runs_steps_by_clicks_and_goes_on_from_journal(
    open_notebook: OpenNotebook, jupyter_lab: LabServer
) -> None:
    journal = "journal = dbg.journal.open('guide_journal.md')"
    again = "other = nbdebug.Debugger(model, train_loader)\nother.journal.open('guide_journal.md')\nother.guide()"
    with open_notebook(SETUP, "dbg.guide()", LOOP, journal, again, size=(1200, 1400)) as lab:
        lab.run_cells(0, 1)
        run_step_by_click(lab, "Run dbg.summary()")
        lab.output(1).get_by_text("Sequential · 18 parameters").first.wait_for()
        lab.output(1).get_by_role("button", name="Next: checkup").click()
        run_step_by_click(lab, "Run dbg.checkup()")
        lab.output(1).get_by_text("softmax-before-cross-entropy").first.wait_for()
        assert "Values between 0 and 1 differ" in rule_page(lab, "L201")
        assert lab.display_formats(1) == [{"text/html", "text/plain", "image/png"}]  # the tools display nothing

        lab.output(1).get_by_role("button", name="data: open").click()
        lab.output(1).get_by_role("button", name="Skip", exact=True).click()
        lab.output(1).get_by_role("button", name="data: skipped").wait_for()
        lab.output(1).get_by_role("button", name="watch: open").click()
        run_step_by_click(lab, "Read the run")
        lab.output(1).get_by_text("dbg.watch() has no run").wait_for()
        lab.run_cells(2)
        run_step_by_click(lab, "Read the run")
        lab.output(1).get_by_text("8 steps, loss").first.wait_for()

        export = lab.output(1).get_by_role("button", name="Export to the journal")
        export.click()
        lab.output(1).get_by_text("journal is not open").wait_for()
        lab.run_cells(3)
        export.click()
        lab.output(1).get_by_text("Exported to the journal.").wait_for()
        lab.run_cells(4)
        lab.output(4).get_by_role("button", name="data: skipped").wait_for()
        lab.output(4).get_by_text("This answer was exported to the journal before.").wait_for()
    text = Path(jupyter_lab.notebooks, "guide_journal.md").read_text(encoding="utf-8")
    assert "- data: skipped" in text
    assert "- checkup: 1 error" in text


def run_step_by_click(lab: LabPage, name: str) -> None:
    lab.output(1).get_by_role("button", name=name).click()


def rule_page(lab: LabPage, code: str) -> str:
    lab.output(1).get_by_text(f"Rule {code}").click()
    return str(lab.output(1).locator(".nb-rule").inner_text())
