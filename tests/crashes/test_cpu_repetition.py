"""Tests of device-side assertions, explained by a repetition on the CPU.

The tensors of a device cannot be read after such an assertion. Here the meta device takes its place: its tensors have
no values either, and its operations accept any index. The exception is the one that torch raises for a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.crashes.programs import raise_from
from tests.preserve.fingerprint import fingerprint

HEAD = """
device = torch.device("meta")
DeviceError = getattr(torch, "AcceleratorError", RuntimeError)  # since torch 2.8
class Net(nn.Module):
    def __init__(self, rows=10, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(rows, 4)
        self.head = nn.Linear(4, classes)
    def forward(self, x):
        return self.head(self.embedding(x).mean(1))
def synchronize():
    raise DeviceError("CUDA error: device-side assert triggered\\nCUDA kernel errors might be asynchronous")
x = torch.randint(0, 10, (12, 5))
y = torch.arange(12) % 3
"""
LOOP = """
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4, shuffle=True)
loss_fn = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    out = net(x)
    loss = loss_fn(out, y)
    loss.backward()
    synchronize()
"""
BAD_TOKEN, BAD_LABEL = "x[9, 2] = 10\n", "y[7] = 3\n"
# Each program with the code of its finding, a word of it, and the line that it points to.
PROGRAMS = {
    "embedding in loop": (
        BAD_TOKEN + "net = Net().to(device)" + LOOP,
        "X1011",
        "the index 10",
        "nn.Embedding(rows, 4)",
    ),
    "labels in loop": (BAD_LABEL + "net = Net().to(device)" + LOOP, "X1012", "The target 3 of sample 3", "classes"),
    "values on the CPU": (
        "net = Net().to(device)\nbatch = (x + 3, y)\nout = net(batch[0].to(device))\nsynchronize()",
        "X1011",
        "runs from|run from",
        "nn.Embedding(rows, 4)",
    ),
    "function": (
        "def step(net, x, y):\n    out = net(x.to(device))\n    loss = F.cross_entropy(out, y.to(device))\n"
        "    synchronize()\nstep(Net().to(device), x, y + 1)",
        "X1012",
        "The classes are numbered from 1",
        "F.cross_entropy",
    ),
    "gather": (
        "scores, index = torch.randn(12, 3), (y + 1).unsqueeze(1)\n"
        "picked = scores.to(device).gather(1, index.to(device))\n"
        "synchronize()",
        "X1013",
        "axis 1 has 3 entries",
        "gather",
    ),
    "one_hot": (
        "net = Net()\ncodes = F.one_hot(y.to('meta'), num_classes=2)\nsynchronize()",
        "X1013",
        "one_hot",
        "one_hot",
    ),
    "enumerated loop in autocast": (
        BAD_LABEL
        + "net = Net().to(device)"
        + LOOP.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)").replace(
            "    out = net(x)\n    loss = ",
            "    with torch.autocast('cpu', enabled=False):\n        out = net(x)\n    loss = ",
        ),
        "X1012",
        "The target 3 of sample 3",
        "classes",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_device_assertion_is_explained_by_repetition_on_cpu(tmp_path: Path, name: str) -> None:
    program, code, words, source = PROGRAMS[name]
    error, _, _ = raise_from(tmp_path, HEAD + program)
    assert "device-side assert" in str(error)
    report = nbdebug.explain_error(error)
    finding = report.findings[0]
    assert finding.code == code
    assert any(word in str(finding) for word in words.split("|"))
    assert source in str(finding)
    assert finding.evidence["repeated"].startswith("on the CPU, with")
    assert "the step was repeated on the CPU" in report.block()


def test_lost_values_that_decide_leave_assertion_unexplained_without_wrong_cause(tmp_path: Path) -> None:
    program = "def step(scores):\n    index = scores.argmax(1, keepdim=True) + 2\n    scores.gather(1, index)\n"
    error, _, _ = raise_from(tmp_path, HEAD + program + "    synchronize()\nstep(torch.eye(3).to(device))")
    report = nbdebug.explain_error(error)
    assert [str(finding) for finding in report.findings if finding.code != "X1099"] == []


def test_repetition_changes_nothing_and_calls_no_function_of_the_user(tmp_path: Path) -> None:
    program = "calls = []\ndef log(value):\n    calls.append(value)\n    return value\nnet = Net().to(device)"
    loop = LOOP.replace("    out = net(x)", "    out = log(net(x))")
    error, variables, _ = raise_from(tmp_path, HEAD + BAD_LABEL + program + loop)
    before = fingerprint(variables["loader"].dataset, loaders=[variables["loader"]])
    calls = len(variables["calls"])
    nbdebug.explain_error(error)
    before.check()
    assert len(variables["calls"]) == calls


def test_checkup_whose_device_fails_repeats_first_batch_on_cpu() -> None:
    class Net(nn.Module):
        """A model whose device refuses the batch."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(8, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if id(self.head.weight) == model_id:
                raise RuntimeError("CUDA error: device-side assert triggered")
            out: torch.Tensor = self.head(self.embedding(x).mean(1))
            return out

    loader = DataLoader(TensorDataset(torch.arange(24).view(12, 2), torch.arange(12) % 3), batch_size=12)
    model = Net()
    model_id = id(model.head.weight)
    report = nbdebug.checkup(model, loader, loss_fn=nn.CrossEntropyLoss())
    finding = next(finding for finding in report if finding.code == "X1011")
    assert finding.evidence["repeated"] == "on the CPU, with the first batch of the loader"
