"""What all tests share: one thread for torch, interrupts, a browser, and a loud word on tests that lacked one."""

from __future__ import annotations

import signal
from asyncio import events
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.browser import ABSENT, absent, errors_of, started


def pytest_configure() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)  # a process that was never seeded draws a note of its own
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a script starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [str(one.longrepr[-1]) for one in terminalreporter.stats.get("skipped", ())]
    reasons = Counter(text.partition(ABSENT)[2] for text in skipped if ABSENT in text)
    for why, count in reasons.items():
        terminalreporter.write_sep("=", f"{count} BROWSER TESTS WERE SKIPPED: {why}", red=True, bold=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, for the whole session."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        absent("playwright is not installed")
    with started() as found:
        yield found or absent("no Chromium was found; install one, or set CHROMIUM to its path")


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page; any error on it fails the test."""
    context = browser.new_context(viewport={"width": 900, "height": 900})
    errors = errors_of(context)
    yield context.new_page()
    context.close()
    assert errors == []


@pytest.fixture(autouse=True)
def no_loop_in_sight(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hides the event loop that Playwright keeps in this thread from tests that may run one of their own."""
    loop = events._get_running_loop()
    if "browser" not in request.fixturenames:
        events._set_running_loop(None)
    yield
    events._set_running_loop(loop)
