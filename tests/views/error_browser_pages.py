"""Results of the error browser on synthetic predictions, their pages, and the parts of a page that tests use."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.sample_display import SampleDisplay
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.tool import errors_from_predictions
from nbdebug.views.images import png_data_uri
from nbdebug.views.page import static_html
from tests.browser import answer_requests

FAKE_KERNEL = """() => {
  window.requests = [];
  window.kernelAlive = true;
  const emit = (name, detail) => dispatchEvent(new CustomEvent(`nbdebug-${name}`, { detail }));
  addEventListener("nbdebug-ask", async ({ detail }) => {
    requests.push(detail);
    if (!kernelAlive) return;
    const answer = detail.kind === "hello" ? {} : JSON.parse(await python(JSON.stringify(detail)));
    if (kernelAlive) emit("answer", { to: detail.to, ask: detail.ask, kind: detail.kind, ...answer });
  });
  window.restart = () => { kernelAlive = false; emit("closed", {}); };
  emit("opened", {});
}"""


class ImageDisplay(SampleDisplay):
    """Arrays of shape (H, W) and type uint8 as images."""

    def render_sample(self, sample: Any, full: bool) -> dict[str, Any]:
        """Return an image card."""
        return {
            "kind": "image",
            "src": png_data_uri(sample, 8_000),
            "width": sample.shape[1],
            "height": sample.shape[0],
        }


class CardDisplay(SampleDisplay):
    """Samples that are display cards."""

    def render_sample(self, sample: Any, full: bool) -> dict[str, Any]:
        """Return the card."""
        return dict(sample)


def make_predictions(
    rows: int = 300, classes: int = 3, names: list[str] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Scores of a classifier with an accuracy of about 2/3, its targets and two columns."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, classes, rows)
    scores = rng.normal(0, 1, (rows, classes)).astype(np.float32)
    scores[np.arange(rows), targets] += 1.5
    columns = {"size": rng.normal(50, 10, rows), "site": np.array(["north", "south", "west"])[np.arange(rows) % 3]}
    names = names or [f"class {i}" for i in range(classes)]
    return {"predictions": scores, "targets": targets, "class_names": names, "columns": columns}


def make_image_errors(rows: int = 300, side: int = 12, **options: Any) -> Errors:
    """Errors on images of noise."""
    predictions = make_predictions(rows, **options)
    images = np.random.default_rng(1).integers(0, 255, (rows, side, side)).astype(np.uint8)
    result = errors_from_predictions(predictions.pop("predictions"), predictions.pop("targets"), images, **predictions)
    return replace(result, samples=ImageDisplay(images))


def make_card_errors(cards: list[dict[str, Any]], **options: Any) -> Errors:
    """Errors on display cards."""
    predictions = make_predictions(len(cards), **options)
    result = errors_from_predictions(predictions.pop("predictions"), predictions.pop("targets"), cards, **predictions)
    return replace(result, samples=CardDisplay(cards))


def make_many_class_errors(classes: int, rows: int) -> Errors:
    """Errors of predicted labels of many classes: about 2/3 are right, the others random."""
    rng = np.random.default_rng(0)
    targets = rng.integers(0, classes, rows)
    guesses = np.where(rng.random(rows) < 0.66, targets, rng.integers(0, classes, rows))
    names = [f"class {i:04d}" for i in range(classes)]
    return errors_from_predictions(guesses, targets, class_names=names, columns={"loss": rng.random(rows)})


def open_error_page(page: Any, result: Errors, folder: Path, kernel: bool = True) -> Any:
    """Open the page of a result; with ``kernel`` the result answers its requests."""
    file = folder / "errors.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(result.view(), "result"), encoding="utf-8")
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())
    page.locator(".nb-e-samples").wait_for()
    if kernel:
        answer_requests(page, lambda text: json.dumps(result.answer(json.loads(text))))
        page.evaluate(FAKE_KERNEL)
        page.wait_for_function("requests.some((request) => request.kind === 'rows')")
    return page


def cell_position(page: Any, row: int, column: int, shape: tuple[int, int] = (3, 3)) -> tuple[float, float]:
    """The center of a cell of the matrix on the page, in its default order and zoom."""
    box = page.locator(".nb-e-stage canvas").bounding_box()
    layout = page.locator(".nb-e-stage").evaluate("node => JSON.parse(node.dataset.look)")
    x = box["x"] + layout["left"] + (column + 0.5) * layout["wide"] / shape[1]
    return x, box["y"] + layout["top"] + (row + 0.5) * layout["high"] / shape[0]


def click_cell(page: Any, row: int, column: int, shape: tuple[int, int] = (3, 3), **options: Any) -> None:
    """Click a cell of the matrix."""
    page.mouse.move(*cell_position(page, row, column, shape))
    page.mouse.click(*cell_position(page, row, column, shape), **options)


def gallery_rows(page: Any) -> list[int]:
    """The samples in the gallery, in order."""
    return [int(name.removeprefix("sample ")) for name in page.locator(".nb-e-card > .nb-unseen").all_inner_texts()]


def wait_for_filter(page: Any, text: str) -> None:
    """Wait for the label of a filter above the gallery."""
    page.locator(".nb-e-chips").get_by_text(text, exact=True).wait_for()


def wait_for_total(page: Any, count: int) -> None:
    """Wait until the gallery has ``count`` samples."""
    page.wait_for_function(
        "n => document.querySelector('.nb-e-pages').textContent.endsWith(` of ${n}`)", arg=f"{count:,}"
    )
