"""Tests of initialization_line: the line whose values a parameter has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from nbdebug.setup.initialization import initialization_line
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_findings

HEADER = """\
import torch
from torch import nn
from torch.nn import init
torch.manual_seed(0)
"""
NETWORK = "nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))"
# The line with "here" initializes the weights of layer 2.
INITIALIZED = {
    "constant in apply": (
        "def start(layer):\n    if isinstance(layer, nn.Linear):\n"
        f"        nn.init.constant_(layer.weight, 0.1)  # here\n        nn.init.zeros_(layer.bias)\nmodel = {NETWORK}\n"
        "model.apply(start)\n"
    ),
    "filled": f"model = {NETWORK}\nfor p in model.parameters():\n    p.data.fill_(-0.5)  # here\n",
    "zeros beside ones": (
        f"model = {NETWORK}\ninit.ones_(model[0].weight)\nwith torch.no_grad():\n    model[2].weight.zero_()  # here\n"
    ),
    "normal, not the other one": (
        f"model = {NETWORK}\ninit.normal_(model[0].weight, std=0.02)\ninit.normal_(model[2].weight, 0.0, 3.0)  # here\n"
    ),
    "method": f"model = {NETWORK}\nmodel[2].weight.data.normal_(0, 2)  # here\n",
    "variable with the name of an attribute": (
        f"model = {NETWORK}\nfor data in [p.data for p in model.parameters()]:\n    data.fill_(-0.5)  # here\n"
    ),
    "uniform": f"model = {NETWORK}\ninit.uniform_(model[2].weight, -4, 4)  # here\n",
    "multiplied": f"model = {NETWORK}\nfor p in model.parameters():\n    p.data.mul_(10)  # here\n",
    "number in a variable": f"model = {NETWORK}\nstd = 10.0\ninit.normal_(model[2].weight, std=std)  # here\n",
    "one number that is computed": (
        f"model = {NETWORK}\nstart = lambda layer, value=-20 / 7: init.constant_(layer.weight, value)  # here\n"
        "start(model[2])\n"
    ),
    "computed deviation": f"model = {NETWORK}\nstd = 100**0.5\ninit.normal_(model[2].weight, std=std)  # here\n",
    "gain of another function": (
        f"model = {NETWORK}\ninit.xavier_uniform_(model[0].weight)\n"
        "init.xavier_uniform_(model[2].weight, gain=25)  # here\n"
    ),
    "number of a configuration": (
        f"model = {NETWORK}\nconfig = {{'std': 3}}\n"
        "def start(layer):\n    if isinstance(layer, nn.Linear):\n"
        "        nn.init.trunc_normal_(layer.weight, std=config['std'], a=-9, b=9)  # here\nmodel.apply(start)\n"
    ),
    "constant tensor of a helper": (
        f"model = {NETWORK}\ndef start(*shape):\n    return torch.full(shape, 0.05)  # here\n"
        "for layer in model[::2]:\n    layer.weight = nn.Parameter(start(*layer.weight.shape))\n"
    ),
    "new parameter": f"model = {NETWORK}\nmodel[2].weight = nn.Parameter(3 * torch.randn(64, 64))  # here\n",
    "copied": (
        f"model = {NETWORK}\ninit.xavier_uniform_(model[0].weight)\n"
        "model[2].weight.data.copy_(7 * torch.randn(64, 64))  # here\n"
    ),
    "some values changed later": (
        f"model = {NETWORK}\ninit.constant_(model[2].weight, -4.6)  # here\nmodel[2].weight.data[:9] -= 1\n"
    ),
    "multiplied by an operator": (
        f"model = {NETWORK}\nwith torch.no_grad():\n    for layer in model[::2]:\n        layer.weight *= 8  # here\n"
    ),
}
ADAPTER = """
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(20, 4), nn.Linear(4, 3)
        init.zeros_(self.down.weight)  # down
        init.zeros_(self.up.weight)  # up

    def forward(self, x):
        return self.up(self.down(x))


model = nn.Sequential(Adapter())
"""
PAIR = """
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        {create}

    def forward(self, x):
        return x + x @ self.a.T @ self.b.T


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.b, self.gain = nn.Parameter(torch.zeros(20)), nn.Parameter(torch.ones(20))

    def forward(self, x):
        return self.gain * x + self.b


def empty(tensor):
    nn.init.zeros_(tensor)  # empty


