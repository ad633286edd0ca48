"""The panels of slices and of fairness in a browser, with the real search behind them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.panels import fairness, slices
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html, style_sheets
from nbdebug.views.panel import Panel, PanelView

from .conftest import Open
from .samples import NASTY

START = """async ([source, css, name, state]) => {
  document.body.innerHTML = "<style></style><div id=el class=nbdebug></div>";
  document.querySelector("style").textContent = css;
  window.went = [];
  const found = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const ask = (asked) => (window.python ? window.python(asked) : Promise.resolve(undefined));
  document.getElementById("el").append(found[`${name}Panel`](state, (query, label) => went.push([query, label]), ask));
}"""
PANELS = {one.name: one for one in (slices.PANEL, fairness.PANEL)}


def errors(rows: int = 2003, **columns: Any) -> Errors:
    """A classifier of two classes that is worse in the dark, with columns."""
    rng = np.random.default_rng(0)
    brightness = rng.random(rows).astype(np.float32)
    sex = rng.choice(["male", "female"], rows)
    target = rng.integers(0, 2, rows)
    scores = rng.normal(size=(rows, 2))
    scores[np.arange(rows), target] += np.where(brightness < 0.2, 0.2, 3)
    known = {"brightness": brightness, "sex": sex, "noise": rng.normal(size=rows), **columns}
    return Errors(ClassificationTable.from_arrays(scores, target, class_names=["no", "yes"], columns=known), "headline")


def opened(page: Any, name: str, given: Errors, alive: bool = True, **options: Any) -> None:
    """One panel, with Python behind it if ``alive``."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"state": PANELS[asked["name"]].state(given, **asked["options"])}
        except SetupError as error:
            return {"trouble": str(error)}

    if alive:
        page.expose_function("python", answer)
    state = json.loads(json.dumps(PANELS[name].state(given, **options), allow_nan=False))
    page.evaluate(
        START,
        [inline_module(PACKAGE_FOLDER / f"tools/errors/panels/{name}.js"), style_sheets("tools/errors"), name, state],
    )


def rows_of(page: Any, given: Errors) -> tuple[np.ndarray, str]:
    """The rows to which the last click leads, and their label."""
    query, label = page.evaluate("went.at(-1)")
    cards = given.answer({"kind": "rows", "query": {**query, "count": 100_000}})["cards"]
    return np.sort([one["row"] for one in cards]), label


def test_a_slice_is_a_click_away_from_its_rows(page: Any) -> None:
    given = errors()
    opened(page, "slices", given)
    (found,) = given.slices().slices
    assert f"Tested {given.slices().tried} slices" in page.locator(".nb-status").first.inner_text().replace(",", "")
    row = page.locator("tbody tr")
    assert row.count() == 1
    assert f"{found.value:.1%}" in row.inner_text()
    assert f"{found.rest:.1%}" in row.inner_text()
    page.get_by_role("button", name=found.description).click()
    rows, label = rows_of(page, given)
    assert label == found.description
    assert np.array_equal(rows, given.table.matching_rows(found.query))
    page.get_by_role("button", name=f"{found.value:.1%}").click()
    rows, label = rows_of(page, given)
    assert label.startswith("wrong, ")
    assert len(rows) == round(found.value * found.support)


def test_an_own_slice_is_measured(page: Any) -> None:
    given = errors()
    opened(page, "slices", given)
    page.locator("summary").click()
    page.get_by_label("Column", exact=True).select_option("brightness")
    page.get_by_label("brightness to").fill("0.5")
    page.get_by_label("And column").select_option("sex")
    page.get_by_label("sex is").select_option("female")
    page.get_by_role("button", name="Measure this slice").click()
    own = page.get_by_role("region", name="Your slice")
    own.wait_for()
    mask = (given.table.columns["brightness"] <= 0.5) & (given.table.columns["sex"] == "female")
    assert "brightness ≤ 0.5 and sex = female" in own.inner_text()
    assert f"{(~given.table.right[mask]).mean():.1%}" in own.inner_text()
    own.get_by_role("button", name="brightness").click()
    assert np.array_equal(rows_of(page, given)[0], np.flatnonzero(mask))


def test_an_own_slice_without_rows_says_so(page: Any) -> None:
    opened(page, "slices", errors())
    page.locator("summary").click()
    page.get_by_label("Column", exact=True).select_option("brightness")
    page.get_by_label("brightness from").fill("7")
    page.keyboard.press("Enter")
    page.get_by_text("the slice has 0 of 2003 rows").wait_for()


