"""The Chromium of the browser tests. `python -m tests.browser` fails if none is installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

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
DEFAULT_TIMEOUT = 30_000  # milliseconds, that of Playwright


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


class PagePool:
    """Pages that one test after the other uses; to open one takes longer than most tests."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: dict[frozenset[tuple[str, Any]], list[tuple[Page, list[str]]]] = defaultdict(list)

    @contextmanager
    def page(self, width: int = 900, color_scheme: Any = "light", **options: Any) -> Iterator[Page]:
        """An empty page, 900 pixels high; any error on it fails the test. ``options`` are those of its context."""
        idle = self._idle[frozenset(options.items())]
        page, errors = idle.pop() if idle else self._open(options)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=color_scheme)
        yield page
        page.set_default_timeout(DEFAULT_TIMEOUT)
        page.mouse.move(-1, -1)  # otherwise it hovers over the page of the next test
        page.goto("about:blank")
        page.context.clear_permissions()
        test_errors = errors.copy()
        errors.clear()
        idle.append((page, errors))
        assert test_errors == [], test_errors

    def _open(self, options: dict[str, Any]) -> tuple[Page, list[str]]:
        context = self._browser.new_context(**options)
        return context.new_page(), errors_of(context)


def answer_requests(page: Any, answer: Callable[..., Any]) -> None:
    """Let the function ``python`` of the present document call ``answer``."""
    if not hasattr(page, "answer"):
        page.expose_function("answerRequest", lambda *request: page.answer(*request))
    page.answer = answer
    page.evaluate("() => { window.python = answerRequest; }")


def skip_browser_test(reason: str) -> NoReturn:
    """Skip the test, or fail it under CI=true."""
    import pytest

    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (with CI=true a browser test may not be skipped)", pytrace=False)
    pytest.skip(SKIP_PREFIX + reason)


if __name__ == "__main__":
    with launch_chromium() as chromium:
        sys.exit(0 if chromium else "No Chromium was found; install one, or set CHROMIUM to its path.")
