"""Error browsers for tests: real tables, and a page whose questions are answered by the real result."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.sample_display import SampleDisplay
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.tool import errors_from_predictions
from nbdebug.views.images import png_data_uri
from nbdebug.views.page import static_html

KERNEL = """() => {
  window.asked = [];
  window.alive = true;
  const tell = (name, detail) => dispatchEvent(new CustomEvent(`nbdebug-${name}`, { detail }));
  addEventListener("nbdebug-ask", async ({ detail }) => {
    asked.push(detail);
    if (!alive) return;
    const answer = detail.kind === "hello" ? {} : JSON.parse(await python(JSON.stringify(detail)));
    if (alive) tell("answer", { to: detail.to, ask: detail.ask, kind: detail.kind, ...answer });
  });
  window.restart = () => { alive = false; tell("closed", {}); };
  tell("opened", {});
}"""


class Pictures(SampleDisplay):
    """Arrays (H, W) of uint8 as pictures."""

    def render_sample(self, sample: Any, full: bool) -> dict[str, Any]:
        """One picture."""
        return {
            "kind": "image",
            "src": png_data_uri(sample, 8_000),
            "width": sample.shape[1],
            "height": sample.shape[0],
        }


class Cards(SampleDisplay):
    """Samples that are cards already."""

    def render_sample(self, sample: Any, full: bool) -> dict[str, Any]:
        """The card itself."""
        return dict(sample)


def predicted(rows: int = 300, classes: int = 3, names: list[str] | None = None, seed: int = 0) -> dict[str, Any]:
    """Scores of a classifier that is right two times of three, its targets, and columns beside."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, classes, rows)
    scores = rng.normal(0, 1, (rows, classes)).astype(np.float32)
    scores[np.arange(rows), targets] += 1.5
    columns = {"size": rng.normal(50, 10, rows), "site": np.array(["north", "south", "west"])[np.arange(rows) % 3]}
    names = names or [f"class {i}" for i in range(classes)]
    return {"predictions": scores, "targets": targets, "class_names": names, "columns": columns}


def browser_of(rows: int = 300, side: int = 12, **given: Any) -> Errors:
    """An error browser over pictures of noise."""
    made = predicted(rows, **given)
    pictures = np.random.default_rng(1).integers(0, 255, (rows, side, side)).astype(np.uint8)
    result = errors_from_predictions(made.pop("predictions"), made.pop("targets"), pictures, **made)
    return replace(result, samples=Pictures(pictures))


def of_cards(cards: list[dict[str, Any]], **given: Any) -> Errors:
    """An error browser over cards."""
    made = predicted(len(cards), **given)
    result = errors_from_predictions(made.pop("predictions"), made.pop("targets"), cards, **made)
    return replace(result, samples=Cards(cards))


def opened(
    page: Any, result: Errors, folder: Path, kernel: bool = True, answer: Callable[[str], str] | None = None
) -> Any:
    """The page of a result, which asks the result itself where there is a ``kernel``."""
    file = folder / "errors.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(result.view(), "result"), encoding="utf-8")
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())
    page.locator(".nb-e-samples").wait_for()
    if kernel:
        page.expose_function("python", answer or (lambda text: json.dumps(result.answer(json.loads(text)))))
        page.evaluate(KERNEL)
        page.wait_for_function("asked.some((one) => one.kind === 'rows')")
    return page


def cell(page: Any, row: int, column: int, classes: int = 3) -> tuple[float, float]:
    """Where on the page the middle of a cell is; only for a grid in the order as given, not zoomed."""
    box = page.locator(".nb-e-stage canvas").bounding_box()
    look = page.locator(".nb-e-stage").evaluate("node => JSON.parse(node.dataset.look)")
    x = box["x"] + look["left"] + (column + 0.5) * look["wide"] / classes
    return x, box["y"] + look["top"] + (row + 0.5) * look["high"] / classes
