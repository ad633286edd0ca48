"""Tests of M302 for ``requires_grad`` as a plain attribute of a module, which thaws and freezes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

MODEL = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body, self.fc = nn.Linear(4, 16), nn.Sequential(nn.Linear(16, 16)), nn.Linear(16, 3)
    def forward(self, x):
        return self.fc(self.body(self.stem(x).relu()).relu())
"""
FROZEN = "    for weight in model.body.parameters():\n        weight.requires_grad = False\n"
FAULTS = {
    "thaw of a frozen part": (
        f"def build():\n    model = Net()\n{FROZEN}    model.body.requires_grad = True  # here\n    return model",
        "warning",
        "body",
    ),
    "thaw by another function": (
        "def thaw(part):\n    part.requires_grad = True  # here\n"
        f"def build():\n    model = Net()\n{FROZEN}    thaw(model.body)\n    return model",
        "warning",
        "body",
    ),
    "thaw of everything": (
        "model = Net()\nmodel.requires_grad_(False)\nmodel.requires_grad = True  # here\n"
        "def build():\n    return model",
        "error",
        "",
    ),
    "freezing by a method of the class": (
        "class Frozen(Net):\n    def freeze(self):\n        self.stem.requires_grad = False  # here\n"
        "        print(self.stem.requires_grad)\n"
        "def build():\n    model = Frozen()\n    model.freeze()\n    return model",
        "warning",
        "stem",
    ),
    "freezing in a loop over the parts": (
        "def build():\n    model = Net()\n    for part in (model.stem, model.body):\n"
        "        part.requires_grad = False  # here\n    return model",
        "warning",
        "stem",
    ),
    "freezing by setattr": (
        "def build():\n    model = Net()\n    setattr(model.body, 'requires_grad', False)  # here\n    return model",
        "warning",
        "body",
    ),
    "head set beside the frozen model": (
        "def build():\n    model = Net()\n    model.requires_grad = False  # here\n"
        "    model.fc.requires_grad = True\n    return model",
        "warning",
        "",
    ),
}
HEALTHY = {
    "networks in turns, whose gradients are cleared": (
        "def turn(model, trains):\n    model.body.requires_grad = trains\n"
        "def build():\n    model = Net()\n    turn(model, False)\n    return model"
    ),
    "on and off around the step of another network": (
        "def build():\n    model = Net()\n    model.body.requires_grad = True\n    model.body.requires_grad = False\n"
        "    return model"
    ),
    "method": "def build():\n    model = Net()\n    model.body.requires_grad_(False)\n    return model",
    "attribute beside the parameters": (
        f"def build():\n    model = Net()\n    model.body.requires_grad = False\n{FROZEN}    return model"
    ),
    "flag that forward reads": (
        "class Flagged(Net):\n    def __init__(self):\n        super().__init__()\n        self.requires_grad = False\n"
        "    def forward(self, x):\n        with torch.set_grad_enabled(self.requires_grad):\n"
        "            x = self.stem(x)\n        return self.fc(self.body(x.relu()).relu())\n"
        "def build():\n    return Flagged()"
    ),
    "flag that the program reads": (
        "def build():\n    model = Net()\n    model.body.requires_grad = False\n    return model\n"
        "def run(model, x):\n    if not model.body.requires_grad:\n        x = x.detach()\n    return model(x)"
    ),
    "frozen on purpose later": (
        f"def build():\n    model = Net()\n    model.body.requires_grad = True\n{FROZEN}    return model"
    ),
    "thawed on purpose later": (
        f"def build():\n    model = Net()\n    model.body.requires_grad = False\n{FROZEN}"
        "    model.body.requires_grad_(True)\n    return model"
    ),
    "backbone frozen in the constructor, part thawed": (
        "def build():\n    model = Net()\n    model.requires_grad = True\n    model.stem.requires_grad_(False)\n"
        "    return model"
    ),
    "flag of a parameter": (
        "def build():\n    model = Net()\n    model.stem.bias.requires_grad = False\n    return model"
    ),
}


def built(source: str, folder: Path) -> Setup:
    file = folder / "program.py"
    file.write_text(f"{MODEL}{source}\n", encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    setup = minimal_setup(scope["build"](), *points(), nn.CrossEntropyLoss())
    setup.files = {str(file)}
    return setup


@pytest.mark.parametrize("name", FAULTS)
def test_plain_attribute_that_no_parameter_follows_is_reported_at_its_line(name: str, tmp_path: Path) -> None:
    source, severity, module = FAULTS[name]
    (finding,) = rule_findings(built(source, tmp_path), "M302")
    assert ".requires_grad is" in finding.message or ".requires_grad are" in finding.message
    assert (finding.severity, finding.where.module or "") == (severity, module)
    assert (finding.where.source or "").strip().endswith("# here"), str(finding)


@pytest.mark.parametrize("name", HEALTHY)
def test_attribute_that_agrees_or_has_an_effect_is_no_fault(name: str, tmp_path: Path) -> None:
    assert [f for f in rule_findings(built(HEALTHY[name], tmp_path), "M302") if f.severity != "note"] == []


def run(setup: Setup, switch: Any) -> list[Finding]:
    """Return what M302 says of a loop of two stages, between which ``switch`` changes the model."""
    torch.manual_seed(0)
    debugger = Debugger.of(setup)
    with debugger.watch():
        for stage in range(2):
            if stage:
                switch(setup.model)
            for x, y in [*setup.train_loader] * 4:
                setup.optimizers[0].zero_grad()
                setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
                setup.optimizers[0].step()
    return [finding for finding in debugger.findings if finding.code == "M302" and finding.severity != "note"]


def thaw_module(model: Any) -> None:
    model.body.requires_grad = True


def thaw_parameters(model: Any) -> None:
    for parameter in model.body.parameters():
        parameter.requires_grad = True


@pytest.mark.parametrize(("switch", "count"), [(thaw_module, 1), (thaw_parameters, 0)])
def test_thaw_in_watched_loop_is_reported_if_nothing_is_thawed(switch: Any, count: int, tmp_path: Path) -> None:
    setup = built(f"def build():\n    model = Net()\n{FROZEN}    return model", tmp_path)
    setup.files = {*setup.files, __file__}
    findings = run(setup, switch)
    assert len(findings) == count
    for finding in findings:
        assert finding.where.module == "body"
        assert finding.edits[0].text == "model.body.requires_grad_(True)"
