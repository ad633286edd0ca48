"""Test of the batch size finder in JupyterLab."""

from __future__ import annotations

from tests.lab.lab_page import OpenNotebook


def test_batch_size_table_grows_and_stays_after_interrupt(start_cell: OpenNotebook) -> None:
    with start_cell("result = dbg.batch_size(start=1, most=64)\nresult.ended") as lab:
        output = lab.output(1)
        output.locator("tbody tr").nth(1).wait_for(timeout=20_000)
        lab.interrupt()
        lab.wait_idle(20)
        assert output.locator("tbody tr").count() >= 2
        assert "stopped" in output.locator(".nb-status").inner_text()
        assert "interrupted" in output.inner_text()
