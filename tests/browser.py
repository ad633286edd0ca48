"""The Chromium that browser tests drive. `python -m tests.browser` fails where there is none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ABSENT = "browser test: "


def chromium(playwright: Playwright) -> str | None:
    """$CHROMIUM, else one on PATH, else Playwright's own."""
    if given := os.environ.get("CHROMIUM"):
        return shutil.which(given)
    own = playwright.chromium.executable_path
    return next(filter(None, map(shutil.which, NAMES)), own if Path(own).exists() else None)


@contextmanager
def started() -> Iterator[Browser | None]:
    """A running Chromium, or None where there is none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = chromium(playwright)
        browser = playwright.chromium.launch(executable_path=path, args=list(SWITCHES)) if path else None
        yield browser
        if browser:
            browser.close()


def errors_of(context: BrowserContext) -> list[str]:
    """A list that fills with whatever the pages of ``context`` complain of."""
    errors: list[str] = []
    context.on("weberror", lambda one: errors.append(f"{one.error.message}\n{one.error.stack}"))
    context.on("console", lambda one: errors.append(f"{one.text} {one.location}") if one.type == "error" else None)
    return errors


def absent(why: str) -> NoReturn:
    """Skips the test for want of what a browser test needs, or fails it under CI=true."""
    import pytest

    if os.environ.get("CI") == "true":
        pytest.fail(f"{why} (with CI=true a browser test may not be skipped)", pytrace=False)
    pytest.skip(ABSENT + why)


if __name__ == "__main__":
    with started() as found:
        sys.exit(0 if found else "No Chromium was found; install one, or set CHROMIUM to its path.")
