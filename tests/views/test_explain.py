"""The page of an explanation in Chromium, answered by the real one: each kind of input, and what is said of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nbdebug.views import page
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html
from nbdebug.views.panel import Panel

from .conftest import Open
from .explanations import number, of_pictures, of_rows, of_series, of_text, opened
from .test_errors_static import ATTACK

PANEL = """function ownPanel(state, ask) {
  const node = document.createElement("div");
  node.className = "own";
  node.textContent = state.text;
  node.onclick = async () => { const found = await ask({ end: "!" }); node.textContent = found.text ?? found.trouble; };
  return node;
}
const EXPLAIN_PANELS = { own: ownPanel };"""
COLORS = """node => {
  const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height), found = { up: 0, down: 0 };
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > data[i + 2] + 40) found.up++;
    if (data[i + 2] > data[i] + 40) found.down++;
  }
  return found;
}"""


def rows(page: Any) -> dict[str, float]:
    """The rows of bars: names with numbers."""
    texts = page.locator(".nb-x-rows .nb-x-row").evaluate_all(
        "all => all.map(one => ['name', 'number'].map(part => one.querySelector(`.nb-x-${part}`).textContent))"
    )
    return {name: number(value) for name, value in texts if name != "not explained"}


def test_a_picture_has_its_heat_map_in_the_unit_of_the_score(page: Any, tmp_path: Path) -> None:
    result = of_pictures().explain(7)
    opened(page, result, tmp_path)
    canvas, reading = page.locator(".nb-x-stage canvas"), page.locator(".nb-x-reading")
    found = page.evaluate(f"({COLORS})(document.querySelector('.nb-x-stage canvas'))")
    assert found["up"] > 100
    assert found["down"] > 100
    heat = result.attribution.array[0, 0]
    box = canvas.bounding_box()
    for row, column in ((2, 5), (7, 0)):
        page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 8, box["y"] + (row + 0.5) * box["height"] / 8)
        assert f"row {row}, column {column}:" in reading.inner_text()
        assert reading.inner_text().endswith(" logit")
        said = number(reading.inner_text().split(":")[1])
        assert said == pytest.approx(heat[row, column], rel=0.06, abs=abs(heat).max() / 127)
    page.get_by_role("button", name="+ only").click()
    assert canvas.evaluate(COLORS)["down"] == 0
    page.get_by_role("button", name="the largest").click()
    assert number(page.locator(".nb-x-legend").inner_text().split("logit")[1]) == pytest.approx(
        abs(heat).max(), rel=1e-2
    )
    hold = page.get_by_role("button", name="hold: image only").bounding_box()
    page.mouse.move(hold["x"] + 5, hold["y"] + 5)
    page.mouse.down()
    assert canvas.evaluate(COLORS) == {"up": 0, "down": 0}
    page.mouse.up()
    assert canvas.evaluate(COLORS)["up"] > 0
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert "row 1, column 1:" in reading.inner_text()


def test_methods_are_called_as_people_call_them(page: Any, tmp_path: Path) -> None:
    opened(page, of_pictures().explain(3, method="gradcam"), tmp_path)
    page.get_by_text("(Grad-CAM)").wait_for()
    names = page.get_by_label("method", exact=True).locator("option").all_inner_texts()
    assert {"expected gradients", "input × gradient", "Grad-CAM", "LIME"} <= set(names)
    assert not [one for one in names if "_" in one]


def test_a_click_on_a_class_explains_it_and_says_how_exactly(page: Any, tmp_path: Path) -> None:
    result = of_rows().explain(4)
    opened(page, result, tmp_path)
    first = result.view().state()["samples"][0]
    marks = page.locator(".nb-x-chance").first.inner_text()
    assert all(word in marks for word in ("predicted", "explained"))
    last = first["outputs"][-1]
    page.get_by_role("button", name=last["name"]).click()
    page.get_by_text(f"logit of {last['name']}").first.wait_for()
    wanted = result.attribute(target=last["class"])
    assert page.get_by_label("class", exact=True).input_value() == str(last["class"])
    assert "explained" in page.locator(f"[data-class='{last['class']}']").inner_text()
    shown = rows(page)
    assert shown["base (mean score)"] == pytest.approx(wanted.base[0], rel=1e-3)
    assert sum(list(shown.values())[:-1]) == pytest.approx(shown[f"logit of {last['name']}"], abs=0.02)
    assert shown["8 more"] == pytest.approx(sum(sorted(wanted.array[0], key=abs)[:8]), abs=0.01)
    said = page.locator(".nb-x-exact .nb-x-verdict").inner_text()
    assert "Completeness" in said
    assert "a gap of" in said
    assert "compared with 32 training samples" in said
    page.get_by_role("button", name="show all 20").click()
    assert len(rows(page)) == 22
    page.get_by_role("button", name="force").click()
    parts = page.locator(".nb-x-part").evaluate_all("all => all.map(one => [one.className, one.title])")
    assert {"up" in kind: number(said.split(":")[1]) > 0 for kind, said in parts} == {True: True, False: False}
    page.get_by_label("method", exact=True).select_option("saliency")
    page.get_by_text("gives a ranking").wait_for()
    assert page.locator(".nb-x-base").count() == 0
    page.get_by_label("method", exact=True).select_option("shapley")
    page.get_by_text("(shapley)").wait_for()
    page.get_by_role("button", name="waterfall").click()
    assert page.locator(".nb-x-whisker").count() == 12


def test_tokens_are_colored_and_read_by_keys(page: Any, tmp_path: Path) -> None:
    result = of_text([ATTACK, *"bcdefgh"])
    opened(page, result, tmp_path, kernel=False)
    weights = result.attribution.array[0]
    tokens = page.locator(".nb-x-token")
    assert [kind.split("-")[-1] for kind in tokens.evaluate_all("all => all.map(one => one.className)")] == [
        "down" if weight < 0 else "up" for weight in weights
    ]
    tokens.first.focus()
    for at, weight in enumerate(weights):
        reading = page.locator(".nb-x-reading").inner_text()
        assert reading.startswith(f"token {at}, ")
        assert number(reading.split("”:")[1]) == pytest.approx(weight, rel=1e-2, abs=1e-4)
        page.keyboard.press("ArrowRight")
    assert page.evaluate("window.hit") is None


def test_two_samples_stand_side_by_side_and_are_asked_alike(page: Any, tmp_path: Path) -> None:
    result = of_rows().explain(3)
    opened(page, result, tmp_path)
    page.get_by_label("dataset index of the sample").fill("11")
    page.get_by_role("button", name="show", exact=True).click()
    columns = page.locator(".nb-x-column")
    columns.nth(1).get_by_text("sample 11").wait_for()
    left, right = (columns.nth(at).bounding_box() for at in (0, 1))
    assert left["y"] == right["y"]
    page.get_by_label("method", exact=True).select_option("occlusion")
    for at in (0, 1):
        columns.nth(at).get_by_text("(occlusion)").wait_for()
    other = result.for_dataset_index(11).attribute(method="occlusion")
    name, value = max(enumerate(other.array[0]), key=lambda one: abs(one[1]))
    first = columns.nth(1).locator(".nb-x-row", has=page.locator(".nb-x-up, .nb-x-down")).first
    assert first.locator(".nb-x-name").inner_text().startswith(f"{name} = ")
    assert number(first.locator(".nb-x-number").inner_text()) == pytest.approx(value, rel=1e-2)
    page.get_by_label("dataset index of the sample").fill("99")
    page.get_by_role("button", name="show", exact=True).click()
    page.get_by_text("expected 0 to 31").wait_for()
    page.get_by_role("button", name="close sample 11").click()
    assert columns.count() == 1


def test_two_pictures_may_have_one_scale(page: Any, tmp_path: Path) -> None:
    opened(page, of_pictures().explain([3, 4]), tmp_path, kernel=False)
    legends = page.locator(".nb-x-legend")
    own = [number(one.split("logit")[1]) for one in legends.all_inner_texts()]
    assert own[0] != own[1]
    page.get_by_role("button", name="same for all").first.click()
    assert [number(one.split("logit")[1]) for one in legends.all_inner_texts()] == [max(own)] * 2


def test_without_python_it_shows_what_it_holds_and_the_line_for_the_rest(page: Any, tmp_path: Path) -> None:
    dbg = of_rows()
    result = dbg.explain([3, 4, 5])
    result.attribute(method="saliency")
    opened(page, result, tmp_path, kernel=False)
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


def test_what_takes_long_is_told_and_computed_when_it_is_asked_for(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbdebug.tools.explain.page_requests.TIME_LIMIT", 0.0)
    monkeypatch.setattr("nbdebug.inference.progress.MIN_MEASURED_SECONDS", 0.0)
    opened(page, of_rows().explain(4), tmp_path)
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
def with_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A panel in Python and on the page, that says of what it is."""

    def state(explanation: Any, row: int, end: str = "", **asked: Any) -> dict[str, Any]:
        return {"text": f"{explanation.keys[row]} by {asked.get('method', explanation.request.method)}{end}"}

    panel = Panel(
        "own", "Own", lambda _: True, state, lambda state: f"<p>{state['text']}</p>", follows=("method", "target")
    )
    for place in ("presentation", "page_requests"):
        monkeypatch.setattr(f"nbdebug.tools.explain.{place}.applicable_panels", lambda _: [panel])
    text, none = re.subn(
        r"const EXPLAIN_PANELS=\{.*?\};", PANEL, inline_module(PACKAGE_FOLDER / "tools/explain/page.js")
    )
    assert none == 1
    monkeypatch.setattr(page, "module_source", lambda _: text)


