"""Tests of the contrast, counterfactual and examples panels of an explanation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.explain.tabular_explanation import tabular_explanation

from .conftest import OpenPage
from .panel_pages import explanation_panel_page, serve_explanation


def test_contrast_panel_classes_can_be_selected_and_swapped(open_page: OpenPage) -> None:
    page = open_page(explanation_panel_page(tabular_explanation(), "contrast", first=0, second=2))
    serve_explanation(page, tabular_explanation())
    assert "attribution of the difference" in page.inner_text(".nb-x-difference")
    page.get_by_role("button", name="swap the classes").click()
    page.wait_for_function("document.querySelector('select').value === '2'")
    page.get_by_label("rather than").select_option("1")
    page.get_by_text("yes rather than maybe").first.wait_for()


def test_counterfactual_panel_fixes_features_and_targets_selected_class(open_page: OpenPage) -> None:
    page = open_page(explanation_panel_page(tabular_explanation(), "counterfactuals"), width=320, dark=True)
    serve_explanation(page, tabular_explanation())
    feature = page.locator(".nb-x-feature").first.inner_text()
    page.get_by_role("button", name=f"fix {feature}").first.click()
    page.get_by_role("button", name=f"allow {feature} to change").wait_for()
    assert feature not in page.locator(".nb-x-feature").all_inner_texts()
    page.get_by_role("button", name=f"allow {feature} to change").click()
    page.wait_for_function(f"document.querySelector('.nb-x-feature').textContent === {feature!r}")
    class_name = page.get_by_label("wanted").locator("option").nth(2).inner_text()
    page.get_by_label("wanted").select_option(label=class_name)
    page.wait_for_function("document.querySelector('select').value !== ''")
    assert all(class_name in text for text in page.locator(".nb-x-then").all_inner_texts())
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_examples_panel_lists_training_samples_of_selected_class(open_page: OpenPage) -> None:
    page = open_page(explanation_panel_page(tabular_explanation(), "examples"), width=320)
    serve_explanation(page, tabular_explanation())
    class_names = page.locator("select option").all_inner_texts()
    assert len(class_names) == 2
    page.get_by_label("against", exact=True).select_option(index=1)
    page.get_by_role("list", name=f"Most similar, for {class_names[1]}").wait_for()
    cards = page.get_by_role("list", name=f"Most similar, for {class_names[1]}").get_by_role("listitem")
    assert all(f"labeled {class_names[1]}" in str(card.get_attribute("title")) for card in cards.all())
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("name", ["contrast", "counterfactuals", "examples"])
def test_explanation_panel_without_kernel_keeps_content_and_says_so(open_page: OpenPage, name: str) -> None:
    page: Any = open_page(explanation_panel_page(tabular_explanation(), name))
    before = page.locator(".nb-x-main").first.inner_text()
    page.locator("select").first.select_option(index=1)
    page.get_by_text("Python is not available").wait_for()
    assert page.locator(".nb-x-main").first.inner_text() == before
