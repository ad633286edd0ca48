"""Tests of the page of an explanation, for each kind of input."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nbdebug.views import page
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html
from nbdebug.views.panel import Panel

from .conftest import OpenPage
from .explanation_pages import (
    first_number,
    image_debugger,
    open_explanation_page,
    series_debugger,
    table_debugger,
    text_explanation,
)
from .hostile_text import HOSTILE_HTML

OWN_PANEL = """function ownPanel(state, ask) {
  const node = document.createElement("div");
  node.className = "own";
  node.textContent = state.text;
  node.onclick = async () => {
    const answer = await ask({ end: "!" });
    node.textContent = answer.text ?? answer.trouble;
  };
  return node;
}
const EXPLAIN_PANELS = { own: ownPanel };"""
COUNT_RED_AND_BLUE = """node => {
  const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height), counts = { red: 0, blue: 0 };
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > data[i + 2] + 40) counts.red++;
    if (data[i + 2] > data[i] + 40) counts.blue++;
  }
  return counts;
}"""


def bar_values(page: Any) -> dict[str, float]:
    """The values of the bars by name."""
    texts = page.locator(".nb-x-rows .nb-x-row").evaluate_all(
        "nodes => nodes.map(node => ['name', 'number'].map(part => node.querySelector(`.nb-x-${part}`).textContent))"
    )
    return {name: first_number(value) for name, value in texts if name != "not explained"}


def test_heat_map_reads_attributions_in_the_unit_of_the_score(page: Any, tmp_path: Path) -> None:
    explanation = image_debugger().explain(7)
    open_explanation_page(page, explanation, tmp_path)
    canvas, reading = page.locator(".nb-x-stage canvas"), page.locator(".nb-x-reading")
    counts = page.evaluate(f"({COUNT_RED_AND_BLUE})(document.querySelector('.nb-x-stage canvas'))")
    assert counts["red"] > 100
    assert counts["blue"] > 100
    heat_map = explanation.attribution.array[0, 0]
    box = canvas.bounding_box()
    for row, column in ((2, 5), (7, 0)):
        page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 8, box["y"] + (row + 0.5) * box["height"] / 8)
        assert f"row {row}, column {column}:" in reading.inner_text()
        assert reading.inner_text().endswith(" logit")
        value = first_number(reading.inner_text().split(":")[1])
        assert value == pytest.approx(heat_map[row, column], rel=0.06, abs=abs(heat_map).max() / 127)
    page.get_by_role("button", name="+ only").click()
    assert canvas.evaluate(COUNT_RED_AND_BLUE)["blue"] == 0
    page.get_by_role("button", name="the largest").click()
    assert first_number(page.locator(".nb-x-legend").inner_text().split("logit")[1]) == pytest.approx(
        abs(heat_map).max(), rel=1e-2
    )
    button = page.get_by_role("button", name="hold: image only").bounding_box()
    page.mouse.move(button["x"] + 5, button["y"] + 5)
    page.mouse.down()
    assert canvas.evaluate(COUNT_RED_AND_BLUE) == {"red": 0, "blue": 0}
    page.mouse.up()
    assert canvas.evaluate(COUNT_RED_AND_BLUE)["red"] > 0
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert "row 1, column 1:" in reading.inner_text()


def test_method_control_shows_titles_without_underscores(page: Any, tmp_path: Path) -> None:
    open_explanation_page(page, image_debugger().explain(3, method="gradcam"), tmp_path)
    page.get_by_text("(Grad-CAM)").wait_for()
    names = page.get_by_label("method", exact=True).locator("option").all_inner_texts()
    assert {"expected gradients", "input × gradient", "Grad-CAM", "LIME"} <= set(names)
    assert not [name for name in names if "_" in name]


def test_class_click_explains_the_class_and_shows_completeness(page: Any, tmp_path: Path) -> None:
    explanation = table_debugger().explain(4)
    open_explanation_page(page, explanation, tmp_path)
    sample = explanation.view().state()["samples"][0]
    marks = page.locator(".nb-x-chance").first.inner_text()
    assert all(word in marks for word in ("predicted", "explained"))
    last_class = sample["outputs"][-1]
    page.get_by_role("button", name=last_class["name"]).click()
    page.get_by_text(f"logit of {last_class['name']}").first.wait_for()
    attribution = explanation.attribute(target=last_class["class"])
    assert page.get_by_label("class", exact=True).input_value() == str(last_class["class"])
    assert "explained" in page.locator(f"[data-class='{last_class['class']}']").inner_text()
    values = bar_values(page)
    assert values["base (mean score)"] == pytest.approx(attribution.base[0], rel=1e-3)
    assert sum(list(values.values())[:-1]) == pytest.approx(values[f"logit of {last_class['name']}"], abs=0.02)
    assert values["8 more"] == pytest.approx(sum(sorted(attribution.array[0], key=abs)[:8]), abs=0.01)
    verdict = page.locator(".nb-x-exact .nb-x-verdict").inner_text()
    assert "Completeness" in verdict
    assert "a gap of" in verdict
    assert "compared with 32 training samples" in verdict
    page.get_by_role("button", name="show all 20").click()
    assert len(bar_values(page)) == 22
    page.get_by_role("button", name="force").click()
    parts = page.locator(".nb-x-part").evaluate_all("nodes => nodes.map(node => [node.className, node.title])")
    assert {"up" in kind: first_number(title.split(":")[1]) > 0 for kind, title in parts} == {True: True, False: False}
    page.get_by_label("method", exact=True).select_option("saliency")
    page.get_by_text("gives a ranking").wait_for()
    assert page.locator(".nb-x-base").count() == 0
    page.get_by_label("method", exact=True).select_option("shapley")
    page.get_by_text("(shapley)").wait_for()
    page.get_by_role("button", name="waterfall").click()
    assert page.locator(".nb-x-whisker").count() == 12


def test_token_text_is_colored_and_read_by_keys(page: Any, tmp_path: Path) -> None:
    explanation = text_explanation([HOSTILE_HTML, *"bcdefgh"])
    open_explanation_page(page, explanation, tmp_path, kernel=False)
    weights = explanation.attribution.array[0]
    tokens = page.locator(".nb-x-token")
    assert [kind.split("-")[-1] for kind in tokens.evaluate_all("nodes => nodes.map(node => node.className)")] == [
        "down" if weight < 0 else "up" for weight in weights
    ]
    tokens.first.focus()
    for at, weight in enumerate(weights):
        reading = page.locator(".nb-x-reading").inner_text()
        assert reading.startswith(f"token {at}, ")
        assert first_number(reading.split("”:")[1]) == pytest.approx(weight, rel=1e-2, abs=1e-4)
        page.keyboard.press("ArrowRight")
    assert page.evaluate("window.hit") is None


def test_two_samples_are_side_by_side_and_share_controls(page: Any, tmp_path: Path) -> None:
    explanation = table_debugger().explain(3)
    open_explanation_page(page, explanation, tmp_path)
    page.get_by_label("dataset index of the sample").fill("11")
    page.get_by_role("button", name="show", exact=True).click()
    columns = page.locator(".nb-x-column")
    columns.nth(1).get_by_text("sample 11").wait_for()
    left, right = (columns.nth(column).bounding_box() for column in (0, 1))
    assert left["y"] == right["y"]
    page.get_by_label("method", exact=True).select_option("occlusion")
    for column in (0, 1):
        columns.nth(column).get_by_text("(occlusion)").wait_for()
    attribution = explanation.for_dataset_index(11).attribute(method="occlusion")
    name, value = max(enumerate(attribution.array[0]), key=lambda item: abs(item[1]))
    largest_bar = columns.nth(1).locator(".nb-x-row", has=page.locator(".nb-x-up, .nb-x-down")).first
    assert largest_bar.locator(".nb-x-name").inner_text().startswith(f"{name} = ")
    assert first_number(largest_bar.locator(".nb-x-number").inner_text()) == pytest.approx(value, rel=1e-2)
    page.get_by_label("dataset index of the sample").fill("99")
    page.get_by_role("button", name="show", exact=True).click()
    page.get_by_text("expected 0 to 31").wait_for()
    page.get_by_role("button", name="close sample 11").click()
    assert columns.count() == 1


def test_two_heat_maps_can_share_one_scale(page: Any, tmp_path: Path) -> None:
    open_explanation_page(page, image_debugger().explain([3, 4]), tmp_path, kernel=False)
    legends = page.locator(".nb-x-legend")
    limits = [first_number(legend.split("logit")[1]) for legend in legends.all_inner_texts()]
    assert limits[0] != limits[1]
    page.get_by_role("button", name="same for all").first.click()
    assert [first_number(legend.split("logit")[1]) for legend in legends.all_inner_texts()] == [max(limits)] * 2


def test_explanation_page_without_kernel_shows_stored_attributions_and_python_line(page: Any, tmp_path: Path) -> None:
    dbg = table_debugger()
    explanation = dbg.explain([3, 4, 5])
    explanation.attribute(method="saliency")
    open_explanation_page(page, explanation, tmp_path, kernel=False)
    page.get_by_role("group", name="samples").get_by_role("button", name="sample 4").click()
    page.get_by_label("method", exact=True).select_option("saliency")
    page.get_by_text("(saliency)").wait_for()
    assert page.locator(".nb-x-trouble").count() == 0
    page.get_by_label("method", exact=True).select_option("occlusion")
    page.get_by_label("class", exact=True).select_option("1")
    line = page.locator(".nb-x-trouble code").inner_text()
    assert line == "dbg.explain(4, method='occlusion', target=1)"
    assert eval(line, {"dbg": dbg}).attribution.method == "occlusion"
    assert page.get_by_text("(saliency)").is_visible()
    page.locator(".nb-x-keeps button", has_text="expected gradients").click()
    page.get_by_text("(expected gradients)").wait_for()
    assert page.locator(".nb-x-trouble").count() == 0


def test_slow_attribution_and_slow_panel_warn_and_wait_for_second_click(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbdebug.tools.explain.page_requests.TIME_LIMIT", 0.0)
    monkeypatch.setattr("nbdebug.inference.progress.MIN_MEASURED_SECONDS", 0.0)
    open_explanation_page(page, table_debugger().explain(4), tmp_path)
    page.get_by_label("method", exact=True).select_option("occlusion")
    page.get_by_text("Computing this with occlusion takes 1 s or more").wait_for()
    assert page.get_by_text("(expected gradients)").is_visible()
    page.get_by_role("button", name="Compute it").click()
    page.get_by_text("(occlusion)").wait_for()
    assert page.get_by_role("button", name="Compute it").count() == 0
    page.get_by_role("button", name="Comparison of two classes").click()
    page.get_by_role("button", name="Compute comparison of two classes").click()
    page.get_by_text("or more and blocks Python meanwhile. Click again").wait_for()
    page.get_by_role("button", name="Compute comparison of two classes").click()
    page.get_by_text("attribution of the difference").wait_for()


@pytest.fixture
def own_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a panel, in Python and on the page, that shows its sample and method."""

    def state(explanation: Any, row: int, end: str = "", **options: Any) -> dict[str, Any]:
        return {"text": f"{explanation.keys[row]} by {options.get('method', explanation.request.method)}{end}"}

    panel = Panel(
        "own", "Own", lambda _: True, state, lambda state: f"<p>{state['text']}</p>", follows=("method", "target")
    )
    for module in ("presentation", "page_requests"):
        monkeypatch.setattr(f"nbdebug.tools.explain.{module}.applicable_panels", lambda _: [panel])
    text, count = re.subn(
        r"const EXPLAIN_PANELS=\{.*?\};", OWN_PANEL, inline_module(PACKAGE_FOLDER / "tools/explain/page.js")
    )
    assert count == 1
    monkeypatch.setattr(page, "inline_module", lambda _: text)


