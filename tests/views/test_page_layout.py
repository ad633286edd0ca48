"""Tests of layout and contrast in narrow pages and under JupyterLab's styles."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nbdebug.watching.view import LayersView
from tests.tools.explain.tabular_explanation import tabular_explanation

from .conftest import OpenPage
from .error_browser_pages import make_image_errors
from .recorded_runs import make_record
from .sample_views import overfit_view

# Rules of JupyterLab 4 for outputs.
JUPYTERLAB_OUTPUT_CSS = """
body img, body svg { max-width: 100%; height: auto; }
body dl { width: 100%; overflow: hidden; }
body dt { font-weight: bold; float: left; width: 20%; }
body dd { float: left; width: 80%; }
"""
COUNT_OVERLAPS = """nodes => {
  const boxes = nodes.flatMap((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()];
  });
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a, b))).length;
}"""
CONTRAST_RATIO = """node => {
  const context = document.createElement("canvas").getContext("2d"), papers = [];
  for (let at = node; at; at = at.parentElement) papers.unshift(getComputedStyle(at).backgroundColor);
  const light = (colors) => {
    for (const color of colors) {
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
    }
    const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255);
    const [r, g, b] = parts.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const paper = light(["white", ...papers]), ink = light(["white", ...papers, getComputedStyle(node).color]);
  return Math.max(paper, ink) / Math.min(paper, ink);
}"""
JUPYTERLAB_LIGHT_COLORS = ":root { --jp-ui-font-color2: rgba(0, 0, 0, .54); --jp-brand-color1: #1976d2; }"


def open_in_jupyterlab(open_page: OpenPage, *views: Any, **options: Any) -> Any:
    page = open_page(*views, **options)
    page.add_style_tag(content=JUPYTERLAB_OUTPUT_CSS)
    return page


def test_overfit_examples_in_narrow_page_do_not_overlap(open_page: OpenPage) -> None:
    page = open_in_jupyterlab(open_page, overfit_view(), width=360)
    row = page.locator(".nb-examples tbody tr").first.locator("td:visible")
    assert row.count() == 4
    assert row.evaluate_all(COUNT_OVERLAPS) == 0
    assert page.locator(".nb-thumb").first.bounding_box()["width"] == 36


@pytest.mark.parametrize("width", [360, 620, 900])
def test_layer_scales_omit_labels_that_do_not_fit(open_page: OpenPage, width: int) -> None:
    page = open_page(LayersView(record=make_record(100)), width=width)
    page.locator(".nb-line").first.wait_for()
    visible_labels = page.locator(".nb-scale i").evaluate_all(
        "nodes => nodes.filter((node) => node.offsetWidth).length"
    )
    assert visible_labels >= 4
    for scale in page.locator(".nb-columns .nb-pics > div").all():
        box = scale.bounding_box()
        assert scale.evaluate("node => node.scrollWidth <= node.clientWidth")
        assert box["height"] <= 44
    widths = [scale.bounding_box()["width"] for scale in page.locator(".nb-columns .nb-pics > div").all()[:4]]
    assert max(widths) - min(widths) < 1
    scales = page.locator(".nb-columns .nb-pics .nb-scale").all()
    ends = [[scale.locator("i").nth(end).bounding_box() for end in (0, -1)] for scale in scales]
    for (_, last), (first, _) in pairwise(ends):
        assert first["x"] - last["x"] - last["width"] >= 9


def test_confused_pair_interval_is_not_cut_off(open_page: OpenPage) -> None:
    page = open_in_jupyterlab(open_page, make_image_errors().view(), width=860)
    shares = page.locator(".nb-e-pair:visible .nb-e-share")
    assert shares.count() > 2
    assert shares.evaluate_all("nodes => nodes.every((node) => node.scrollWidth <= node.clientWidth)")


def test_reliability_measures_are_stacked_vertically(open_page: OpenPage) -> None:
    explanation = tabular_explanation()
    view = explanation.view()
    panel = next(panel for panel, _ in view.panels if panel.name == "reliability")
    page = open_in_jupyterlab(open_page, replace(view, panels=[(panel, panel.state(explanation, 0))]), width=900)
    offsets = page.locator(".nb-trustrow dt, .nb-trustrow dd").evaluate_all(
        "nodes => nodes.map((node) => node.offsetTop)"
    )
    assert len(offsets) >= 8
    assert offsets == sorted(set(offsets))


def test_small_text_on_tint_meets_wcag_contrast(open_page: OpenPage) -> None:
    """The minimum is that of WCAG 2.2, criterion 1.4.3."""
    page = open_in_jupyterlab(open_page, replace(overfit_view(), ruled_out=("a rate",)), tabular_explanation().view())
    page.add_style_tag(content=JUPYTERLAB_LIGHT_COLORS)
    for selector in (".nb-banner summary", ".nb-x-explained"):
        assert page.locator(selector).first.evaluate(CONTRAST_RATIO) >= 4.5, selector
