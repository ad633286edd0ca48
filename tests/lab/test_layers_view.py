"""The view of all layers in real JupyterLab: it grows, is asked to pause and stop, is saved, and is opened again."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.server import Lab
from tests.lab.test_live_view import DRAWN, STATIC, kinds

CELL = """
import time

import torch
from torch import nn

from nbdebug.records import Record, RecordedModule
from nbdebug.tensors.histogram_bins import BIN_COUNT, ZERO_BIN, bin_edges, pack_counts
from nbdebug.records.record import layer_columns
from nbdebug.records.table import StepTable
from nbdebug.watching.view import LayersView
from nbdebug.views.live import show_view

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
weights = {name: one for name, one in model.named_parameters() if "weight" in name}
drawn = [f"weight|{name}" for name in weights]
columns = [*layer_columns(drawn), *(f"update.ratio|{name}" for name in weights)]
record = Record(histogram_names=drawn, layers=StepTable(columns))
record.modules = [RecordedModule(name[:1], "Linear", (name,), True) for name in weights]
bounds = torch.tensor(bin_edges(), dtype=torch.float32)


def counts(one):
    bins = ZERO_BIN + one.sign().long() * torch.bucketize(one.abs(), bounds).clamp(max=ZERO_BIN)
    return torch.bincount(bins.flatten(), minlength=BIN_COUNT)


def look(step, before):
    values = [v for one in weights.values() for v in (one.norm(), one.mean(), one.std(), one.abs().max(), 0, 0)]
    values += [(one - old).norm() / one.norm() for one, old in zip(weights.values(), before)]
    record.layers.append(step, torch.tensor(values).numpy())
    record.shapes.append(step, pack_counts(torch.stack([counts(one) for one in weights.values()]).numpy()))


view, step, heard = LayersView(record, controls=True), 0, []
with show_view(view, every=0.05) as screen:
    while not screen.stopped and step < 100_000:
        for click in screen.clicks():
            heard.append(click["kind"])
            view.answer(click)
        if view.acknowledged["paused"]:
            screen.refresh()
            time.sleep(0.02)
            continue
        x, y = torch.randn(32, 8), torch.arange(32) % 3
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        before = [one.detach().clone() for one in weights.values()]
        optimizer.step()
        record.run.append(step, {"loss": float(loss.detach())})
        with torch.no_grad():
            look(step, before)
        view.status = f"step {step}"
        screen.refresh()
        time.sleep(0.01)
        step += 1
print("heard", heard, screen.trouble)
"""
STEP = "([node, least]) => Number(/step ([\\d,]+)/.exec(node.textContent)?.[1].replace(',', '')) >= least"


def test_layers_grow_pause_stop_and_are_saved(jupyter_lab: Lab, notebook: Callable[..., str]) -> None:
    with jupyter_lab.open(notebook(CELL)) as lab:
        lab.run_cell(0)
        output, page = lab.output(0), lab.page
        scrub = output.locator(".nb-scrub")
        scrub.wait_for(timeout=60_000)

        def reaches(least: int) -> None:
            page.wait_for_function(STEP, arg=[scrub.element_handle(), least], timeout=60_000)

        reaches(20)
        canvas = output.locator(".nb-line:not([hidden]) canvas").first
        assert canvas.evaluate(DRAWN.replace("> 5", "> 2"))
        output.get_by_role("button", name="Pause").click()
        output.get_by_role("button", name="Resume").wait_for(timeout=20_000)
        assert lab.busy
        output.get_by_role("button", name="learning rate ×2").click()
        output.get_by_text("rate ×2").wait_for(timeout=20_000)
        output.get_by_role("button", name="Resume").click()
        reaches(80)
        output.locator(".nb-line").first.click()
        assert output.locator(".nb-panel").is_visible()
        output.get_by_label("recorded step").fill("3")
        output.get_by_role("button", name="Stop").click()
        lab.wait_idle(30)
        assert "heard ['pause', 'rate', 'resume'" in output.inner_text()
        assert output.locator(".nb-controls").count() == 0
        assert output.locator(".nb-line canvas").first.evaluate(DRAWN.replace("> 5", "> 2"))
        assert kinds(lab, 0) == STATIC
        lab.save()
        lab.reopen_without_kernel()
        output.locator(".nb-line canvas").first.wait_for(timeout=20_000)
        output.locator(".nb-line").first.click()
        assert output.locator(".nb-panel canvas").evaluate(DRAWN)
