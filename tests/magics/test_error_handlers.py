"""Tests of the block with IPython's own handlers, debuggers and other hooks, in any order of loading."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

CRASH = "import torch\nnet = torch.nn.Linear(3, 1)\nx = torch.randn(2, 4)\nnet(x)"
LOAD = "%load_ext nbdebug"
CUSTOM = """
def handler(shell, kind, error, trace, tb_offset=None):
    print("CUSTOM", kind.__name__)
get_ipython().set_custom_exc((Exception,), handler)
"""
REPLACED = """
shell = get_ipython()
def showtraceback(*args, original=shell.showtraceback, **kwargs):
    print("REPLACED")
    original(*args, **kwargs)
shell.showtraceback = showtraceback
"""
RICH = "import rich.traceback\nrich.traceback.install(show_locals=True)"
# Each handler with a word that its own traceback shows.
HANDLERS = {
    "custom": (CUSTOM, "CUSTOM RuntimeError"),
    "replaced": (REPLACED, "REPLACED"),
    "rich": (RICH, "╭"),
    "plain": ("%xmode Plain", "RuntimeError: mat1 and mat2"),
    "minimal": ("%xmode Minimal", "RuntimeError: mat1 and mat2"),
    "verbose": ("%xmode Verbose", "RuntimeError: mat1 and mat2"),
    "context": ("%xmode Context", "RuntimeError: mat1 and mat2"),
    "hidden": ("%xmode Plain\n%xmode Context", "RuntimeError: mat1 and mat2"),
}


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """A shell without the extension, whose handlers are put back afterwards."""
    interactive = InteractiveShell.instance()
    before = dict(vars(interactive))
    yield interactive
    interactive.set_custom_exc((), None)
    interactive.InteractiveTB.pdb = None  # a debugger that was quit opens no more
    for name in ("showtraceback", "_showtraceback", "showsyntaxerror"):
        interactive.__dict__.pop(name, None)
        interactive.__dict__.update({name: before[name]} if name in before else {})
    interactive.run_cell("%xmode Context")
    interactive.run_cell("%unload_ext nbdebug")
    interactive.reset(new_session=False)
    for name in ("last_exc", "last_value", "last_type", "last_traceback"):
        vars(sys).pop(name, None)


def run(shell: InteractiveShell, cell: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    shell.run_cell(cell)
    return re.sub(r"\x1b\[[\d;]*m", "", "".join(capsys.readouterr()))


@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("is_loaded_first", [True, False])
def test_handler_and_block_both_work_in_either_order(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], name: str, is_loaded_first: bool
) -> None:
    if name == "rich":
        pytest.importorskip("rich.traceback")
    setup, sign = HANDLERS[name]
    for cell in (LOAD, setup) if is_loaded_first else (setup, LOAD):
        run(shell, cell, capsys)
    for _ in range(2):
        output = run(shell, CRASH, capsys)
        assert output.count(sign) == 1 if name == "replaced" else sign in output
        assert output.count("nbdebug X1001") == 1
        assert name == "rich" or output.index(sign) < output.index("nbdebug X1001")  # rich writes to stderr
    assert shell.run_cell("%why").result.findings[0].code == "X1001"


@pytest.mark.parametrize(
    "order", list(itertools.permutations([LOAD, CUSTOM, REPLACED])), ids=lambda order: order[0][:12]
)
def test_three_hooks_work_in_every_order(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], order: tuple[str, ...]
) -> None:
    for cell in order:
        run(shell, cell, capsys)
    output = run(shell, CRASH, capsys)
    assert output.count("CUSTOM RuntimeError") == output.count("nbdebug X1001") == 1
    output = run(shell, "%unload_ext nbdebug\n" + CRASH, capsys)
    assert output.count("CUSTOM RuntimeError") == 1
    assert "nbdebug X1001" not in output


def test_why_explains_error_that_custom_handler_kept_from_ipython(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "1 / 0", capsys)
    for cell in (CUSTOM, LOAD, CRASH, "x = None"):
        run(shell, cell, capsys)
    assert "ZeroDivisionError" in repr(sys.last_value)
    assert shell.run_cell("%why").result.findings[0].code == "X1001"


def test_tb_shows_traceback_again_without_second_block(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    for cell in (LOAD, CRASH):
        run(shell, cell, capsys)
    output = run(shell, "%tb", capsys)
    assert "RuntimeError: mat1 and mat2" in output
    assert "nbdebug X1001" not in output


def test_debug_inspects_frames_after_block_and_why(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for cell in (LOAD, CRASH, "%why"):
        run(shell, cell, capsys)
    commands = iter(["p [*input.shape]", "up", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(commands))
    assert "[2, 4]" in run(shell, "%debug", capsys)


def test_pdb_on_opens_debugger_and_block_follows(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []

    def quit_debugger(prompt: str = "") -> str:
        prompts.append(prompt)
        return "q"

    monkeypatch.setattr("builtins.input", quit_debugger)
    for cell in (LOAD, "%pdb on"):
        run(shell, cell, capsys)
    output = run(shell, CRASH, capsys)
    run(shell, "%pdb off", capsys)
    assert prompts == ["ipdb> "]
    assert output.count("nbdebug X1001") == 1, output


def write_notebook(path: Path, *sources: str) -> None:
    cells = [
        {"cell_type": "code", "source": s, "metadata": {}, "outputs": [], "execution_count": None} for s in sources
    ]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))


@pytest.mark.parametrize("suffix", [".py", ".ipynb", ".ipy"])
def test_crash_in_script_or_notebook_that_cell_runs_gets_one_block(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"inner{suffix}"
    if suffix == ".ipynb":
        write_notebook(path, "import torch", CRASH, "print('not reached')")
    else:
        path.write_text(CRASH)
    run(shell, LOAD, capsys)
    output = run(shell, f"%run {path}\nprint('goes on')", capsys)
    assert output.count("nbdebug X1001") == 1
    assert "not reached" not in output
    assert "goes on" in output
    assert "nbdebug X1001" not in run(shell, "print('next')", capsys)


def test_cell_run_inside_cell_gets_one_block(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, LOAD, capsys)
    output = run(shell, f"get_ipython().run_cell({CRASH!r})\nprint('goes on')", capsys)
    assert output.count("nbdebug X1001") == 1


def test_awaiting_cell_gets_block(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, LOAD, capsys)
    assert run(shell, f"import asyncio\nawait asyncio.sleep(0)\n{CRASH}", capsys).count("nbdebug X1001") == 1


def test_other_error_after_crash_has_no_block_and_no_cause(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    for cell in (LOAD, CRASH):
        run(shell, cell, capsys)
    assert "nbdebug X" not in run(shell, "1 / 0", capsys)
    assert "knows no cause of this exception: ZeroDivisionError: division by zero" in run(shell, "%why", capsys)


def test_why_without_block_explains_error(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    for cell in (LOAD, "%nbdebug errors off", CRASH):
        output = run(shell, cell, capsys)
    assert "nbdebug X1001" not in output
    result: Any = shell.run_cell("%why").result
    run(shell, "%nbdebug errors on", capsys)
    assert result.findings[0].code == "X1001"
