"""The optimizer comparison and the batch-size finder in JupyterLab, while running and when stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.server import Lab
from tests.lab.test_live_view import DRAWN, SETUP, STATIC, Begun, kinds


@pytest.fixture
def running(jupyter_lab: Lab, notebook: Callable[..., str]) -> Begun:
    """Opens a notebook whose first cell has made a slow set-up, and whose second runs ``source``."""

    @contextmanager
    def opened(source: str) -> Iterator[LabPage]:
        with jupyter_lab.open(notebook(SETUP, source)) as lab:
            lab.run_cell(0)
            lab.wait_idle()
            lab.run_cell(1)
            yield lab

    return opened


def part(lab: LabPage, selector: str) -> Any:
    """A part of what is under the second cell."""
    return lab.output(1).locator(selector)


def test_the_contest_moves_and_stop_keeps_what_there_is(running: Begun) -> None:
    with running("dbg.compare_optimizers(['yours', 'Adam'], rates={'Adam': 0.01}, steps=2000)") as lab:
        picture = part(lab, "canvas").first
        before = picture.evaluate("node => node.toDataURL()")
        lab.page.wait_for_function(
            "([node, was]) => node.toDataURL() !== was", arg=[picture.element_handle(), before], timeout=20_000
        )
        part(lab, ".nb-stop").click()
        lab.wait_idle(20)
        part(lab, ".nb-stop").wait_for(state="detached", timeout=20_000)
        picture = part(lab, "canvas").first
        lab.page.wait_for_function(f"node => ({DRAWN})(node)", arg=picture.element_handle(), timeout=20_000)
        assert "stopped" in part(lab, ".nb-status").inner_text()
        assert kinds(lab, 1) == STATIC


def test_the_batch_size_search_gains_rows_and_an_interrupt_keeps_them(running: Begun) -> None:
    with running("result = dbg.batch_size(start=1, most=64)\nresult.ended") as lab:
        part(lab, "tbody tr").nth(1).wait_for(timeout=20_000)
        lab.interrupt()
        lab.wait_idle(20)
        assert part(lab, "tbody tr").count() >= 2
        assert "stopped" in part(lab, ".nb-status").inner_text()
        assert "interrupted" in lab.output(1).inner_text()
