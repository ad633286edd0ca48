"""What the view of all layers costs: in the browser for a long run of a large model, in the kernel for each message.

    python benchmarks/layers_view.py

The record is 10,000 steps of 400 parameters and 200 modules. Opening lasts until the rows are drawn; a frame of
scrubbing moves the slider and draws all rows. The kernel's part is the time and the bytes of one message.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from nbdebug.records import Record
from nbdebug.views.page import View, module_source, static_html, style_sheets
from nbdebug.watching.view import LayersView
from tests.browser import launch_chromium
from tests.views.recorded_runs import append_steps, make_record

STEPS, LOOK, FRAMES, MESSAGES = 10_000, 10, 120, 200
LIVE = """async ([source, css, state]) => {
  document.body.innerHTML = "<style></style><div id=el></div>";
  document.querySelector("style").textContent = css;
  const model = { get: (name) => ({ state, live: true })[name], on: () => {}, send: () => {} };
  const started = performance.now();
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  await (await import(url)).default.render({ model, el: document.getElementById("el") });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - started;
}"""
SCRUB = """async (frames) => {
  const slider = document.querySelector(".nb-scrub input");
  const next = () => new Promise((done) => requestAnimationFrame(done));
  const started = performance.now();
  for (let i = 0; i < frames; i++) {
    slider.value = String(Math.round((i / frames) * Number(slider.max)));
    slider.dispatchEvent(new Event("input"));
    await next();
  }
  await next();
  return (1000 * frames) / (performance.now() - started);
}"""


def drawn(page: Any, view: View, folder: str) -> None:
    """Time to open and frames a second, of the static page and of the live view."""
    file = Path(folder) / "page.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(view), encoding="utf-8")
    began = time.perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector(".nb-line canvas")
    opened = time.perf_counter() - began
    size, pace = file.stat().st_size / 1e6, page.evaluate(SCRUB, FRAMES)
    print(f"static page: {size:.1f} MB, opens in {opened:.2f} s, {pace:.0f} frames/s")
    began = time.perf_counter()
    state = view.snapshot()
    built = time.perf_counter() - began
    opened = page.evaluate(LIVE, [module_source(view), style_sheets(), state]) / 1000
    size, pace = len(state["packed"]) / 1e6, page.evaluate(SCRUB, FRAMES)
    print(f"live state: {size:.1f} MB, built in {built:.2f} s, opens in {opened:.2f} s, {pace:.0f} frames/s")


def messages(record: Record) -> None:
    """Time in the kernel and bytes of a message with one look and ten steps."""
    view = LayersView(record)
    view.changes()
    seconds, sizes = [], []
    for _ in range(MESSAGES):
        append_steps(record, 10, LOOK)
        began = time.process_time()
        _, (data,) = view.changes()
        seconds.append(time.process_time() - began)
        sizes.append(len(data))
    places = len(record.histogram_names)
    print(
        f"message of {places} places: {1000 * median(seconds):.3f} ms of the kernel, at most {max(sizes) / 1000:.1f} kB"
    )


def main() -> None:
    """The browser's part, then the kernel's."""
    record = make_record(STEPS, layers=200, snapshot_every=LOOK)
    with launch_chromium() as browser, TemporaryDirectory() as folder:
        if browser is None:
            sys.exit("No Chromium was found; install one, or set CHROMIUM to its path.")
        drawn(browser.new_page(viewport={"width": 1200, "height": 900}), LayersView(record), folder)
    for layers in (6, 20, 200):
        messages(make_record(200, layers=layers, snapshot_every=LOOK))


if __name__ == "__main__":
    main()
