"""Latency of clicks and zoom steps in the error browser, including the answer of Python and the drawing.

python benchmarks/errors_latency.py
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from chromium import open_page, run_chromium

from tests.views.error_browser_pages import make_image_errors, make_many_class_errors, open_error_page

CLICKS = """async () => {
  const times = [];
  for (const name of [...Array(9).keys()].map((i) => (i % 2 ? "wrong" : "right"))) {
    const start = performance.now(), tabs = [...document.querySelectorAll(".nb-tab")];
    const button = tabs.find((tab) => tab.textContent.endsWith(name));
    await new Promise((done) => {
      const observer = new MutationObserver(async () => {
        const images = [...document.querySelectorAll(".nb-e-card img")];
        if (images.length !== 50) return;
        observer.disconnect();
        await Promise.all(images.map((image) => image.decode()));
        requestAnimationFrame(() => requestAnimationFrame(done));
      });
      observer.observe(document.querySelector(".nb-e-cards"), { childList: true });
      button.click();
    });
    times.push(performance.now() - start);
  }
  return times;
}"""
ZOOM = """async () => {
  const stage = document.querySelector(".nb-e-stage"), box = stage.getBoundingClientRect(), times = [];
  stage.focus();
  for (let i = 0; i < 20; i++) {
    const start = performance.now(), at = { clientX: box.left + 250, clientY: box.top + 250, cancelable: true };
    stage.dispatchEvent(new WheelEvent("wheel", { deltaY: i < 12 ? -120 : 120, ...at }));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - start);
  }
  return times;
}"""


def main() -> None:
    """Print the latency of 50 images after a click, and of zoom steps in a matrix of 1,000 classes."""
    with run_chromium() as browser, TemporaryDirectory() as folder:
        page = open_page(browser)
        open_error_page(page, make_image_errors(600, side=64), Path(folder))
        page.get_by_label("samples per page").select_option("50")
        page.wait_for_function("document.querySelectorAll('.nb-e-card img').length === 50")
        clicks = page.evaluate(CLICKS)
        print(f"50 images after a click: {', '.join(f'{milliseconds:.0f}' for milliseconds in clicks)} ms")
        page = open_page(browser)
        open_error_page(page, make_many_class_errors(1000, 1_000_000), Path(folder))
        zoom_steps = page.evaluate(ZOOM)
        print(f"zoom step, 1,000 classes: median {median(zoom_steps):.0f} ms, maximum {max(zoom_steps):.0f} ms")


if __name__ == "__main__":
    main()
