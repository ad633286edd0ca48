"""L205 of a loss function of the user's: the call that passes two shapes, or the line in the function itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import load_module

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 1)

    def forward(self, x):
        hidden = self.layer(x)
        return hidden
"""
LOOP = """

def train(model, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
CALL = "loss = criterion(model(x), y)"
FOCAL = """
def criterion(z, t):
    q = z.sigmoid().clamp(1e-6, 1 - 1e-6)
    there = (1 - q) ** 2 * q.log() * t
    return -(there + q**2 * (1 - q).log() * (1 - t)).mean()
"""
MODULE = """
class Focal(nn.Module):
    def forward(self, logits, target):
        log_p = F.logsigmoid(logits).mul(target) + F.logsigmoid(-logits).mul(1 - target)
        return -torch.mean(torch.exp(log_p) * log_p)


criterion = Focal()
"""
CLOSURE = """
def weighted(alpha):
    def terms(output, truth):
        hit = alpha * truth * torch.sigmoid(output)
        miss = (1 - truth) * torch.sigmoid(output)
        return (miss - hit).sum() / miss.numel()

    return terms


criterion = weighted(0.7)
"""
EXPECTILE = """
def criterion(output, target):
    above = torch.relu(target - output)
    below = torch.relu(output - target)
    return (0.9 * above**2 + 0.1 * below**2).mean()
"""
VALIDATION = """

@torch.no_grad()
def validate(model, batches):
    return sum(criterion(model(x), y).item() for x, y in batches)
"""
# By name: the source, and a part of the line that the finding names.
PLACES = {
    "focal": (MODEL + FOCAL + LOOP, CALL),
    "module": (MODEL + MODULE + LOOP, CALL),
    "closure": (MODEL + CLOSURE + LOOP, CALL),
    "two differences": (MODEL + EXPECTILE + LOOP, CALL),
    "validated, too": (MODEL + FOCAL + LOOP + VALIDATION, CALL),
}
INSIDE = {
    "one operation": (
        MODEL + "\ndef criterion(output, target):\n    return (output - target).square().mean()\n" + LOOP,
        "(output - target)",
    ),
    "axis added inside": (
        MODEL.replace("return hidden", "return hidden[:, 0]")
        + FOCAL.replace("q = z", "z = z[:, None]\n    q = z")
        + LOOP,
        "there = ",
    ),
    "two loops": (MODEL + FOCAL + LOOP + LOOP.replace("def train", "def tune"), "there = "),
    "no loop": (MODEL + FOCAL, "there = "),
    "helper": (
        MODEL + FOCAL.replace("criterion", "terms") + "\ndef criterion(z, t):\n    return terms(z, t)\n" + LOOP,
        "there = ",
    ),
}
QUIET = {
    "squeezed in the model": MODEL.replace("return hidden", "return hidden[:, 0]") + FOCAL + LOOP,
    "squeezed in the loss": MODEL + FOCAL.replace("q = z", "z = z[:, 0]\n    q = z") + LOOP,
    "viewed as the target": MODEL
    + MODULE.replace("log_p = ", "logits = logits.view_as(target)\n        log_p = ")
    + LOOP,
    "target with the axis": MODEL + EXPECTILE.replace("above = ", "target = target[:, None]\n    above = ") + LOOP,
    "flattened": MODEL + CLOSURE.replace("hit = ", "output = output.flatten()\n        hit = ") + LOOP,
}


@pytest.fixture
def findings_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Finding]]:
    """Return a function that checks a program, which Python knows as an imported module."""

    def check(text: str) -> list[Finding]:
        module = load_module(tmp_path / "broadcast_program.py", text)
        monkeypatch.setitem(sys.modules, "broadcast_program", module)
        return _findings(module)

    return check


def _findings(module: ModuleType) -> list[Finding]:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 5), (torch.rand(48) > 0.5).float())
    return rule_faults(Setup(module.Model(), DataLoader(data, 16), loss_fn=module.criterion), "L205")


@pytest.mark.parametrize("name", PLACES)
def test_broadcast_of_what_a_loss_function_gets_is_placed_at_its_call(
    name: str, findings_of: Callable[[str], list[Finding]]
) -> None:
    text, line = PLACES[name]
    (finding,) = findings_of(text)
    assert line in str(finding.where.source)
    compared, returned = (str(related.where.source).strip() for related in finding.related)
    assert compared in text
    assert returned == "return hidden"


@pytest.mark.parametrize("name", INSIDE)
def test_broadcast_that_the_function_makes_or_alone_shows_is_placed_inside(
    name: str, findings_of: Callable[[str], list[Finding]]
) -> None:
    text, line = INSIDE[name]
    (finding,) = findings_of(text)
    assert line in str(finding.where.source)


@pytest.mark.parametrize("name", QUIET)
def test_loss_function_of_equal_shapes_is_quiet(name: str, findings_of: Callable[[str], list[Finding]]) -> None:
    assert not findings_of(QUIET[name])
