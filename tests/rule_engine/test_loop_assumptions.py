"""Tests of checkups whose model and loss receive other values in the loop than the loader and the model return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nbdebug.debugger import Debugger
from nbdebug.report import Report
from tests.source.source_modules import load_module

SETUP = """
import torch, nbdebug
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(96, 8)
score = x @ torch.randn(8, 4)
label = score.argmax(1)
def loader_of(*tensors):
    return DataLoader(TensorDataset(*tensors), batch_size=16)
"""
DEBUGGER = """
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
dbg = nbdebug.Debugger(net, loader, loss_fn=criterion, optimizer=optimizer)
"""
LOOP = """
for epoch in range(4):
    for inputs, target in loader:
        optimizer.zero_grad()
        {}.backward()
        optimizer.step()
"""
CLASSIFIER = "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))\nloader = loader_of(x, label)\n"
BINARY = "net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))\nloader = loader_of(x, label % 2)\n"
TAGGER = """
net = nn.Sequential(nn.Embedding(9, 16), nn.Linear(16, 5))
tokens = torch.randint(0, 9, (96, 7))
loader = loader_of(tokens, tokens % 5)
"""
HEADS = """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.kind, self.size = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 1)
    def forward(self, inputs):
        hidden = self.trunk(inputs).relu()
        return {"kind": self.kind(hidden), "size": self.size(hidden)}
