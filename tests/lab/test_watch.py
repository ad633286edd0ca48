"""Tests of a watched training cell in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

from tests.lab.charts import STATIC_FORMATS, is_drawn
from tests.lab.lab_page import LabPage, OpenNotebook
from tests.lab.server import LabServer

SETUP = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import nbdebug

torch.manual_seed(0)
x = torch.randn(256, 8)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 2))
loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1)
dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
"""
ENDLESS_RUN = """
with dbg.watch(every=2) as run:
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
            time.sleep(0.03)
"""
PRINT_RUN = "print(optimizer.param_groups[0]['lr'], run.result.steps, run.record.events_of_kind('note')[0].text)"


def status(lab: LabPage) -> Any:
    return lab.output(1).locator(".nb-status").first


def wait_for_steps(lab: LabPage, at_least: int) -> None:
    """Wait until the status of the view reports so many steps."""

    def steps() -> int:
        return int((re.search(r"(\d+) steps", status(lab).inner_text()) or [0, 0])[1])

    lab.wait_until(lambda: steps() >= at_least, timeout=60)


def test_watch_view_filters_opens_scrubs_and_stops_during_run(open_notebook: OpenNotebook) -> None:
    with open_notebook(SETUP, ENDLESS_RUN, PRINT_RUN) as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        wait_for_steps(lab, 10)
        output = lab.output(1)
        rows = output.get_by_role("treegrid").get_by_role("row")
        assert rows.count() >= 3
        histogram = rows.nth(0).locator("canvas")
        before = histogram.evaluate("node => node.toDataURL()")
        wait_for_steps(lab, 40)
        assert is_drawn(histogram, min_colors=3)
        assert histogram.evaluate("node => node.toDataURL()") != before

        output.get_by_label("Filter layers").fill("4")
        assert rows.count() == 1
        output.get_by_label("Filter layers").fill("")
        rows.nth(0).click()
        output.get_by_label("layer over time").wait_for()
        slider = output.get_by_label("recorded step")
        slider.focus()
        slider.press("Home")
        output.get_by_text("step 1", exact=True).wait_for()

        output.get_by_role("button", name="learning rate ×½").click()
        output.get_by_role("button", name="Pause").click()
        output.get_by_role("button", name="Resume").wait_for(timeout=20_000)
        output.get_by_role("button", name="Resume").click()
        output.locator(".nb-stop").click()
        lab.wait_idle(30)
        assert lab.display_formats(1)[:1] == STATIC_FORMATS
        status(lab).get_by_text("interrupted").or_(output.get_by_text("steps, interrupted")).first.wait_for()
        assert "Traceback" not in lab.output(1).inner_text()

        lab.run_cells(2)
        assert lab.output(2).inner_text().startswith("0.05 ")
        assert "× 0.5, at your request" in lab.output(2).inner_text()
        lab.reopen_without_kernel()
        assert lab.output(1).get_by_role("treegrid").get_by_role("row").count() >= 3
        assert "Error displaying widget" not in lab.page.content()
        assert lab.errors == []


DEEP_MODEL_RUN = """
hidden = [layer for _ in range(12) for layer in (nn.Linear(32, 32), nn.ReLU())]
model = nn.Sequential(nn.Linear(8, 32), *hidden, nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
is_running = True
with dbg.watch(every=2) as run:
    while is_running:
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
            time.sleep(0.03)
        is_running = not os.path.exists("end")
"""


def test_state_of_live_watch_view_is_kept_in_static_view(jupyter_lab: LabServer, open_notebook: OpenNotebook) -> None:
    with open_notebook(f"import os{SETUP}", DEEP_MODEL_RUN) as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        wait_for_steps(lab, 10)
        output = lab.output(1)
        output.get_by_role("button", name="By module").click()
        output.get_by_role("button", name="Gradient norm", exact=True).click()
        rows = output.get_by_role("treegrid").get_by_role("row")
        rows.nth(2).click()
        output.get_by_role("button", name="Ridge").click()
        filter_field = output.get_by_label("Filter layers")
        filter_field.fill("linear")
        output.get_by_role("treegrid").evaluate("node => { node.scrollTop = 90; }")
        name = output.locator(".nb-panel b").first.inner_text()
        filter_field.focus()
        box = output.locator(".nb-panel").bounding_box()
        jupyter_lab.end_file.touch()
        lab.wait_idle(60)
        assert lab.display_formats(1)[:1] == STATIC_FORMATS
        output.locator(".nb-panel b").first.get_by_text(name, exact=True).wait_for(timeout=10_000)
        assert filter_field.input_value() == "linear"
        assert output.get_by_role("treegrid").evaluate("node => node.scrollTop") == 90
        for pressed in ("By module", "Gradient norm", "Ridge"):
            assert output.get_by_role("button", name=pressed, exact=True).get_attribute("aria-pressed") == "true"
        assert filter_field.evaluate("node => node === document.activeElement")
        assert output.locator(".nb-panel").bounding_box()["y"] == box["y"]


SHORT_RUN = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer).watch():
    for _ in range(8):  # stops early, which is a note
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
"""


def test_findings_of_run_have_heading_and_each_chart_mark_has_card(open_notebook: OpenNotebook) -> None:
    with open_notebook(SETUP, SHORT_RUN) as lab:
        lab.run_cells(0)
        lab.run_cell(1)
        lab.wait_idle(60)
        output = lab.output(1)
        output.get_by_role("heading", name="Findings of this run").wait_for()
        assert output.get_by_role("heading", name="Checkup").count() == 0
        label = output.locator(".nb-plot canvas[aria-label]").get_attribute("aria-label")
        codes = re.findall(r"([A-Z]\d{3}) at \d+\.", label)
        assert codes
        for code in codes:
            assert output.locator(f".nb-card:has-text('{code}')").count()
