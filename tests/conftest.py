"""What all tests share: one thread for torch, interrupts, a browser, and a loud word on tests that lacked one."""

from __future__ import annotations

import gc
import os
import random
import signal
import time
from asyncio import events
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.browser import ABSENT, absent, errors_of, started
from tests.clock import CLOCK

LAB = "tests/lab/"
LONG = (
    LAB,
    "tests/kernels/",
    "tutorial",
    "test_nothing_changes.py",
    "test_state_preservation.py",
    "test_unchanged_state.py",
    "test_layer_rules_on_runs.py",
    "test_contract.py",
)


def pytest_configure() -> None:
    torch.set_num_threads(1)
    seed()  # a process that was never seeded draws a note of its own
    time.perf_counter = CLOCK  # type: ignore[assignment]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a script starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def seed() -> None:
    """The same random numbers for a test whatever ran before it, and for a module whatever was imported."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    seed()


def pytest_collectstart() -> None:
    seed()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` one worker runs a whole file, and one all files that share a JupyterLab."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return LAB if nodeid.startswith(LAB) else nodeid.partition("::")[0]

    return Files(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begins with the longest files where there are several workers, so that none is left alone with one at the end.

    Each test has one more try in CI, where browsers, kernels and threads may get no processor for long; random numbers
    and the clock are the same in both, and the summary names each that needed it.
    """
    if os.environ.get("CI"):
        for one in items:
            one.add_marker(pytest.mark.flaky(reruns=1))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda one: not any(name in one.nodeid for name in LONG))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # else every full collection goes through the imports and items of the whole suite


def pytest_unconfigure() -> None:
    gc.unfreeze()  # so that extension modules find nothing that leaks


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
