"""Tests of the block below a traceback, in IPython."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from nbdebug.magics import error_block
from nbdebug.rule_engine.crash_rules import prepare_explanations

CRASH = "import torch\nnet = torch.nn.Linear(3, 1)\nnet(torch.randn(2, 4))"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    interactive = InteractiveShell.instance()
    interactive.run_cell("%load_ext nbdebug")
    yield interactive
    interactive.run_cell("%nbdebug errors on")
    interactive.run_cell("%unload_ext nbdebug")
    interactive.reset(new_session=False)


def output_of(shell: InteractiveShell, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    shell.run_cell(text)
    return capsys.readouterr().out


def test_cell_that_torch_ends_gets_traceback_and_one_block(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_of(shell, CRASH, capsys)
    assert output.count("nbdebug X1001") == 1
    assert output.index("RuntimeError") < output.index("nbdebug X1001")
    assert "net = torch.nn.Linear(4, 1)" in output


@pytest.mark.parametrize("cell", ["1 / 0", "import torch", "assert False", "def broken(:"])
def test_other_cells_get_no_block(shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str) -> None:
    assert "nbdebug X" not in output_of(shell, cell, capsys)


def test_block_is_off_and_on_by_magic(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%nbdebug errors off")
    assert "nbdebug X1001" not in output_of(shell, CRASH, capsys)
    shell.run_cell("%nbdebug errors on")
    assert "nbdebug X1001" in output_of(shell, CRASH, capsys)


def test_why_returns_report_of_last_exception(shell: InteractiveShell) -> None:
    shell.run_cell(CRASH)
    result: Any = shell.run_cell("%why").result
    assert result.findings[0].code == "X1001"
    assert "shapes up to the operation that raised" in str(result)


def test_loading_twice_shows_one_block(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%reload_ext nbdebug")
    assert output_of(shell, CRASH, capsys).count("nbdebug X1001") == 1


def test_first_model_prepares_explanations_once(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(error_block, "prepare_explanations", lambda: calls.append(1))
    monkeypatch.setattr(error_block._BlockState, "is_prepared", False)
    shell.run_cell("x = 1")
    assert not calls
    shell.run_cell("import torch\nclass Net(torch.nn.Module):\n    pass")
    shell.run_cell("net = torch.nn.Linear(3, 1)")
    assert calls == [1]


def test_prepare_explanations_changes_no_random_state_and_no_mode() -> None:
    state = torch.get_rng_state()
    prepare_explanations()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert torch.get_default_device() == torch.device("cpu")
