"""Tests of models as trees at the end of a cell."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

from nbdebug.integrations.model_display import show_models
from tests.magics.test_line_magics import run, usage_message

SETUP = """
import torch
from torch import nn
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
other = nn.Linear(3, 2)
optimizer = torch.optim.SGD(other.parameters(), lr=0.125)
dbg = Debugger.of(classifier(nn.Softmax(1)))
model = dbg.setup.model
"""


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    interactive = InteractiveShell.instance()
    interactive.run_cell("%load_ext nbdebug")
    interactive.run_cell(SETUP).raise_error()
    yield interactive
    interactive.run_cell("%unload_ext nbdebug")
    interactive.reset(new_session=False)


def html_of(shell: InteractiveShell, name: str) -> Any:
    """Return the HTML of a variable at the end of a cell, None without any."""
    formatter: Any = shell.display_formatter
    return formatter.format(shell.user_ns[name])[0].get("text/html")


def test_magic_switches_trees_of_models_on_and_off(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    assert html_of(shell, "model") is None
    run(shell, "%nbdebug models on")
    run(shell, "%nbdebug models on")
    assert "[16, 4] → " in html_of(shell, "model")  # the Debugger has a batch
    assert "SGD, lr 0.125" in html_of(shell, "other")  # the optimizer is a variable
    run(shell, "%nbdebug models off")
    assert capsys.readouterr().out.split("\n")[-2] == "trees of models are off"
    assert html_of(shell, "model") is None
    assert "models is 'maybe'; expected on or off" in usage_message(shell, "%nbdebug models maybe")


def test_debugger_is_a_tree_with_its_findings_and_changes_nothing(shell: InteractiveShell) -> None:
    model, seed = shell.user_ns["model"], torch.get_rng_state()
    run(shell, "dbg.checkup()")
    before = copy.deepcopy(model.state_dict())
    assert "L201" in html_of(shell, "dbg")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(seed, torch.get_rng_state())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_off_restores_the_formatter_of_the_user_and_unload_turns_off(shell: InteractiveShell) -> None:
    formatters: Any = shell.display_formatter
    printers = formatters.formatters["text/html"].type_printers
    printers[nn.Module] = own = lambda model: "<i>own</i>"
    show_models()
    assert "own" not in html_of(shell, "other")
    show_models(False)
    assert printers.pop(nn.Module) is own
    show_models()
    run(shell, "%reload_ext nbdebug")
    assert html_of(shell, "other") is None


def test_class_with_its_own_html_keeps_it(shell: InteractiveShell) -> None:
    run(shell, "class Own(nn.Linear):\n    def _repr_html_(self): return '<b>mine</b>'\nmine = Own(2, 2)")
    show_models()
    assert html_of(shell, "mine") == "<b>mine</b>"
    show_models(False)
