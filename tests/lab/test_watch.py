"""A training cell under watch in real JupyterLab: layers move, open and are stopped while Python is busy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.lab.lab_page import LabPage
from tests.lab.server import Lab
from tests.lab.test_live_view import DRAWN, STATIC, kinds

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
TRAIN = """
with dbg.watch(every=2) as run:
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
            time.sleep(0.03)
"""
RATE = "print(optimizer.param_groups[0]['lr'], run.result.steps, run.record.events_of_kind('note')[0].text)"


def status(lab: LabPage) -> Any:
    return lab.output(1).locator(".nb-status").first


def steps(lab: LabPage, at_least: int) -> None:
    """Waits until the view speaks of so many steps."""
    lab.page.wait_for_function(
        "([node, least]) => Number(/(\\d+) steps/.exec(node.textContent)?.[1]) >= least",
        arg=[status(lab).element_handle(), at_least],
        timeout=60_000,
    )


def test_layers_are_seen_opened_scrubbed_and_the_loop_is_stopped_while_it_runs(
    jupyter_lab: Lab, notebook: Callable[..., str]
) -> None:
    with jupyter_lab.open(notebook(SETUP, TRAIN, RATE)) as lab:
        lab.run_cell(0)
        lab.wait_idle()
        lab.run_cell(1)
        steps(lab, 10)
        out = lab.output(1)
        rows = out.get_by_role("treegrid").get_by_role("row")
        assert rows.count() >= 3
        picture = rows.nth(0).locator("canvas")
        before = picture.evaluate("node => node.toDataURL()")
        steps(lab, 40)
        assert picture.evaluate(DRAWN.replace("> 5", "> 2"))
        assert picture.evaluate("node => node.toDataURL()") != before

        out.get_by_label("Filter layers").fill("4")
        assert rows.count() == 1
        out.get_by_label("Filter layers").fill("")
        rows.nth(0).click()
        out.get_by_label("layer over time").wait_for()
        slider = out.get_by_label("recorded step")
        slider.focus()
        slider.press("Home")
        out.get_by_text("step 1", exact=True).wait_for()

        out.get_by_role("button", name="learning rate ×½").click()
        out.get_by_role("button", name="Pause").click()
        out.get_by_role("button", name="Resume").wait_for(timeout=20_000)
        out.get_by_role("button", name="Resume").click()
        out.locator(".nb-stop").click()
        lab.wait_idle(30)
        assert kinds(lab, 1)[:1] == STATIC
        status(lab).get_by_text("interrupted").or_(out.get_by_text("steps, interrupted")).first.wait_for()
        assert "Traceback" not in lab.output(1).inner_text()

        lab.run_cell(2)
        lab.wait_idle()
        assert lab.output(2).inner_text().startswith("0.05 ")
        assert "× 0.5, as you asked" in lab.output(2).inner_text()
        lab.reopen_without_kernel()
        assert lab.output(1).get_by_role("treegrid").get_by_role("row").count() >= 3
        assert "Error displaying widget" not in lab.page.content()
        assert lab.errors == []


DEEP = """
middle = [one for _ in range(12) for one in (nn.Linear(32, 32), nn.ReLU())]
model = nn.Sequential(nn.Linear(8, 32), *middle, nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dbg = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
going = True
with dbg.watch(every=2) as run:
    while going:
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
            time.sleep(0.03)
        going = not os.path.exists("enough")
"""


def test_what_was_open_in_the_live_view_is_open_in_the_picture_that_stays(
    jupyter_lab: Lab, notebook: Callable[..., str]
) -> None:
    with jupyter_lab.open(notebook(f"import os{SETUP}", DEEP)) as lab:
        lab.run_cell(0)
        lab.wait_idle()
        lab.run_cell(1)
        steps(lab, 10)
        out = lab.output(1)
        out.get_by_role("button", name="By module").click()
        out.get_by_role("button", name="Gradient norm", exact=True).click()
        rows = out.get_by_role("treegrid").get_by_role("row")
        rows.nth(2).click()
        out.get_by_role("button", name="Ridge").click()
        find = out.get_by_label("Filter layers")
        find.fill("linear")
        out.get_by_role("treegrid").evaluate("node => { node.scrollTop = 90; }")
        name = out.locator(".nb-panel b").first.inner_text()
        find.focus()
        place = out.locator(".nb-panel").bounding_box()
        (jupyter_lab.notebooks / "enough").touch()
        lab.wait_idle(60)
        assert kinds(lab, 1)[:1] == STATIC
        out.locator(".nb-panel b").first.get_by_text(name, exact=True).wait_for(timeout=10_000)
        assert find.input_value() == "linear"
        assert out.get_by_role("treegrid").evaluate("node => node.scrollTop") == 90
        for pressed in ("By module", "Gradient norm", "Ridge"):
            assert out.get_by_role("button", name=pressed, exact=True).get_attribute("aria-pressed") == "true"
        assert find.evaluate("node => node === document.activeElement")
        assert out.locator(".nb-panel").bounding_box()["y"] == place["y"]


SHORT = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer).watch():
    for _ in range(8):  # ends too early, which is a note
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
"""


def test_what_is_found_under_a_watch_is_headed_as_such_and_each_mark_has_its_card(
    jupyter_lab: Lab, notebook: Callable[..., str]
) -> None:
    with jupyter_lab.open(notebook(SETUP, SHORT)) as lab:
        lab.run_cell(0)
        lab.wait_idle()
        lab.run_cell(1)
        lab.wait_idle(60)
        out = lab.output(1)
        out.get_by_role("heading", name="Findings of this run").wait_for()
        assert out.get_by_role("heading", name="Checkup").count() == 0
        said = out.locator(".nb-plot canvas").get_attribute("aria-label")
        marked = re.findall(r"([A-Z]\d{3}) at \d+\.", said)
        assert marked
        for code in marked:
            assert out.locator(f".nb-card:has-text('{code}')").count()