@pytest.mark.usefixtures("own_panel")
def test_panel_follows_sample_and_method_controls(page: Any, tmp_path: Path) -> None:
    open_explanation_page(page, table_debugger().explain([3, 4]), tmp_path)
    panel = page.locator(".own")
    assert panel.inner_text() == "3 by auto"
    panel.click()
    page.get_by_text("3 by expected_gradients!").wait_for()
    page.get_by_role("group", name="displayed sample").get_by_role("button", name="sample 4").click()
    page.get_by_text("4 by expected_gradients", exact=True).wait_for()
    page.get_by_label("method", exact=True).select_option("saliency")
    page.get_by_text("4 by saliency").wait_for()
    page.evaluate("restart()")
    page.get_by_label("method", exact=True).select_option("occlusion")
    page.get_by_text("Python is not available").last.wait_for()


def test_time_series_are_read_by_keys_and_colored_below_lines(page: Any, tmp_path: Path) -> None:
    explanation = series_debugger().explain(3)
    open_explanation_page(page, explanation, tmp_path, kernel=False)
    lines = page.locator(".nb-x-line canvas")
    assert lines.count() == 2
    lines.nth(1).focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    reading = page.locator(".nb-x-reading").inner_text()
    assert reading.startswith("channel 1, time 4: ")
    assert first_number(reading.split(":")[1]) == pytest.approx(
        explanation.attribution.array[0, 1, 4], rel=1e-2, abs=1e-4
    )
    assert sum(lines.first.evaluate(COUNT_RED_AND_BLUE).values()) > 100


def test_image_explanation_without_scripts_has_heat_map_image(open_page: OpenPage) -> None:
    explanation = image_debugger().explain(7)
    page = open_page(explanation.view(), scripts=False)
    assert page.locator("img").evaluate("node => node.naturalWidth") == 8
    assert "The sum of the values misses" in page.locator(".nb-plain").inner_text()


def test_explanation_page_of_large_images_is_below_400_kb() -> None:
    explanation = image_debugger(224).explain([7, 8, 9])
    explanation.attribute(method="saliency")
    view = explanation.view()
    assert len(static_html(view)) < 400_000
    assert len(view.state()["attributions"][0]) > 0


@pytest.mark.parametrize(("width", "dark"), [(320, True), (700, False), (1300, False)])
def test_explanation_page_fits_page_width(open_page: OpenPage, width: int, dark: bool) -> None:
    views = [
        table_debugger(feature_names=["a name that is long " * 3] * 20).explain([3, 4]).view(),
        image_debugger().explain(7).view(),
    ]
    page = open_page(*views, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
