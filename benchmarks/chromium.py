"""Chromium for benchmarks of pages; importing this module makes the package ``tests`` importable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optional_packages import skip_text

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.browser import launch_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def run_chromium() -> Iterator[Browser]:
    """Run Chromium during the block; print the reason and exit if it cannot be run."""
    if reason := skip_text(["playwright"]):
        print(reason)
        sys.exit()
    with launch_chromium() as browser:
        if browser is None:
            print("skipped: Chromium is not installed; install it, or set CHROMIUM to its path")
            sys.exit()
        yield browser


def open_page(browser: Browser) -> Page:
    """Open a page of 1200 × 900 pixels."""
    return browser.new_page(viewport={"width": 1200, "height": 900})
