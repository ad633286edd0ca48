"""The panel of residuals in a browser: a box by pointer or keys leads to its rows, other axes are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.regression import RegressionTable
from nbdebug.tools.errors.panels import residuals
from nbdebug.tools.errors.panels.residuals import PANEL, state
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json

from .conftest import Open
from .panels import answering, page_of, went


def made(rows: int = 3000) -> Errors:
    random = np.random.default_rng(0)
    age = random.uniform(0, 10, rows)
    target = random.normal(0, 2, rows)
    columns = {"age": age, "kind": np.where(age > 5, "old", "<b>new</b>")}
    table = RegressionTable.from_arrays(target + random.normal(0, 1 + age / 3, rows), target, columns=columns)
    return Errors(table, table.headline())


def inside(errors: Errors, ranges: dict[str, Any]) -> list[int]:
    fits = np.ones(len(errors.table), bool)
    for name, (low, high) in ranges.items():
        values = errors.table.columns[name]
        fits &= (values >= (-np.inf if low is None else low)) & (values <= (np.inf if high is None else high))
    return np.flatnonzero(fits).tolist()


def drag(page: Any, *places: tuple[float, float]) -> None:
    """Drags from one place of the picture to others, in parts of its size."""
    box = page.get_by_role("application").locator("canvas").bounding_box()
    ((x, y), *rest) = [(box["x"] + u * box["width"], box["y"] + v * box["height"]) for u, v in places]
    page.mouse.move(x, y)
    page.mouse.down()
    for one in rest:
        page.mouse.move(*one, steps=4)
    page.mouse.up()


@pytest.mark.parametrize("rows", [300, 3000])
def test_a_box_leads_to_its_rows(open_page: Open, rows: int) -> None:
    errors = made(rows)
    page = open_page(page_of(errors, "scatter"))
    drag(page, (0.4, 0.3), (0.7, 0.6))
    ranges = page.evaluate("went.at(-1).query.ranges")
    found, label = went(page, errors)
    assert sorted(found) == inside(errors, ranges)
    assert 0 < len(found) < rows
    assert label.startswith("prediction ")
    said = page.locator(".nb-reading").inner_text()
    count = int(said.split(": ")[1].removeprefix("about ").split()[0].replace(",", ""))
    assert abs(count - len(found)) <= (0 if rows == 300 else 0.1 * len(found))


def test_a_box_at_the_edge_has_no_end(open_page: Open) -> None:
    errors = made()
    errors.table.columns["residual"][7] = 1e6
    page = open_page(page_of(errors, "scatter"))
    assert "drawn at the edge: 1." in page.locator(".nb-panelbox").inner_text()
    drag(page, (0.001, 0.3), (0.999, 0.001))
    found, label = went(page, errors)
    assert label.startswith("any prediction, residual from ")
    assert 7 in found


def test_keys_do_what_the_pointer_does(open_page: Open) -> None:
    errors = made()
    page = open_page(page_of(errors, "scatter"))
    stage = page.get_by_role("application")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Shift+ArrowLeft", "Shift+ArrowUp", "Enter"):
        stage.press(key)
    (x0, x1), (y0, y1) = state(errors)["plot"]["ends"]
    ranges = page.evaluate("went.at(-1).query.ranges")
    assert ranges["prediction"] == pytest.approx([x0 + 0.5 * (x1 - x0), x0 + 0.6 * (x1 - x0)])
    assert ranges["residual"] == pytest.approx([y0 + 0.5 * (y1 - y0), y0 + 0.8 * (y1 - y0)])
    assert sorted(went(page, errors)[0]) == inside(errors, ranges)
    stage.press("Escape")
    stage.press("Enter")
    assert page.evaluate("went.length") == 1


def test_a_dot_leads_to_its_sample(open_page: Open) -> None:
    errors = made(1)
    page = open_page(page_of(errors, "scatter"))
    page.get_by_role("application").locator("canvas").click(position=page.evaluate(CENTER))
    assert went(page, errors)[0] == [0]


CENTER = """() => {
  const {width, height} = document.querySelector("canvas").getBoundingClientRect();
  return {x: (46 + width - 12) / 2, y: (18 + height - 34) / 2};
}"""


def test_other_axes_are_asked_for(open_page: Open) -> None:
    errors = made()
    page = open_page(page_of(errors, "scatter"))
    assert "Residuals fall with prediction" in page.get_by_role("status").first.inner_text()
    across = page.get_by_label("across")
    assert across.locator("option").all_inner_texts() == ["loss", "target", "prediction", "residual", "age"]
    across.select_option("age")
    assert page.get_by_text('errors.to_frame().plot.scatter("age", "residual")').is_visible()
    answering(page, errors)
    page.get_by_label("across").select_option("loss")
    page.get_by_label("across").select_option("age")
    page.get_by_text("in the highest tenth of age as in the lowest tenth (heteroscedastic)").wait_for()
    drag(page, (0.5, 0.2), (0.8, 0.8))
    ranges = page.evaluate("went.at(-1).query.ranges")
    assert set(ranges) == {"age", "residual"}
    assert sorted(went(page, errors)[0]) == inside(errors, ranges)


def test_it_stays_small_and_waits_where_there_is_much(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = made(200_000)
    assert len(to_script_json(state(errors))) < 100_000
    monkeypatch.setattr(residuals, "MAX_ROWS_WITHOUT_REQUEST", 1000)
    later = state(errors)
    assert later["later"]
    assert later["plot"] is None
    assert state(errors, now=True)["plot"]["rows"] == 200_000
    page = open_page(page_of(errors, "scatter"))
    assert page.get_by_text("Python is not available").is_visible()


def test_what_is_not_a_number_is_left_out_or_refused() -> None:
    errors = made(300)
    errors.table.columns["residual"][:10] = np.nan
    errors.table.columns["age"][:] = np.nan
    assert state(errors)["plot"]["rows"] == 290
    assert state(errors, x="age")["said"] == "No sample has a number for both age and residual."
    with pytest.raises(SetupError, match="column 'kind' holds texts; expected numbers"):
        state(errors, x="kind")
    with pytest.raises(SetupError, match="column is 'height'"):
        state(errors, x="height")


def test_counts_and_trend_are_those_of_the_rows() -> None:
    errors = made()
    plot = state(errors)["plot"]
    x, y = (errors.table.columns[name] for name in ("prediction", "residual"))
    wanted, _, _ = np.histogram2d(x, y, plot["boxes"], plot["ends"])
    found = np.zeros_like(wanted)
    for i, j, count in plot["cells"]:
        found[i, j] = count
    np.testing.assert_array_equal(found, wanted)
    assert found.sum() + plot["beyond"] == 3000
    order = np.argsort(x, kind="stable")[:150]
    assert plot["trend"]["mean"][0] == pytest.approx(y[order].mean())
    assert plot["trend"]["low"][0] == pytest.approx(np.quantile(y[order], 0.1))


def test_it_is_for_real_numbers_only() -> None:
    assert PANEL.fits(made())
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays([0, 1], [0, 1]), "labels"))
    assert "<td>" in PANEL.html(state(made()))
    many = RegressionTable.from_arrays(np.random.default_rng(0).normal(size=(90, 12)), np.zeros((90, 12)))
    assert state(Errors(many, ""))["y"] == "worst residual"


def test_it_fits_a_narrow_page(open_page: Open) -> None:
    page = open_page(page_of(made(), "scatter"), width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.get_by_role("application").is_visible()
