"""Settings of all tests: one thread for torch, fixed seeds, a deterministic clock, test order and the browser."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from asyncio import events
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.browser import SKIP_PREFIX, PagePool, launch_chromium, skip_browser_test
from tests.clock import CLOCK, PROCESSOR_CLOCK

# torch.manual_seed also stores the stack, as text, for each kind of accelerator that is not in use.
SEED_TORCH = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
LAB = "tests/lab/"
MIDDLE_OF_LAB = "tests/lab/test_lr_range.py"  # half of the time has passed before this file
# Long files whose tests share nothing, or only what they compute for the same parameters.
SHARED_FILES = ("tests/test_tool_state_preservation.py", "tests/test_rule_contract.py")
SLOW_FILES = (  # the slowest first
    LAB,
    "tests/tutorials/",
    "tests/clinic/",
    "tests/kernels/",
    "test_training_runs.py",
    "test_unusual_programs.py",
    "state_preservation.py",
    "test_layer_rules_on_runs.py",
    "tests/benchmarks/",
    "test_time_budget.py",
    "test_unchanged_state.py",
)


@pytest.fixture(autouse=True)
def without_anomaly_mode() -> Iterator[None]:
    """Turn off the anomaly mode that a test program has turned on for the whole process."""
    yield
    if torch.is_anomaly_enabled():
        torch.autograd.set_detect_anomaly(False)


def pytest_configure() -> None:
    torch.set_num_threads(1)
    set_seeds()  # an unseeded process gets an extra note from the rule "unseeded"
    time.perf_counter = CLOCK  # type: ignore[assignment]
    time.thread_time = PROCESSOR_CLOCK  # type: ignore[assignment]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script that runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def set_seeds() -> None:
    """Seed all generators, so that tests and imports do not depend on what ran before."""
    SEED_TORCH(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    set_seeds()


def running_shell() -> Any:
    """Return the IPython shell of this process, None without any."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


@pytest.fixture(autouse=True, scope="module")
def no_shell_of_other_files() -> Iterator[None]:
    """End the IPython shell of a test file; in another file, tools would take its cells for the program."""
    yield
    shell = running_shell()
    if shell is not None:
        type(shell).clear_instance()


@pytest.fixture(autouse=True)
def nothing_left_of_other_tests() -> Iterator[None]:
    """Forget the cells that a test ran, which rules search, and the code that it compiled, which no watch traces.

    The first compilation of a process turns the checks of distributions off, which a rule on crashes explains.
    """
    torch.distributions.Distribution.set_default_validate_args(True)
    yield
    shell = running_shell()
    if shell is not None:
        shell.compile._filename_map.clear()
    compiler = sys.modules.get("torch._dynamo.convert_frame")
    if compiler is not None and compiler.input_codes.seen:
        torch.compiler.reset()


def pytest_collectstart() -> None:
    set_seeds()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, run each file on one worker, and the files that need JupyterLab on two, with one each.

    On one worker these would end last. Workers share the files that would keep one of them busy for minutes, by the
    parameters of their tests.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class FileScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            if file in SHARED_FILES:
                return f"{file}[{test.partition('[')[2]}"
            return f"{LAB}[{file >= MIDDLE_OF_LAB}]" if file.startswith(LAB) else file

    return FileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers, start with the slow files and end with the shared ones, so that all end at one time.

    In CI each test may run twice, since browsers, kernels and threads may wait long for a processor. Random numbers
    and the clock are the same in both runs, and the summary lists the tests that ran twice.
    """
    if os.environ.get("CI"):
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=1))
    if hasattr(config, "workerinput"):
        items.sort(key=_work_order)


def _work_order(item: pytest.Item) -> list[bool]:
    return [item.nodeid.startswith(SHARED_FILES), *(name not in item.nodeid for name in SLOW_FILES)]


def pytest_collection_finish() -> None:
    freeze_objects()


@pytest.fixture(scope="module", autouse=True)
def frozen_objects_of_other_files() -> None:
    freeze_objects()


def freeze_objects() -> None:
    """Hide the present objects from collections and searches, which traverse all imports and test items otherwise."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # extension modules report leaks otherwise


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report skipped browser tests in red."""
    skipped = [str(report.longrepr[-1]) for report in terminalreporter.stats.get("skipped", ())]
    reasons = Counter(text.partition(SKIP_PREFIX)[2] for text in skipped if SKIP_PREFIX in text)
    for reason, count in reasons.items():
        terminalreporter.write_sep("=", f"{count} BROWSER TESTS WERE SKIPPED: {reason}", red=True, bold=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, for the whole session."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        skip_browser_test("playwright is not installed")
    with launch_chromium() as chromium:
        yield chromium or skip_browser_test("no Chromium was found; install one, or set CHROMIUM to its path")


@pytest.fixture(scope="session")
def page_pool(browser: Any) -> PagePool:
    return PagePool(browser)


@pytest.fixture
def page(page_pool: PagePool) -> Iterator[Any]:
    """An empty page; any error on it fails the test."""
    with page_pool.page() as page:
        yield page


@pytest.fixture(autouse=True)
def hidden_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide the event loop that Playwright keeps in this thread from tests that may run their own."""
    loop = events._get_running_loop()
    if "browser" not in request.fixturenames:
        events._set_running_loop(None)
    yield
    events._set_running_loop(loop)
