"""Tests of L205 in a notebook whose loop may change the shapes: it has not run, it changes them, or it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import indent
from typing import Any

import pytest

from nbdebug.debugger import Debugger
from nbdebug.report import Report

SETUP = """
import torch, nbdebug
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(64, 4)
loader = DataLoader(TensorDataset(x, x.sum(1)), batch_size=16)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
TORCH_LOSS = "criterion = nn.MSELoss()"
OWN_LOSS = "def criterion(output, target):\n    return ((output - target) ** 2).mean()"
DEBUGGER = "dbg = nbdebug.Debugger(model, loader, loss_fn=criterion, optimizer=optimizer)"
LOOP = """
for inputs, values in loader:
    optimizer.zero_grad()
    criterion(model(inputs){}, values).backward()
    optimizer.step()
"""
VALIDATION = """
with torch.no_grad():
    score = criterion(model(x){}, x.sum(1))
"""
CHANGED = ".squeeze(1)"
FOUND = "print([finding.severity for finding in dbg.findings if finding.code == 'L205'])"
Notebook = Callable[..., Report]
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size")


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """Run cells in a real IPython, and return the report of a checkup after the last one."""
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance()

    def run(*cells: str) -> Report:
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()
        debugger = shell.user_ns["dbg"]
        assert isinstance(debugger, Debugger)
        return debugger.checkup("quick", select=["L205"])

    yield run
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("loss", [TORCH_LOSS, OWN_LOSS], ids=["of torch", "of the user"])
@pytest.mark.parametrize("is_changed", [True, False])
def test_broadcast_of_a_loss_of_torch_is_a_note_until_the_loop_has_run(
    check: Notebook, loss: str, is_changed: bool
) -> None:
    change, is_of_torch = CHANGED if is_changed else "", loss is TORCH_LOSS
    before = check(SETUP, loss, DEBUGGER)
    assert [finding.severity for finding in before] == ["note" if is_of_torch else "error"]
    assert ("no cell with a call of the loss has run yet" in before[0].cause) == is_of_torch
    after = check(LOOP.format(change), VALIDATION.format(change))
    assert [finding.severity for finding in after] == ([] if is_changed else ["error"])
    assert bool([rule for rule in after.not_checked if "changes the shape" in rule.why]) == is_changed


def test_broadcast_of_one_call_of_two_is_placed_at_it(check: Notebook) -> None:
    (finding,) = check(SETUP, TORCH_LOSS, DEBUGGER, LOOP.format(""), VALIDATION.format(CHANGED))
    assert finding.severity == "error"
    assert (finding.where.source or "").strip() == "criterion(model(inputs), values).backward()"


@pytest.mark.parametrize("is_changed", [True, False])
def test_watched_loop_withdraws_or_confirms_the_note(
    check: Notebook, capsys: pytest.CaptureFixture[str], is_changed: bool
) -> None:
    loop = indent(LOOP.format(CHANGED if is_changed else "").strip(), "    ")
    check(SETUP, TORCH_LOSS, DEBUGGER)
    check(f"with dbg.watch(final_tests=False):\n{loop}\n{FOUND}")
    assert capsys.readouterr().out.strip() == ("[]" if is_changed else "['error']")
