"""The panel of flips in a browser: what was fixed and broken, and the rows behind each number."""

from __future__ import annotations

import numpy as np

from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels.flips import state
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import ErrorComparison, Errors
from nbdebug.views.page import to_script_json

from .conftest import Open
from .panels import ANIMALS, made, page_of, went


def flipped(
    rows: int = 500, classes: int = 5, better: float = 0.2
) -> tuple[ErrorComparison, np.ndarray, np.ndarray, np.ndarray]:
    """A comparison, and both predictions and the target behind it."""
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows)
    old = np.where(random.random(rows) < 0.6, target, random.integers(0, classes, rows))
    new = np.where(random.random(rows) < 0.6 + better, target, random.integers(0, classes, rows))
    names = ANIMALS if classes == 5 else [f"kind {i}" for i in range(classes)]

    def errors(said: np.ndarray) -> Errors:
        return Errors(ClassificationTable.from_arrays(said, target, class_names=names), "made here")

    return errors(new).compare(errors(old)), old, new, target


def test_each_count_leads_to_its_rows(open_page: Open) -> None:
    found, old, new, target = flipped()
    page = open_page(page_of(found, "flips"))
    assert page.get_by_text("Significantly better.").is_visible()
    page.get_by_title("Show the samples that are broken").click()
    rows, label = went(page, found)
    assert sorted(rows) == np.flatnonzero((old == target) & (new != target)).tolist()
    assert label == "broken"
    row = page.locator("[aria-label='Flips by class'] tbody tr", has_text="bee")
    row.locator("td[data-label=broken] button").click()
    wanted = (old == target) & (new != target) & (target == 1)
    assert sorted(went(page, found)[0]) == np.flatnonzero(wanted).tolist()
    row.locator("td[data-label=fixed] button").click()
    wanted = (old != target) & (new == target) & (target == 1)
    assert sorted(went(page, found)[0]) == np.flatnonzero(wanted).tolist()


def test_a_cell_of_the_matrix_leads_to_its_rows(open_page: Open) -> None:
    found, old, new, target = flipped()
    page = open_page(page_of(found, "flips"))
    count = ((old == 0) & (new == 2)).sum()
    page.get_by_role("button", name=f"ant before, cat now: {count}").click()
    assert sorted(went(page, found)[0]) == np.flatnonzero((old == 0) & (new == 2)).tolist()
    page.get_by_role("button", name="wrong now").click()
    wrong = (old == 0) & (new == 2) & (target != 2)
    page.get_by_role("button", name=f"ant before, cat now: {wrong.sum()}").click()
    rows, label = went(page, found)
    assert sorted(rows) == np.flatnonzero(wrong).tolist()
    assert label == "ant before, cat now, wrong"


def test_the_list_of_moves_leads_to_rows_too(open_page: Open) -> None:
    found, old, new, _ = flipped()
    page = open_page(page_of(found, "flips"))
    page.get_by_text("most frequent changes").click()
    first = state(found)["pairs"][0]
    page.get_by_role("button", name=" → ".join(first["names"])).click()
    a, b = (ANIMALS.index(name) for name in first["names"])
    assert sorted(went(page, found)[0]) == np.flatnonzero((old == a) & (new == b)).tolist()


def test_a_difference_by_chance_is_called_so(open_page: Open) -> None:
    found, *_ = flipped(better=0.0)
    page = open_page(page_of(found, "flips"))
    assert page.get_by_text("is not significant").is_visible()


def test_the_same_model_twice_has_nothing_to_show(open_page: Open) -> None:
    errors = made()
    found = errors.compare(errors)
    page = open_page(page_of(found, "flips"))
    assert page.get_by_label("Matrix of flips").count() == 0
    assert "0 fixed, 0 broken" in page_of(found, "flips").html()


def test_many_classes_stay_small(open_page: Open) -> None:
    found, *_ = flipped(rows=20_000, classes=1000)
    view = page_of(found, "flips")
    assert len(to_script_json(view.state())) < 30_000
    page = open_page(view, width=320, dark=True)
    assert page.get_by_text("The 50 of 1,000 classes").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_rows_without_a_target_are_in_no_count() -> None:
    random = np.random.default_rng(0)
    target, old, new = (random.integers(0, 3, 90) for _ in range(3))
    target[:30] = -1

    def errors(said: np.ndarray) -> Errors:
        return Errors(ClassificationTable.from_arrays(said, target), "made here")

    found = state(errors(new).compare(errors(old)))
    assert sum(found["counts"].values()) == 60
    assert sum(map(sum, found["matrix"]["moves"])) == 60


def test_it_is_for_comparisons_only() -> None:
    assert "flips" not in [one.name for one in all_panels() if one.fits(made())]
    assert "flips" in [one.name for one in all_panels() if one.fits(flipped()[0])]
