"""Test of the views in a marimo notebook, in Chromium."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(find_spec("marimo") is None, reason="marimo is not installed")

ROOT = Path(__file__).parents[2]
NOTEBOOK = """
import marimo
app = marimo.App()

@app.cell
def _():
    import torch
    from pathlib import Path
    import nbdebug
    from nbdebug.integrations.model_display import show_models
    torch.set_num_threads(1)
    inputs, targets = torch.randn(32, 4), torch.arange(32) % 3
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dbg = nbdebug.Debugger(model, [(inputs, targets)], loss_fn=torch.nn.CrossEntropyLoss(), optimizer=optimizer)
    return Path, dbg, inputs, model, optimizer, show_models, targets, torch

@app.cell
def _(Path, dbg, inputs, model, optimizer, targets, torch):
    with dbg.watch(final_tests=False):
        while not Path("end").exists():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    watched = True
    return (watched,)

@app.cell
def _(dbg, watched):
    dbg.checkup("quick")
    return

@app.cell
def _(dbg, show_models, watched):
    show_models()
    dbg
    return

@app.cell
def _(model, show_models, watched):
    show_models()
    model
    return

if __name__ == "__main__":
    app.run()
"""


@contextmanager
def running_notebook(folder: Path) -> Iterator[str]:
    """Serve the notebook as an app, which runs when a page opens; yields its address."""
    (folder / "notebook.py").write_text(NOTEBOOK)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "marimo",
        "-q",
        "run",
        "notebook.py",
        "--headless",
        "--no-token",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    server = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def wait_for(address: str) -> None:
    """Wait until a server answers."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{address}/health").close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail("marimo did not start within a minute")


def test_views_are_live_in_marimo_and_results_answer_their_page(browser: Any, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with running_notebook(tmp_path) as address:
        page = browser.new_page()
        page.set_default_timeout(90_000)
        errors: list[str] = []
        page.on("console", lambda entry: errors.append(entry.text) if "TypeError" in entry.text else None)
        page.goto(address)

        page.get_by_text("■ Stop").wait_for()  # the live view, while the cell runs
        steps = page.get_by_text(re.compile(r"^[\d,]+ steps"))
        first = steps.inner_text()
        page.wait_for_function(
            "first => ![...document.querySelectorAll('marimo-anywidget')].some(w => "
            "(w.shadowRoot ?? w).textContent.includes(first))",
            arg=first,
        )
        (tmp_path / "end").touch()
        stop_buttons = page.get_by_text("■ Stop").filter(visible=True)  # for a moment, the checkup has one too
        expect(stop_buttons).to_have_count(0, timeout=90_000)
        page.get_by_text("Training of Sequential").wait_for()  # exactly one

        page.get_by_role("button", name="Try it now").first.wait_for()  # only a result that Python answers has it
        page.locator(".nb-model").nth(1).wait_for()
        of_debugger, of_model = page.locator(".nb-model").all()
        assert "L201" in of_debugger.inner_text()
        assert of_model.inner_text() == of_debugger.inner_text()
        assert errors == []
        page.close()
