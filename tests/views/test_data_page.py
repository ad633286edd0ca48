"""Tests of the page of a data profile: its samples in the error browser, and labels that are tried there."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.tools.data import DataProfile
from nbdebug.tools.errors import Errors
from nbdebug.views.kernel_bridge import get_response
from nbdebug.views.page import static_html
from tests.browser import PagePool, answer_requests
from tests.tools.data.setups import digits
from tests.views.error_browser_pages import FAKE_KERNEL


@pytest.fixture(scope="module")
def debugger() -> Debugger:
    """A Debugger of digits with 40 wrong labels, and 6 training samples that are in validation too."""
    (x, y), (x_val, y_val) = digits()
    y[:40] = (y[:40] + 1 + torch.arange(40) % 9) % 10
    x_val[:6], y_val[:6] = x[100:106], y[100:106]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    loaders = DataLoader(TensorDataset(x, y), 64, shuffle=True), DataLoader(TensorDataset(x_val, y_val), 256)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


@pytest.fixture(scope="module")
def profile(debugger: Debugger) -> DataProfile:
    """Its profile."""
    return debugger.data()


@pytest.fixture
def page_of(page_pool: PagePool) -> Iterator[Callable[..., Any]]:
    """Open an empty page of some width and color scheme; any error of the page fails the test."""
    with ExitStack() as pages:
        yield lambda **options: pages.enter_context(page_pool.page(**options))


def open_data_page(page: Any, profile: DataProfile, folder: Path, tab: str) -> Any:
    """Open a tab of the page of a profile, which answers its requests."""
    file = folder / "data.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(profile.view(), "result"), encoding="utf-8")
    page.set_default_timeout(20_000)
    page.goto(file.as_uri())
    page.locator(".nb-d-tabs .nb-tab", has_text=tab).click()
    answer_requests(page, lambda text: json.dumps(get_response(profile, json.loads(text))))
    page.evaluate(FAKE_KERNEL)
    return page


def browser_of(debugger: Debugger) -> Errors:
    """The last error browser."""
    browser = debugger.results["errors"]
    assert isinstance(browser, Errors)
    return browser


@pytest.mark.parametrize(("width", "color_scheme"), [(1300, "light"), (700, "dark")])
def test_suspects_are_a_filter_of_the_gallery_and_their_labels_are_tried(
    page_of: Any, debugger: Debugger, profile: DataProfile, tmp_path: Path, width: int, color_scheme: str
) -> None:
    debugger.results.pop("errors", None)  # whose tags are those of the test before
    profile._cache.clear()
    suspects = [suspect.index for suspect in profile.labels.suspects if suspect.split == "train"]
    page = open_data_page(page_of(width=width, color_scheme=color_scheme), profile, tmp_path, "Labels")
    page.get_by_role("button", name=f"Show {len(suspects)} of training in the error browser").click()
    page.locator(".nb-e-chips").get_by_text("labels are suspect").wait_for()
    page.locator(".nb-e-pages").get_by_text(f"of {len(suspects)}").wait_for()
    shown = page.locator(".nb-e-card > .nb-unseen").all_inner_texts()
    assert {int(name.removeprefix("sample ")) for name in shown} <= set(suspects)
    page.locator(".nb-e-card").first.focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name=f"Select all {len(suspects)}").click()
    page.get_by_text(f"{len(suspects)} selected").wait_for()
    page.get_by_role("group", name="tags", exact=True).get_by_role("button", name="wrong label").click()
    page.locator(".nb-e-tag").first.wait_for()
    assert browser_of(debugger).tags.tagged("wrong label") == sorted(suspects)
    page.get_by_label("filter by a tag").select_option("wrong label")
    page.get_by_role("button", name="Retrain without these samples").click()
    page.get_by_text("The paired difference is").first.wait_for(timeout=60_000)
    effect = debugger.results["label_effect"]
    text = page.locator(".nb-e-lists .nb-banner").inner_text()
    assert str(effect.difference) in text  # type: ignore[attr-defined]
    assert page.locator(".nb-e-lists canvas, .nb-e-lists svg").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".nb-e-chips").get_by_text("labels are suspect").click()
    page.get_by_role("button", name="Close the error browser").click()
    assert page.locator(".nb-e-card").count() == 0


def test_duplicates_are_shown_in_the_split_that_is_chosen(
    page_of: Any, debugger: Debugger, profile: DataProfile, tmp_path: Path
) -> None:
    page = open_data_page(page_of(), profile, tmp_path, "Duplicates")
    page.get_by_role("button", name="Show 6 of validation in the error browser").click()
    page.locator(".nb-e-pages").get_by_text("of 6").wait_for()
    names = page.locator(".nb-e-card > .nb-unseen").all_inner_texts()
    assert sorted(int(name.removeprefix("sample ")) for name in names) == list(range(6))
    assert browser_of(debugger).dataset is debugger.setup.val_loader.dataset
    assert not page.get_by_role("button", name="Retrain without these samples").is_visible()
    page.evaluate("restart()")
    assert not page.get_by_role("button", name="Show 6 of validation").is_visible()


def test_displayed_browser_of_the_split_is_used(debugger: Debugger, profile: DataProfile) -> None:
    browser = debugger.errors("train")
    profile._cache.clear()
    group = next(group for _, group in profile.galleries if "train" in group.samples)
    answer = get_response(profile, {"kind": "browse", "group": group.number, "split": "train"})
    assert profile._cache == {"train": browser}
    rows = answer["page"]["state"]["filter"]["query"]["rows"]
    assert sorted(browser.table.keys(rows)) == sorted(group.samples["train"])


def test_profile_without_setup_or_of_another_split_refuses(profile: DataProfile) -> None:
    request = {"kind": "browse", "group": 0, "split": "train"}
    loaded = pickle.loads(pickle.dumps(profile))
    assert loaded.view().state()["browsable"] == []
    assert "this profile has no setup; expected one to predict" in get_response(loaded, request)["trouble"]
    answer = get_response(profile, {**request, "split": "reference"})
    assert "split is 'reference'; expected 'train' or 'val'" in answer["trouble"]