@pytest.mark.usefixtures("with_panel")
def test_a_panel_is_of_the_sample_and_of_what_the_controls_say(page: Any, tmp_path: Path) -> None:
    opened(page, of_rows().explain([3, 4]), tmp_path)
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


def test_series_have_bands_beneath_their_lines(page: Any, tmp_path: Path) -> None:
    result = of_series().explain(3)
    opened(page, result, tmp_path, kernel=False)
    lines = page.locator(".nb-x-line canvas")
    assert lines.count() == 2
    lines.nth(1).focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    said = page.locator(".nb-x-reading").inner_text()
    assert said.startswith("channel 1, time 4: ")
    assert number(said.split(":")[1]) == pytest.approx(result.attribution.array[0, 1, 4], rel=1e-2, abs=1e-4)
    assert sum(lines.first.evaluate(COLORS).values()) > 100


def test_without_scripts_there_is_a_picture_of_the_heat_map(open_page: Open) -> None:
    result = of_pictures().explain(7)
    page = open_page(result.view(), scripts=False)
    assert page.locator("img").evaluate("node => node.naturalWidth") == 8
    assert "The sum of the values misses" in page.locator(".nb-plain").inner_text()


def test_a_large_picture_leaves_the_page_small() -> None:
    result = of_pictures(224).explain([7, 8, 9])
    result.attribute(method="saliency")
    view = result.view()
    assert len(static_html(view)) < 400_000
    assert len(view.state()["attributions"][0]) > 0


@pytest.mark.parametrize(("width", "dark"), [(320, True), (700, False), (1300, False)])
def test_it_never_scrolls_sideways(open_page: Open, width: int, dark: bool) -> None:
    views = [
        of_rows(feature_names=["a name that is long " * 3] * 20).explain([3, 4]).view(),
        of_pictures().explain(7).view(),
    ]
    page = open_page(*views, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
