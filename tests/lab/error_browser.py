"""The error browser in the output of the second cell: its gallery and its confusion matrix."""

from __future__ import annotations

from typing import Any

from tests.lab.lab_page import LabPage

CLASSES = 3


def gallery_cards(lab: LabPage) -> Any:
    """The samples in the gallery."""
    return lab.output(1).locator(".nb-e-card")


def gallery_range(lab: LabPage) -> Any:
    """The text that says which samples are shown, and how many there are."""
    return lab.output(1).locator(".nb-e-pages")


def click_matrix_cell(lab: LabPage, row: int, column: int) -> None:
    """Click a cell of the confusion matrix."""
    stage = lab.output(1).locator(".nb-e-stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    area = stage.evaluate("node => JSON.parse(node.dataset.look)")
    x = box["x"] + area["left"] + (column + 0.5) * area["wide"] / CLASSES
    lab.page.mouse.click(x, box["y"] + area["top"] + (row + 0.5) * area["high"] / CLASSES)


def select_confusion_of_c_as_a(lab: LabPage) -> None:
    """Click the cell of class c predicted as a, and wait until its samples replace those in the gallery."""
    before = gallery_range(lab).inner_text()
    click_matrix_cell(lab, 2, 0)
    lab.output(1).get_by_role("button", name="remove target c → a").wait_for()
    is_replaced = "([node, before]) => /^[0-9]/.test(node.innerText) && node.innerText !== before"
    lab.page.wait_for_function(is_replaced, arg=[gallery_range(lab).element_handle(), before])


def sample_index(card: Any) -> str:
    """The index of the sample on a card."""
    return str(card.locator(".nb-unseen").first.inner_text().split(",")[0].removeprefix("sample "))
