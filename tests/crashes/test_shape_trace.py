"""Tests of the trace of shapes from the batch to the operation that raised."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.views.shape_graph import ShapeTrace
from tests.crashes.programs import raise_from

RESIDUAL = """
class Block(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, stride, 1)
    def forward(self, x):
        y = F.relu(self.conv(x), inplace=True)
        return x + y
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 1)
        self.blocks = nn.ModuleList([Block(1), Block(2), Block(1)])
        self.head = nn.Linear(4, 2)
    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))
Net()(torch.randn(2, 1, 8, 8))
"""
LAYERS = "net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))\nx = torch.randn(4, 6)\n"
# Each program with the names of its last rows, and what met at the break.
BREAKS = [
    (RESIDUAL, "blocks.1.conv Conv2d, relu, add", "x float32 [2, 4, 8, 8] · y float32 [2, 4, 4, 4]"),
    (
        "net = nn.Sequential(nn.Embedding(5, 2), nn.Flatten())\nnet(torch.tensor([[1, 7]]))",
        " Sequential, 0 Embedding",
        "input int64 [1, 2] · weight float32 [5, 2]",
    ),
    (
        LAYERS + "out = net(x)\nloss = F.cross_entropy(out, torch.tensor([0, 1, 2, 3]))",
        "1 ReLU, 2 Linear, cross_entropy",
        "input float32 [4, 3] · target int64 [4]",
    ),
    (
        LAYERS + "out = net(x)\nloss = nn.MSELoss()(out.squeeze(-1).float(), torch.ones(5))",
        "1 ReLU, 2 Linear, MSELoss",
        "input float32 [4, 3] · target float32 [5]",
    ),
    (LAYERS + "out = net(x)\nloss = out * 2\nloss.backward()", "2 Linear, backward", "loss float32 [4, 3]"),
    (
        "class Net(nn.Module):\n    def forward(self, x, i):\n        h = x.relu()\n        return h.gather(1, i)\n"
        "Net()(torch.randn(2, 3), torch.tensor([[9], [0]]))",
        "relu, gather",
        "h float32 [2, 3] · i int64 [2, 1]",
    ),
    (
        "class Net(nn.Module):\n    def forward(self, x):\n        if x.sum() > -1e9:\n            return x @ x\n"
        "Net()(torch.randn(2, 3))",
        "Net",
        "x float32 [2, 3] · x float32 [2, 3]",
    ),
]


def trace_of(folder: Path, program: str) -> ShapeTrace:
    error, _, _ = raise_from(folder, program)
    return nbdebug.explain_error(error).trace


@pytest.mark.parametrize(("program", "names", "met"), BREAKS, ids=[case[1] for case in BREAKS])
def test_trace_ends_at_break_with_operands(tmp_path: Path, program: str, names: str, met: str) -> None:
    trace = trace_of(tmp_path, program)
    assert [row.status for row in trace].count("raised") == 1
    assert trace.rows[-1].status == "raised"
    assert ", ".join(row.name for row in trace)[-len(names.strip()) :] == names.strip()
    assert trace.operands == met


def test_trace_of_residual_model_has_edges_and_modules_not_reached(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, RESIDUAL)
    names = [row.name for row in trace]
    addition, before = trace.rows[-1], names.index("add")
    assert addition.sources == (before, len(names) - 2)
    assert trace.rows[before].sources == (names.index("stem Conv2d"), before - 1)
    assert trace.not_reached == ("blocks.2", "head")
    assert [row.name for row in trace if row.status == "cut off"] == ["Net", "blocks.1 Block"]


def test_trace_of_call_that_model_catches_goes_on(tmp_path: Path) -> None:
    program = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(4, 2)
        def forward(self, x):
            try:
                y = self.b(x)
            except RuntimeError:
                y = self.a(x)
            return self.b(y)
    Net()(torch.randn(2, 3))
    """
    trace = trace_of(tmp_path, program)
    assert [(row.path, row.status) for row in trace] == [
        ("", "cut off"),
        ("b", "cut off"),
        ("a", "ran"),
        ("b", "raised"),
    ]


def test_trace_of_deep_model_is_limited_and_keeps_break(tmp_path: Path) -> None:
    program = """
    net = nn.Sequential(*[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(150)], nn.Linear(3, 2))
    net(torch.ones(1, 2))
    """
    trace = trace_of(tmp_path, program)
    assert len(trace) == 152
    assert trace.rows[-1].sources == (150,)
    assert trace.rows[-1].operands.startswith("input float32 [1, 2] · weight float32 [2, 3]")


def test_summary_of_model_that_raises_shows_same_trace() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 3), nn.Softmax(1))
    loader = [(torch.randn(8, 4), torch.zeros(8).long())]
    result = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss()).summary()
    assert [row.name for row in result.trace] == ["Sequential", "0 Linear", "1 ReLU", "2 Linear"]
    assert "What met: input float32 [8, 8] · weight float32 [3, 9]" in str(result)
    assert result.trace.to_text() in str(result)
    assert "not reached: 3" in result.view().html()
