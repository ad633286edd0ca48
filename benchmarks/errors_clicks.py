"""What a click and a step of zoom take in the browser, Python's answer and the drawing included.

python benchmarks/errors_clicks.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.browser import launch_chromium
from tests.views.error_browser_pages import make_image_errors, make_many_class_errors, open_error_page

SPEED = """async () => {
  const spent = [];
  for (const name of [...Array(9).keys()].map((i) => (i % 2 ? "wrong" : "right"))) {
    const start = performance.now(), tabs = [...document.querySelectorAll(".nb-tab")];
    const button = tabs.find((one) => one.textContent.endsWith(name));
    await new Promise((done) => {
      const watch = new MutationObserver(async () => {
        const images = [...document.querySelectorAll(".nb-e-card img")];
        if (images.length !== 50) return;
        watch.disconnect();
        await Promise.all(images.map((one) => one.decode()));
        requestAnimationFrame(() => requestAnimationFrame(done));
      });
      watch.observe(document.querySelector(".nb-e-cards"), { childList: true });
      button.click();
    });
    spent.push(performance.now() - start);
  }
  return spent;
}"""
ZOOM = """async () => {
  const stage = document.querySelector(".nb-e-stage"), box = stage.getBoundingClientRect(), spent = [];
  stage.focus();
  for (let i = 0; i < 20; i++) {
    const start = performance.now(), at = { clientX: box.left + 250, clientY: box.top + 250, cancelable: true };
    stage.dispatchEvent(new WheelEvent("wheel", { deltaY: i < 12 ? -120 : 120, ...at }));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    spent.push(performance.now() - start);
  }
  return spent;
}"""


def main() -> None:
    """Fifty pictures after a click, and a matrix of a thousand classes zoomed."""
    with launch_chromium() as browser, TemporaryDirectory() as folder:
        if browser is None:
            sys.exit("No Chromium was found; install one, or set CHROMIUM to its path.")
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        open_error_page(page, make_image_errors(600, side=64), Path(folder))
        page.get_by_label("samples per page").select_option("50")
        page.wait_for_function("document.querySelectorAll('.nb-e-card img').length === 50")
        print(f"50 pictures after a click: {', '.join(f'{one:.0f}' for one in page.evaluate(SPEED))} ms")
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        open_error_page(page, make_many_class_errors(1000, 1_000_000), Path(folder))
        frames = page.evaluate(ZOOM)
        print(f"a step of zoom, 1,000 classes: median {median(frames):.0f}, worst {max(frames):.0f} ms")


if __name__ == "__main__":
    main()
