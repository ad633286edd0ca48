"""The panels of what changed the mind, in Chromium, answered by the real explanation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.explain.tabular_explanation import tabular_explanation

from .conftest import Open
from .mind import answering, mind_page


def test_the_classes_of_a_difference_are_chosen_and_swapped(open_page: Open) -> None:
    page = open_page(mind_page(tabular_explanation(), "difference", first=0, second=2))
    answering(page, tabular_explanation())
    assert "attribution of the difference" in page.inner_text(".nb-x-difference")
    page.get_by_role("button", name="swap the classes").click()
    page.wait_for_function("document.querySelector('select').value === '2'")
    page.get_by_label("rather than").select_option("1")
    page.get_by_text("yes rather than maybe").first.wait_for()


def test_a_feature_is_held_and_let_go_and_a_class_is_wanted(open_page: Open) -> None:
    page = open_page(mind_page(tabular_explanation(), "counterfactual"), width=320, dark=True)
    answering(page, tabular_explanation())
    first = page.locator(".nb-x-feature").first.inner_text()
    page.get_by_role("button", name=f"fix {first}").first.click()
    page.get_by_role("button", name=f"allow {first} to change").wait_for()
    assert first not in page.locator(".nb-x-feature").all_inner_texts()
    page.get_by_role("button", name=f"allow {first} to change").click()
    page.wait_for_function(f"document.querySelector('.nb-x-feature').textContent === {first!r}")
    other = page.get_by_label("wanted").locator("option").nth(2).inner_text()
    page.get_by_label("wanted").select_option(label=other)
    page.wait_for_function("document.querySelector('select').value !== ''")
    assert all(other in text for text in page.locator(".nb-x-then").all_inner_texts())
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_training_samples_are_cards_for_a_class_and_against_another(open_page: Open) -> None:
    page = open_page(mind_page(tabular_explanation(), "examples"), width=320)
    answering(page, tabular_explanation())
    said = page.locator("select option").all_inner_texts()
    assert len(said) == 2
    page.get_by_label("against", exact=True).select_option(index=1)
    page.get_by_role("list", name=f"Most similar, for {said[1]}").wait_for()
    cards = page.get_by_role("list", name=f"Most similar, for {said[1]}").get_by_role("listitem")
    assert all(f"labeled {said[1]}" in str(one.get_attribute("title")) for one in cards.all())
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("name", ["difference", "counterfactual", "examples"])
def test_without_python_a_panel_says_so_and_stays(open_page: Open, name: str) -> None:
    page: Any = open_page(mind_page(tabular_explanation(), name))
    before = page.locator(".nb-x-main").first.inner_text()
    page.locator("select").first.select_option(index=1)
    page.get_by_text("Python is not available").wait_for()
    assert page.locator(".nb-x-main").first.inner_text() == before
