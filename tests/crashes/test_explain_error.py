"""Tests of explain_error: cause, line and fix from the traceback alone."""

from __future__ import annotations

import gc
import linecache
import os
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.source.edits import apply_edits
from tests.crashes.programs import raise_from

CLASS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 8 * 8, 3)
    def forward(self, x):
        x = torch.relu(self.conv(x))
        return self.fc(x)
out = Net()(torch.randn(5, 1, 8, 8))
"""
# Each program with the code of the finding, a word of the explanation, and the changed line.
PROGRAMS = [
    (
        "net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(9, 2))\nnet(torch.randn(4, 6))",
        "X1001",
        "9",
        "(8, 2)",
    ),
    (CLASS, "X1001", "flatten", "x.flatten(1)"),
    ("w, x = torch.randn(3, 7), torch.randn(5, 7)\nout = x @ w", "X1002", "7", "w.transpose(-2, -1)"),
    ("x = torch.randn(4, 8, 8, 3)\nnn.Conv2d(3, 4, 3)(x)", "X1003", "last axis", "x.movedim(-1, 1)"),
    ("a, b = torch.randn(4, 3), torch.randn(4)\nc = a * b", "X1004", "axis", "b.unsqueeze(-1)"),
    ("a, b = torch.randn(4, 3), torch.randn(4, 5)\ntorch.cat([a, b])", "X1005", "axis 1", "dim=1"),
    ("x = torch.randn(4, 6).t()\ny = x.view(-1)", "X1006", "contiguous", "x.reshape(-1)"),
    ("x = torch.tensor([1, 9])\nnn.Embedding(5, 2)(x)", "X1011", "10 rows", "10"),
    ("y = torch.tensor([1, 2, 3])\nF.cross_entropy(torch.randn(3, 3), y)", "X1012", "from 1", "y - 1"),
    ("x = torch.randn(2, 3).double()\nnn.Linear(3, 1)(x)", "X1014", "float64", "float()"),
    ("y = torch.rand(4)\nF.cross_entropy(torch.randn(4, 3), y)", "X1016", "int64", "y"),
    ("y = torch.ones(4, 1).long()\nF.cross_entropy(torch.randn(4, 3), y)", "X1017", "squeeze", "squeeze(-1)"),
    ("loss = torch.randn(3, requires_grad=True) * 2\nloss.backward()", "X1018", "3 values", "loss.mean().backward()"),
    ("w = torch.ones(2, requires_grad=True)\nloss = w.sum().detach()\nloss.backward()", "X1019", "detach", "w.sum()"),
    (
        "w = torch.ones(2, requires_grad=True)\ns = w.sigmoid()\ns += 1\ns.sum().backward()",
        "X1021",
        "place",
        "s = s + 1",
    ),
    ("w = torch.ones(2, requires_grad=True)\nw -= 0.1", "X1022", "no_grad", "with torch.no_grad():"),
    ("w = torch.ones(2, requires_grad=True)\nw.numpy()", "X1023", "detach", "w.detach().numpy()"),
    ("net = nn.Linear(2, 1)\nopt = torch.optim.SGD(net, lr=1)", "X1029", "parameters()", "net.parameters()"),
    ("x = torch.randn(9, 2)\nhalf = 0.5 * len(x)\nx[:half]", "X1013", "4.5", "half = int(0.5 * len(x))"),
    ("rnn, x = nn.GRU(3, 4), torch.randn(5, 2, 3)\n_, (h, c) = rnn(x)", "X1038", "one tensor", "_, h = rnn(x)"),
    (
        "data = torch.utils.data.TensorDataset(*torch.randn(3, 4, 2))\n"
        "loader = torch.utils.data.DataLoader(data)\nfor x, y in loader:\n    pass",
        "X1038",
        "3 parts",
        "for x, y, _ in loader:",
    ),
    (
        "class Net(nn.Module):\n    def forward(self, x):\n        y = x * 2\n"
        "net, x = Net(), torch.ones(2, 2)\na, b = net(x)",
        "X1038",
        "None",
        "return y",
    ),
    (
        "y = torch.ones(3)\nF.binary_cross_entropy(torch.randn(3), y)",
        "X1039",
        "logits",
        "F.binary_cross_entropy_with_logits(",
    ),
    (
        "class Net(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(2, 2)\nNet()",
        "X1040",
        "super().__init__()",
        "super().__init__()",
    ),
    ("q, a = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])\nq.gather(1, a)", "X1099", "int64 [4]", "a.unsqueeze(-1)"),
    (
        "net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))\n"
        "groups = [{'params': net.parameters()}, {'params': net[1].parameters(), 'lr': 1}]\n"
        "opt = torch.optim.SGD(groups, lr=0.1)",
        "X1029",
        "1.weight, 1.bias",
        "all(p is not other for other in net[1].parameters())",
    ),
]
# The same of programs whose fix is no edit.
PROGRAMS_WITHOUT_EDIT = [
    (
        "w = torch.ones(2, requires_grad=True)\ntorch.optim.LBFGS([w]).step()",
        "X1027",
        "several times",
        "Pass a function that clears the gradients",
    ),
    (
        "import pandas as pd\ntable = pd.DataFrame({'age': [1.0], 'plan': ['basic']})\n"
        "torch.tensor(table[['age', 'plan']].to_numpy())",
        "X1015",
        "plan",
        "Encode these columns",
    ),
    (
        "mask = torch.zeros(5, 5)\nx = torch.randn(2, 4, 8)\n"
        "nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x, attn_mask=mask)",
        "X1009",
        "4 queries",
        "mask[:4, :4]",
    ),
    ("x = torch.ones(1, 4, 2, 2)\nnn.PixelShuffle(3)(x)", "X1099", "float32 [1, 4, 2, 2]", "Compare"),
]


@pytest.mark.parametrize(
    ("program", "code", "word", "changed"),
    [*PROGRAMS, *PROGRAMS_WITHOUT_EDIT],
    ids=[case[1] for case in [*PROGRAMS, *PROGRAMS_WITHOUT_EDIT]],
)
def test_explain_error_of_program_names_cause_and_fix(
    tmp_path: Path, program: str, code: str, word: str, changed: str
) -> None:
    error, _, _ = raise_from(tmp_path, program)
    report = nbdebug.explain_error(error)
    assert report.findings[0].code == code
    assert word in str(report.findings[0])
    assert changed in report.findings[0].fix
    assert report.not_checked == ()
    assert report.block().startswith(f"nbdebug {code}")


@pytest.mark.parametrize(
    ("program", "code"), [(case[0], case[1]) for case in PROGRAMS if case[1] not in ("X1005", "X1011", "X1019")]
)
def test_edits_of_finding_repair_program(tmp_path: Path, program: str, code: str) -> None:
    error, _, path = raise_from(tmp_path, program)
    finding = nbdebug.explain_error(error).findings[0]
    source = apply_edits(path.read_text(), finding.edits)
    assert source != path.read_text()
    exec(compile(source, "changed", "exec"), {"__name__": "changed"})


def test_fix_of_model_is_tried_on_copy_and_shapes_are_traced(tmp_path: Path) -> None:
    error, _, _ = raise_from(tmp_path, CLASS)
    report = nbdebug.explain_error(error)
    assert report.findings[0].trial == "the forward pass of a copy of the model runs with it"
    assert [(row.name, row.status) for row in report.trace] == [
        ("Net", "cut off"),
        ("conv Conv2d", "ran"),
        ("relu", "ran"),
        ("fc Linear", "raised"),
    ]
    assert report.trace_frame()["inputs"].tolist()[-1] == "float32 [5, 4, 8, 8]"
    for text in (str(report), report._repr_mimebundle_()["text/plain"]):
        assert "shapes up to the operation that raised:" in text


@pytest.mark.parametrize(
    "program",
    [
        "1 / 0",
        "{}['a']",
        "assert torch.ones(1).sum() > 2",
        "import pandas as pd\npd.DataFrame({'a': [1]})['b']",
        "raise RuntimeError('mat1 and mat2 shapes cannot be multiplied (4x8 and 9x2)')",
        "def f(n):\n    return f(n + 1)\nf(0)",
        "import numpy as np\nnp.ones(3) @ np.ones(4)",
    ],
)
def test_error_that_is_not_torchs_is_not_explained(tmp_path: Path, program: str) -> None:
    error, _, _ = raise_from(tmp_path, program)
    assert nbdebug.explain_error(error).findings == ()


def test_error_without_traceback_or_no_error_gives_empty_report() -> None:
    assert len(nbdebug.explain_error(RuntimeError("no traceback"))) == 0
    assert len(nbdebug.explain_error()) == 0


def test_explain_error_without_argument_explains_handled_exception() -> None:
    try:
        nn.Linear(3, 1)(torch.randn(2, 4))
    except RuntimeError:
        assert nbdebug.explain_error().findings[0].code == "X1001"


def test_edited_source_gives_no_edit_of_other_code(tmp_path: Path) -> None:
    error, _, path = raise_from(tmp_path, "x = torch.randn(2, 4)\ny = x @ torch.ones(3)")
    path.write_text("something = else_entirely\n" * 10)
    assert [finding.edits for finding in nbdebug.explain_error(error).findings if finding.edits] == []


def test_source_changed_after_it_was_read_gives_no_edit(tmp_path: Path) -> None:
    error, _, path = raise_from(tmp_path, "x = torch.randn(2, 4)\ny = x.view(2, 3)")
    linecache.getlines(str(path))
    path.write_text(path.read_text().replace("view(2, 3)", "view(2, 1)"))
    os.utime(path, (1, 1))
    assert [finding.edits for finding in nbdebug.explain_error(error).findings] == [()]


def test_explanation_changes_nothing_and_keeps_no_tensor(tmp_path: Path) -> None:
    error, variables, _ = raise_from(tmp_path, CLASS.replace("out = Net()(", "net = Net()\nx = (") + "net(x)")
    net: Any = variables["net"]
    state, weights = torch.get_rng_state(), {k: v.clone() for k, v in net.state_dict().items()}
    nbdebug.explain_error(error)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[key]) for key, value in net.state_dict().items())
    assert type(net).__name__ == "Net"
    assert not net.fc._forward_hooks
    reference = weakref.ref(variables.pop("x"))
    del error, variables, net
    gc.collect()
    assert reference() is None


def test_checkup_of_model_that_raises_reports_crash_and_goes_on() -> None:
    x, y = torch.randn(32, 6), torch.zeros(32).long()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(9, 2))
    report = nbdebug.checkup(
        model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters())
    )
    crash = next(finding for finding in report if finding.code == "X1001")
    assert crash.severity == "error"
    assert crash.trial == "forward pass, loss and backward pass of a copy run with it"
    assert report.checked_rules & {"O503", "D107"}


def test_watch_of_loop_that_raises_reports_step_and_keeps_record() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = nbdebug.watch(model, optimizer)
    with pytest.raises(RuntimeError, match="mat1"), watch:
        for width in (4, 4, 5):
            optimizer.zero_grad()
            model(torch.randn(8, width)).square().mean().backward()
            optimizer.step()
    assert watch.result is not None
    assert watch.result.steps == 2
    finding = next(finding for finding in watch.reports["crash"] if finding.code == "X1001")
    assert finding.where.step == 3