def test_a_large_table_is_searched_when_the_panel_is_opened(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MAX_VALUES_WITHOUT_REQUEST", 10)
    given = errors()
    assert PANELS["slices"].state(given)["late"]
    assert "errors.slices()" in PANELS["slices"].html(PANELS["slices"].state(given))
    opened(page, "slices", given)
    page.get_by_role("button", name="brightness ≤").wait_for()
    assert not PANELS["slices"].state(given)["late"]


def test_without_a_kernel_the_line_to_write_is_said(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MAX_VALUES_WITHOUT_REQUEST", 10)
    opened(page, "slices", errors(), alive=False)
    page.get_by_text("errors.slices()").wait_for()


def test_nothing_found_is_said(page: Any) -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 500)
    table = ClassificationTable.from_arrays(rng.permutation(target), target, columns={"x": rng.normal(size=500)})
    opened(page, "slices", Errors(table, ""))
    page.get_by_text("No slice is significantly worse").wait_for()


def test_groups_are_compared_by_the_column_that_is_picked(page: Any) -> None:
    given = errors()
    opened(page, "fairness", given)
    page.get_by_text("Choose a column").wait_for()
    page.get_by_label("Group by").select_option("sex")
    page.get_by_text("true-positive rate", exact=True).first.wait_for()
    found = given.fairness("sex")
    for one in found.groups:
        for name, rate in one.rates.items():
            text = page.get_by_role("group", name=name, exact=True).inner_text()
            assert f"{rate.value:.1%}" in text
            assert f"{rate.low:.1%} to {rate.high:.1%}, of {rate.rows:,}" in text
    page.get_by_role("group", name="accuracy", exact=True).get_by_role("button", name="female").click()
    rows, label = rows_of(page, given)
    assert label == "sex female"
    assert np.array_equal(rows, np.flatnonzero(given.table.columns["sex"] == "female"))
    page.get_by_label("Positive class").select_option("no")
    page.wait_for_function("document.querySelector('select:nth-of-type(1)').value === 'sex'")
    selected = given.fairness("sex", "no").groups[0].rates["selection rate"]
    page.get_by_role("group", name="selection rate", exact=True).get_by_text(f"{selected.value:.1%}").wait_for()


def test_what_was_compared_last_is_shown_first(page: Any) -> None:
    given = errors()
    given.fairness("brightness")
    given.fairness("sex")
    given.fairness("brightness")
    opened(page, "fairness", given, alive=False)
    assert page.get_by_label("Group by").input_value() == "brightness"
    assert page.get_by_role("group", name="accuracy", exact=True).get_by_role("button").count() == 4


def views() -> list[PanelView]:
    """Both panels as pages, full of texts that try to be markup."""
    given = errors(**{NASTY: np.where(np.arange(2003) % 2, NASTY, "b")})
    given.fairness(NASTY)
    panels: list[Panel] = [*PANELS.values()]
    states = [one.state(given) for one in panels]
    return [PanelView(one.name, NASTY, state, one.html(state)) for one, state in zip(panels, states, strict=True)]


def test_text_from_data_never_becomes_markup(open_page: Open) -> None:
    page = open_page(*views())
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert NASTY in page.locator("body").inner_text()


@pytest.mark.parametrize("width", [320, 900, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_no_panel_scrolls_sideways(open_page: Open, width: int, dark: bool) -> None:
    given = errors()
    own = [{"column": "sex", "values": ["male"]}, {"column": "brightness", "low": 0.1, "high": 0.2}]
    states = {"slices": slices.state(given, own=own), "fairness": fairness.state(given, "brightness", "yes")}
    page = open_page(*(PanelView(name, name, state) for name, state in states.items()), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_results_on_their_own_say_the_line_that_leads_to_rows(open_page: Open) -> None:
    given = errors()
    page = open_page(given.slices().view())
    page.get_by_role("button", name="brightness ≤").click()
    line = page.locator("pre.nb-code").inner_text()
    rows = eval(line, {"errors": given})
    assert len(rows) == 24
    assert rows["brightness"].max() <= given.slices().slices[0].conditions[0].high


def test_without_scripts_the_content_is_plain_html(open_page: Open) -> None:
    given = errors()
    for view in (given.slices().view(), given.fairness("sex").view()):
        page = open_page(view, scripts=False)
        assert page.locator(".nb-plain table").is_visible()
        assert len(static_html(view)) < 60_000


def test_the_state_stays_small_however_many_values_there_are() -> None:
    many = {f"column {i}": np.array([f"{'x' * 300} {j}" for j in range(2003)]) for i in range(3)}
    given = errors(**many)
    assert len(json.dumps(slices.state(given))) < 100_000
    assert fairness.group_columns(given) == ["brightness", "sex", "noise"]