model = nn.Sequential(Pair(), Other(), nn.Linear(20, 3))
nn.init.zeros_(model[2].bias)
"""
CREATE = "self.a = nn.Parameter(torch.randn(4, 20))\n        self.b = nn.Parameter(torch.{how}(20, 4))"
# By name: the start of a pair of matrices, of which ``b`` is zero; the line with "b" or "empty" makes it so.
STARTS = {
    "assignment": "self.a = nn.Parameter(torch.zeros(4, 20))\n        self.b = nn.Parameter(torch.zeros(20, 4))  # b",
    "assignment of two on two lines": "self.a, self.b = (\n            nn.Parameter(torch.zeros(4, 20)),\n"
    "            nn.Parameter(torch.zeros(20, 4)),  # b\n        )",
    "own name": CREATE.format(how="empty") + "\n        nn.init.zeros_(self.b)  # b\n        nn.init.zeros_(self.a)",
    "filled after its creation": CREATE.format(how="zeros") + "\n        nn.init.zeros_(self.b)  # b",
    "method": CREATE.format(how="empty") + "\n        self.b.data.zero_()  # b\n        self.a.data.zero_()",
    "loop": CREATE.format(how="empty") + "\n        for matrix in (self.a, self.b):\n"
    "            nn.init.zeros_(matrix)  # b\n        self.c = nn.Parameter(torch.zeros(2))",
    "variable": CREATE.format(how="empty") + "\n        matrix = self.b\n        nn.init.zeros_(matrix)  # b\n"
    "        nn.init.zeros_(self.a)",
    "function": CREATE.format(how="empty") + "\n        empty(self.a)\n        empty(self.b)",
}
UNKNOWN = {
    "torch's own": f"model = {NETWORK}\nnn.init.normal_(torch.empty(3), std=5.0)\n",
    "a function without numbers": (
        f"model = {NETWORK}\ninit.xavier_uniform_(model[0].weight)\nmodel[2].weight.data *= 7.0 ** 0.5\n"
    ),
    "a usual sample": f"model = {NETWORK}\nscale = 0.1**0.5\ninit.normal_(model[0].weight, std=scale)\n",
    "two lines": (
        f"model = {NETWORK}\nif True:\n    init.zeros_(model[2].weight)\nelse:\n"
        "    init.constant_(model[2].weight, 0.0)\n"
    ),
    "tensor of ones that is no parameter": f"model = {NETWORK}\nones = torch.ones(3)\nmodel[2].weight.data[:] = 1\n",
    "changed later": f"model = {NETWORK}\ninit.zeros_(model[2].weight)\nmodel[2].weight.data += 1\n",
}


def build_setup(tmp_path: Path, text: str) -> Setup:
    file = tmp_path / "program.py"
    file.write_text(HEADER + text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(HEADER + text, str(file), "exec"), scope)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 20, generator=generator), torch.randint(0, 3, (64,), generator=generator)
    setup = minimal_setup(scope["model"], x, y, torch.nn.CrossEntropyLoss())
    setup.files = {str(file)}
    return setup


@pytest.mark.parametrize("name", INITIALIZED)
def test_initialization_line_writes_the_values_of_the_parameter(name: str, tmp_path: Path) -> None:
    setup = build_setup(tmp_path, INITIALIZED[name])
    state = torch.get_rng_state()
    line = initialization_line(setup, "2")
    assert line is not None
    assert line.text.endswith("# here")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", UNKNOWN)
def test_initialization_line_that_is_not_certain_is_none(name: str, tmp_path: Path) -> None:
    assert initialization_line(build_setup(tmp_path, UNKNOWN[name]), "2") is None


@pytest.mark.parametrize("name", ["down", "up"])
def test_initialization_line_of_equal_values_names_the_parameter(name: str, tmp_path: Path) -> None:
    line = initialization_line(build_setup(tmp_path, ADAPTER), f"0.{name}")
    assert line is not None
    assert line.text.endswith(f"# {name}")


def test_initialization_line_of_values_that_the_source_does_not_tell_is_the_line_that_creates_the_parameter(
    tmp_path: Path,
) -> None:
    create = "start = [torch.zeros].pop()\n        self.b = nn.Parameter(start(20, 4))  # b\n"
    create += "        self.a = nn.Parameter(torch.zeros(4, 20))"
    text = PAIR.replace("{create}", create).replace("nn.init.zeros_(tensor)", "tensor.add_(1)")
    line = initialization_line(build_setup(tmp_path, text), "0", "b")
    assert line is not None
    assert line.text.endswith("# b")


@pytest.mark.parametrize("name", STARTS)
def test_initialization_line_of_own_parameter_is_that_of_its_target(name: str, tmp_path: Path) -> None:
    setup = build_setup(tmp_path, PAIR.replace("{create}", STARTS[name]))
    line = initialization_line(setup, "0", "b")
    assert line is not None
    assert line.text.endswith("# empty" if name == "function" else "# b")


@pytest.mark.parametrize("code", ["G407", "G416"])
def test_findings_on_two_factors_of_zero_name_the_line_that_sets_one(code: str, tmp_path: Path) -> None:
    findings = rule_findings(build_setup(tmp_path, PAIR.replace("{create}", STARTS["assignment"])), code)
    assert {source_line(finding).split(" = ")[0].strip() for finding in findings} == {"self.a"}


def test_initialization_line_of_an_unknown_parameter_is_none(tmp_path: Path) -> None:
    setup = build_setup(tmp_path, UNKNOWN["torch's own"])
    assert initialization_line(setup, "2", "scale") is None
    assert initialization_line(setup, "9") is None


@pytest.mark.parametrize(
    ("code", "name"),
    [("G407", "constant in apply"), ("G407", "filled"), ("L208", "multiplied"), ("L208", "multiplied by an operator")],
)
def test_findings_on_initial_weights_name_the_line_that_initializes_them(code: str, name: str, tmp_path: Path) -> None:
    findings = rule_findings(build_setup(tmp_path, INITIALIZED[name]), code)
    assert {source_line(finding).endswith("# here") for finding in findings} == {True}