net, loader = Heads(), loader_of(x, label)
"""
CROSS_ENTROPY = "criterion = nn.CrossEntropyLoss()"
# The setup, the loss, its arguments in a loop that is right, and the rule that would accuse the setup without the loop.
ADAPTED = {
    "float column": (
        BINARY,
        "criterion = nn.BCEWithLogitsLoss()",
        "(net(inputs), target.float().unsqueeze(1))",
        "D102",
    ),
    "probabilities": (BINARY, "criterion = nn.BCELoss()", "(net(inputs).sigmoid()[:, 0], target.float())", "L217"),
    "classes from 1": (
        CLASSIFIER.replace("label)", "label + 1)"),
        CROSS_ENTROPY,
        "(net(inputs), target - 1)",
        "D101",
    ),
    "column of classes": (
        CLASSIFIER.replace("label)", "label[:, None])"),
        CROSS_ENTROPY,
        "(net(inputs), target.squeeze(1))",
        "D102",
    ),
    "log-probabilities": (CLASSIFIER, "criterion = nn.NLLLoss()", "(F.log_softmax(net(inputs), 1), target)", "L204"),
    "one-hot": (CLASSIFIER, "criterion = nn.MSELoss()", "(net(inputs), F.one_hot(target, 4).float())", "D102"),
    "class axis": (TAGGER, CROSS_ENTROPY, "(net(inputs).transpose(1, 2), target)", "X1017"),
    "flat tokens": (TAGGER, CROSS_ENTROPY, "(net(inputs).flatten(0, 1), target.flatten())", "X1017"),
    "flat images": (
        CLASSIFIER.replace("(x,", "(x.view(-1, 1, 2, 4),"),
        CROSS_ENTROPY,
        "(net(inputs.flatten(1)), target)",
        "X1001",
    ),
    "bytes": (
        CLASSIFIER.replace("(x,", "((x * 40 + 128).clamp(0, 255).byte(),"),
        CROSS_ENTROPY,
        "(net((inputs.float() - 128) / 40), target)",
        "X1014",
    ),
    "bytes in a function": (
        CLASSIFIER.replace("(x,", "((x * 40 + 128).clamp(0, 255).byte(),")
        + "def scaled(values):\n    values = values.float()\n    return (values - 128) / 40\n",
        CROSS_ENTROPY,
        "(net(scaled(inputs)), target)",
        "X1014",
    ),
    "flat images in a function": (
        CLASSIFIER.replace("(x,", "(x.view(-1, 1, 2, 4),")
        + "def rows(values):\n    return values.flatten(1)\ndef placed(values):\n    return values.to('cpu')\n",
        CROSS_ENTROPY,
        "(net(rows(inputs)), target)",
        "X1001",
    ),
    "reconstruction": (
        "net = nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 8))\nloader = loader_of(x, label)\n",
        "criterion = nn.MSELoss()",
        "(net(inputs), inputs)",
        "D102",
    ),
}
CASES = pytest.mark.parametrize(("setup", "loss", "call", "code"), ADAPTED.values(), ids=ADAPTED)
Notebook = Callable[..., Report]
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size")


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    """Run cells in a real IPython, and return the report of a checkup after the last one."""
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance()

    def check(*cells: str) -> Report:
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()
        debugger: Debugger = shell.user_ns["dbg"]
        return debugger.checkup()

    yield check
    InteractiveShell.clear_instance()


def faults(report: Report) -> list[str]:
    """The codes of the errors and warnings."""
    return [finding.code for finding in report if finding.severity != "note"]


def watched(loop: str) -> str:
    return "with dbg.watch() as run:\n" + loop.replace("\n", "\n    ")


def program(folder: Path, setup: str, loss: str, call: str) -> ModuleType:
    """A script whose training loop is a function that has not run."""
    loop = LOOP.format(f"criterion{call}").replace("\n", "\n    ")
    return load_module(folder / "adapted_program.py", f"{SETUP}{setup}{loss}{DEBUGGER}\ndef train():{loop}\n")


@CASES
def test_checkup_of_notebook_before_loop_has_note(
    notebook: Notebook, setup: str, loss: str, call: str, code: str
) -> None:
    report = notebook(SETUP, setup, loss, DEBUGGER)
    assert faults(report) == []
    note = next(finding for finding in report if finding.code == code)
    assert "has run yet" in note.cause


@CASES
def test_checkup_after_watched_loop_says_nothing(
    notebook: Notebook, setup: str, loss: str, call: str, code: str
) -> None:
    report = notebook(SETUP, setup, loss, DEBUGGER, watched(LOOP.format(f"criterion{call}")))
    assert code not in [finding.code for finding in report]
    assert faults(report) == []


@CASES
def test_checkup_of_script_names_conversion_as_reason(
    tmp_path: Path, setup: str, loss: str, call: str, code: str
) -> None:
    debugger: Debugger = program(tmp_path, setup, loss, call).dbg
    report = debugger.checkup()
    assert code not in [finding.code for finding in report]
    assert faults(report) == []
    assert any(rule.code == code and "your loop converts the" in rule.why for rule in report.not_checked)


@pytest.mark.parametrize(
    ("lines", "target", "is_made"),
    [
        (["noise = torch.randn_like(inputs)"], "noise", True),
        (["size = inputs.shape", "noise = torch.randn(size)"], "noise", True),
        (["noise = torch.randn_like(inputs)"], "target", False),
        (["other = target", "goal = other.clone()"], "goal", False),
    ],
)
def test_target_that_a_script_makes_without_that_of_the_loader(
    tmp_path: Path, lines: list[str], target: str, is_made: bool
) -> None:
    setup, loss, *_ = ADAPTED["reconstruction"]
    body = "\n        ".join(["optimizer.zero_grad()", *lines])
    loop = LOOP.replace("optimizer.zero_grad()", body).format(f"criterion(net(inputs), {target})")
    indented = loop.replace("\n", "\n    ")
    text = f"{SETUP}{setup}{loss}{DEBUGGER}\ndef train():{indented}\n"
    debugger: Debugger = load_module(tmp_path / "program_with_noise.py", text).dbg
    assert ("D102" in faults(debugger.checkup())) is not is_made


@pytest.mark.parametrize(
    ("case", "call"),
    [
        ("classes from 1", "(net(inputs), target)"),
        ("log-probabilities", "(net(inputs), target)"),
        ("log-probabilities", "(net(inputs), target.long())"),
        ("probabilities", "(net(inputs), target.float().unsqueeze(1))"),
        ("flat images in a function", "(net(placed(inputs)), target)"),
    ],
)
def test_checkup_of_script_without_the_conversion_keeps_error(tmp_path: Path, case: str, call: str) -> None:
    setup, loss, _, code = ADAPTED[case]
    debugger: Debugger = program(tmp_path, setup, loss, call).dbg
    assert code in faults(debugger.checkup())


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("(net(inputs)['kind'], target) + net(inputs)['size'].square().mean()", []),
        ("(net(inputs)['kind'], target)", ["M301"]),
    ],
)
def test_output_that_loss_of_torch_cannot_take_is_judged_after_loop(
    notebook: Notebook, call: str, after: list[str]
) -> None:
    before = notebook(SETUP, HEADS, CROSS_ENTROPY, DEBUGGER)
    assert faults(before) == []
    assert any(finding.code == "M301" and "in another loss" in finding.cause for finding in before)
    assert faults(notebook(watched(LOOP.format(f"(criterion{call})")))) == after
