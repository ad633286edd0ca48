"""The Chromium of the browser tests. `python -m tests.browser` fails if none is installed."""

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

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SKIP_PREFIX = "browser test: "


def chromium_path(playwright: Playwright) -> str | None:
    """The Chromium of $CHROMIUM, else the first on PATH, else that of Playwright."""
    if configured := os.environ.get("CHROMIUM"):
        return shutil.which(configured)
    bundled = playwright.chromium.executable_path
    return next(filter(None, map(shutil.which, EXECUTABLES)), bundled if Path(bundled).exists() else None)


@contextmanager
def launch_chromium() -> Iterator[Browser | None]:
    """A running Chromium, or None if none is installed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = chromium_path(playwright)
        browser = playwright.chromium.launch(executable_path=path, args=list(SWITCHES)) if path else None
        yield browser
        if browser:
            browser.close()


def errors_of(context: BrowserContext) -> list[str]:
    """A list that collects all errors of the pages of ``context``."""
    errors: list[str] = []
    context.on("weberror", lambda event: errors.append(f"{event.error.message}\n{event.error.stack}"))
    context.on(
        "console", lambda entry: errors.append(f"{entry.text} {entry.location}") if entry.type == "error" else None
    )
    return errors


def skip_browser_test(reason: str) -> NoReturn:
    """Skip the test, or fail it under CI=true."""
    import pytest

    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (with CI=true a browser test may not be skipped)", pytrace=False)
    pytest.skip(SKIP_PREFIX + reason)


if __name__ == "__main__":
    with launch_chromium() as chromium:
        sys.exit(0 if chromium else "No Chromium was found; install one, or set CHROMIUM to its path.")
