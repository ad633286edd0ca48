"""Cost of the layers view: in the browser for a long run of a large model, in the kernel for each message.

    python benchmarks/layers_view.py

The record has 10,000 steps of 400 parameters and 200 modules. The time to open ends when the rows are drawn. A frame of
scrubbing moves the slider and draws all rows. For the kernel, the time and the size of one message are measured.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from chromium import open_page, run_chromium
from timing import cpu_seconds

from nbdebug.records import Record
from nbdebug.views.page import module_source, static_html, style_sheets
from nbdebug.watching.view import LayersView
from tests.views.recorded_runs import append_steps, make_record

if TYPE_CHECKING:
    from playwright.sync_api import Page

STEPS, SNAPSHOT_INTERVAL, FRAMES, MESSAGES = 10_000, 10, 120, 200
OPEN_LIVE = """async ([source, css, state]) => {
  document.body.innerHTML = "<style></style><div id=el></div>";
  document.querySelector("style").textContent = css;
  const model = { get: (name) => ({ state, live: true })[name], on: () => {}, send: () => {} };
  const start = performance.now();
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  await (await import(url)).default.render({ model, el: document.getElementById("el") });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - start;
}"""
SCRUB = """async (frames) => {
  const slider = document.querySelector(".nb-scrub input");
  const nextFrame = () => new Promise((done) => requestAnimationFrame(done));
  const start = performance.now();
  for (let i = 0; i < frames; i++) {
    slider.value = String(Math.round((i / frames) * Number(slider.max)));
    slider.dispatchEvent(new Event("input"));
    await nextFrame();
  }
  await nextFrame();
  return (1000 * frames) / (performance.now() - start);
}"""


def measure_drawing(page: Page, view: LayersView, folder: str) -> None:
    """Print the time to open and the frame rate, of the static page and of the live view."""
    file = Path(folder) / "page.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(view), encoding="utf-8")
    start = time.perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector(".nb-line canvas")
    seconds = time.perf_counter() - start
    megabytes, frame_rate = file.stat().st_size / 1e6, page.evaluate(SCRUB, FRAMES)
    print(f"static page: {megabytes:.1f} MB, opens in {seconds:.2f} s, {frame_rate:.0f} frames/s")
    start = time.perf_counter()
    state = view.snapshot()
    build_seconds = time.perf_counter() - start
    seconds = page.evaluate(OPEN_LIVE, [module_source(view), style_sheets(*view.sheets), state]) / 1000
    megabytes, frame_rate = len(state["packed"]) / 1e6, page.evaluate(SCRUB, FRAMES)
    times = f"built in {build_seconds:.2f} s, opens in {seconds:.2f} s"
    print(f"live state: {megabytes:.1f} MB, {times}, {frame_rate:.0f} frames/s")


def measure_messages(record: Record) -> None:
    """Print the CPU time and the size of a message with one snapshot and ten steps."""
    view = LayersView(record)
    view.changes()
    seconds, sizes = [], []

    def add_message() -> None:
        _, (data,) = view.changes()
        sizes.append(len(data))

    for _ in range(MESSAGES):
        append_steps(record, 10, SNAPSHOT_INTERVAL)
        seconds.append(cpu_seconds(add_message))
    cost = f"{1000 * median(seconds):.3f} ms in the kernel, at most {max(sizes) / 1000:.1f} kB"
    print(f"message of {len(record.histogram_names)} histograms: {cost}", flush=True)


def main() -> None:
    """Measure messages in the kernel, then drawing in the browser."""
    for layers in (6, 20, 200):
        measure_messages(make_record(200, layers=layers, snapshot_every=SNAPSHOT_INTERVAL))
    record = make_record(STEPS, layers=200, snapshot_every=SNAPSHOT_INTERVAL)
    with run_chromium() as browser, TemporaryDirectory() as folder:
        measure_drawing(open_page(browser), LayersView(record), folder)


if __name__ == "__main__":
    main()
