"""Fixtures of the view tests: pages from disk in a browser, a result with its page, and a fake notebook front end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nbdebug.tools.errors import Errors
from nbdebug.views.page import View, static_html
from tests.browser import PagePool

from .error_browser_pages import make_image_errors
from .fake_front_end import FrontEnd, install_front_end

OpenPage = Callable[..., Any]


@pytest.fixture
def open_page(page_pool: PagePool, tmp_path: Path) -> Iterator[OpenPage]:
    """Open views, one under the other, from a file; any error of the page fails the test."""
    with ExitStack() as pages:

        def open_views(
            *views: View, width: int = 900, dark: bool = False, scripts: bool = True, scale: float = 1
        ) -> Any:
            options = {"java_script_enabled": scripts, "device_scale_factor": scale}
            page = pages.enter_context(page_pool.page(width, "dark" if dark else "light", **options))
            file = tmp_path / "page.html"
            file.write_text("<!doctype html><meta charset=utf-8>" + "".join(map(static_html, views)), encoding="utf-8")
            page.goto(file.as_uri())
            if scripts:
                page.wait_for_function("!document.querySelector('.nb-plain')")
            return page

        yield open_views


@pytest.fixture
def errors() -> Errors:
    """Errors of a classifier of three classes on 300 images."""
    return make_image_errors()


@pytest.fixture
def front_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontEnd]:
    """A shell with a kernel that sends to a fake front end."""
    yield from install_front_end(monkeypatch)
