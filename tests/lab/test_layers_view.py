"""Test of the layers view in JupyterLab: growth, controls, saving and reopening."""

from __future__ import annotations

import re

from tests.lab.charts import is_drawn
from tests.lab.lab_page import OpenNotebook

TRAINING_CELL = """
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
weights = {name: parameter for name, parameter in model.named_parameters() if "weight" in name}
histogram_names = [f"weight|{name}" for name in weights]
columns = [*layer_columns(histogram_names), *(f"update.ratio|{name}" for name in weights)]
record = Record(histogram_names=histogram_names, layers=StepTable(columns))
record.modules = [RecordedModule(name[:1], "Linear", (name,), True) for name in weights]
bounds = torch.tensor(bin_edges(), dtype=torch.float32)


def bin_counts(weight):
    bins = ZERO_BIN + weight.sign().long() * torch.bucketize(weight.abs(), bounds).clamp(max=ZERO_BIN)
    return torch.bincount(bins.flatten(), minlength=BIN_COUNT)


def add_snapshot(step, before):
    values = [v for w in weights.values() for v in (w.norm(), w.mean(), w.std(), w.abs().max(), 0, 0)]
    values += [(weight - old).norm() / weight.norm() for weight, old in zip(weights.values(), before)]
    record.layers.append(step, torch.tensor(values).numpy())
    record.shapes.append(step, pack_counts(torch.stack([bin_counts(weight) for weight in weights.values()]).numpy()))


view, step, clicks = LayersView(record, controls=True), 0, []
with show_view(view, every=0.05) as screen:
    while not screen.stopped and step < 100_000:
        for click in screen.clicks():
            clicks.append(click["kind"])
            view.answer(click)
        if view.acknowledged["paused"]:
            screen.refresh()
            time.sleep(0.02)
            continue
        x, y = torch.randn(32, 8), torch.arange(32) % 3
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        before = [weight.detach().clone() for weight in weights.values()]
        optimizer.step()
        record.run.append(step, {"loss": float(loss.detach())})
        with torch.no_grad():
            add_snapshot(step, before)
        view.status = f"step {step}"
        screen.refresh()
        time.sleep(0.01)
        step += 1
print("clicks", clicks, screen.trouble)
"""


def shown_step(text: str) -> int:
    """Return the step that the text beside the slider names."""
    match = re.search(r"step ([\d,]+)", text)
    return int(match[1].replace(",", "")) if match else 0


def test_layers_view_grows_obeys_controls_and_reopens_without_kernel(open_notebook: OpenNotebook) -> None:
    with open_notebook(TRAINING_CELL) as lab:
        lab.run_cell(0)
        output = lab.output(0)
        step_slider = output.locator(".nb-scrub")
        step_slider.wait_for(timeout=60_000)

        def wait_for_step(step: int) -> None:
            # The slider is another element as soon as the saved picture has gone live.
            lab.wait_until(lambda: shown_step(step_slider.inner_text()) >= step, timeout=60)

        wait_for_step(20)
        canvas = output.locator(".nb-line:not([hidden]) canvas").first
        assert is_drawn(canvas, min_colors=3)
        output.get_by_role("button", name="Pause").click()
        output.get_by_role("button", name="Resume").wait_for(timeout=20_000)
        assert lab.is_busy
        output.get_by_role("button", name="learning rate ×2").click()
        output.get_by_text("rate ×2").wait_for(timeout=20_000)
        output.get_by_role("button", name="Resume").click()
        wait_for_step(80)
        output.locator(".nb-line").first.click()
        assert output.locator(".nb-panel").is_visible()
        output.get_by_label("recorded step").fill("3")
        output.get_by_role("button", name="Stop").click()
        lab.wait_idle(30)
        assert "clicks ['pause', 'rate', 'resume'" in output.inner_text()
        assert output.locator(".nb-controls").count() == 0
        assert is_drawn(output.locator(".nb-line canvas").first, min_colors=3)
        assert lab.display_formats(0) == [{"text/html", "text/plain"}]  # a bare view, without the picture of a result
        lab.save()
        lab.reopen_without_kernel()
        output.locator(".nb-line canvas").first.wait_for(timeout=20_000)
        output.locator(".nb-line").first.click()
        assert is_drawn(output.locator(".nb-panel canvas"))
