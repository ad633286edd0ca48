"""What has little room, and what JupyterLab's own styles would push about, stays readable."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nbdebug.watching.view import LayersView
from tests.tools.explain.tabular_explanation import tabular_explanation

from . import samples
from .conftest import Open
from .errors import browser_of
from .records import recorded

# What JupyterLab 4 says of outputs.
LAB = """
body img, body svg { max-width: 100%; height: auto; }
body dl { width: 100%; overflow: hidden; }
body dt { font-weight: bold; float: left; width: 20%; }
body dd { float: left; width: 80%; }
"""
CLASHES = """nodes => {
  const boxes = nodes.flatMap((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()];
  });
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a, b))).length;
}"""
CONTRAST = """node => {
  const context = document.createElement("canvas").getContext("2d"), papers = [];
  for (let one = node; one; one = one.parentElement) papers.unshift(getComputedStyle(one).backgroundColor);
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
LIGHT = ":root { --jp-ui-font-color2: rgba(0, 0, 0, .54); --jp-brand-color1: #1976d2; }"  # JupyterLab's


def opened(open_page: Open, *views: Any, **options: Any) -> Any:
    page = open_page(*views, **options)
    page.add_style_tag(content=LAB)
    return page


def test_a_picture_does_not_push_the_name_of_an_example_over_its_target(open_page: Open) -> None:
    page = opened(open_page, samples.overfit(), width=360)
    row = page.locator(".nb-examples tbody tr").first.locator("td:visible")
    assert row.count() == 4
    assert row.evaluate_all(CLASHES) == 0
    assert page.locator(".nb-thumb").first.bounding_box()["width"] == 36


@pytest.mark.parametrize("width", [360, 620, 900])
def test_the_scales_of_layers_drop_what_has_no_room(open_page: Open, width: int) -> None:
    page = open_page(LayersView(record=recorded(100)), width=width)
    page.locator(".nb-line").first.wait_for()
    shown = page.locator(".nb-scale i").evaluate_all("all => all.filter((one) => one.offsetWidth).length")
    assert shown >= 4
    for scale in page.locator(".nb-columns .nb-pics > div").all():
        box = scale.bounding_box()
        assert scale.evaluate("node => node.scrollWidth <= node.clientWidth")
        assert box["height"] <= 44
    widths = [one.bounding_box()["width"] for one in page.locator(".nb-columns .nb-pics > div").all()[:4]]
    assert max(widths) - min(widths) < 1
    scales = page.locator(".nb-columns .nb-pics .nb-scale").all()
    ends = [[one.locator("i").nth(at).bounding_box() for at in (0, -1)] for one in scales]
    for (_, last), (first, _) in pairwise(ends):
        assert first["x"] - last["x"] - last["width"] >= 9


def test_the_interval_of_a_confused_pair_is_not_cut(open_page: Open) -> None:
    page = opened(open_page, browser_of().view(), width=860)
    shares = page.locator(".nb-e-pair:visible .nb-e-share")
    assert shares.count() > 2
    assert shares.evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth)")


def test_the_measures_of_trust_stand_one_under_another(open_page: Open) -> None:
    found = tabular_explanation()
    view = found.view()
    trust = next((panel, panel.state(found, 0)) for panel, _ in view.panels if panel.name == "trust")
    page = opened(open_page, replace(view, panels=[trust]), width=900)
    names = page.locator(".nb-trustrow dt, .nb-trustrow dd").evaluate_all("all => all.map((one) => one.offsetTop)")
    assert len(names) >= 8
    assert names == sorted(set(names))


def test_small_text_on_a_tint_can_be_read(open_page: Open) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    page = opened(open_page, replace(samples.overfit(), ruled_out=("a rate",)), tabular_explanation().view())
    page.add_style_tag(content=LIGHT)
    for place in (".nb-banner summary", ".nb-x-explained"):
        assert page.locator(place).first.evaluate(CONTRAST) >= 4.5, place
