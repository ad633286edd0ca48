"""Tests of the tracebacks of errors of use in IPython."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import nbdebug

PACKAGE_FOLDER = str(Path(nbdebug.__file__).parent)
SETUP = """
import torch, nbdebug
from torch.utils.data import DataLoader, TensorDataset
def loss(output, target):
    raise RuntimeError("the loss does not work")
loader = DataLoader(TensorDataset(torch.zeros(8, 2), torch.zeros(8).long()), batch_size=4)
dbg = nbdebug.Debugger(torch.nn.Linear(2, 2), loader, loss_fn=torch.nn.CrossEntropyLoss())
"""


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell(SETUP)
    yield shell
    InteractiveShell.clear_instance()


CALLS = [
    "dbg.checkup(budget='slow')",
    "dbg.checkup(bugdet='quick')",
    "dbg.lr_range(steps='many')",  # raised in the generated method of a dataclass
    "nbdebug.Debugger(3, loader)",
    "nbdebug.Debugger(3)",
    "nbdebug.checkup(dbg.setup.model)",
]


@pytest.mark.parametrize("call", CALLS)
def test_error_of_use_has_no_frames_of_the_package(
    call: str, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    error = shell.run_cell(call).error_in_exec
    assert isinstance(error, nbdebug.SetupError)
    text = capsys.readouterr().out
    assert PACKAGE_FOLDER not in text
    assert "File" not in text
    assert call in text
    assert str(error).split(";")[0] in text
    assert error.__traceback__ is not None


def test_tb_shows_all_frames(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("dbg.checkup(budget='slow')")
    capsys.readouterr()
    shell.run_cell("%tb")
    assert "rule_engine/checkup.py" in capsys.readouterr().out.replace("\\", "/")


def test_line_of_the_user_within_a_cause_stays(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("dbg.overfit = None; nbdebug.Debugger(dbg.setup.model, loader, loss_fn=loss).overfit()")
    text = capsys.readouterr().out
    assert PACKAGE_FOLDER not in text
    assert 'raise RuntimeError("the loss does not work")' in text
