"""The call that cuts the graph between the model and a loss that another network computes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.autograd.tracing import DetachRecorder
from nbdebug.finding import Finding
from nbdebug.loop_monitor import graph_cuts
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop

_PROGRAM = """
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def lower(critic, picture):
{body}


def train(setup):
    critic = nn.Sequential(nn.Linear(3, {width}), nn.Tanh(), nn.Linear({width}, 1))
    of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
    for _ in range(3):
        for seed, real in setup.train_loader:
            fake = setup.model(seed)
            of_critic.zero_grad()
            (critic(fake.detach()).mean() - critic(real).mean()).backward()
            of_critic.step()
            setup.optimizers[0].zero_grad()
            rating = lower(critic, setup.model(seed))
            rating.mean().neg().backward()
            setup.optimizers[0].step()
"""
_CUTS = {
    "data": ("return critic(picture.data)", ".data", "data"),
    "in place": ("picture = picture * 1.0\npicture.detach_()\nreturn critic(picture)", "detach_()", "detach"),
    "block": ("with torch.no_grad():\n    picture = picture + 0.0\nreturn critic(picture)", "no_grad", "no_grad"),
    "new tensor": ("copy = torch.tensor(picture)\nreturn critic(copy)", "torch.tensor", "torch.tensor"),
    "list": ("rows = picture.tolist()\nreturn critic(torch.tensor(rows))", "tolist", "tolist"),
    "array": (
        "array = picture.detach().numpy()\narray = np.sqrt(array ** 2)\nreturn critic(torch.as_tensor(array))",
        "numpy()",
        "numpy",
    ),
    "rounded": ("return critic(F.one_hot(picture.argmax(1), 3).float())", "argmax", "argmax"),
    "beside flags": ("return critic(picture.data) * (picture[:, :1] > 0)", ".data", "data"),
    "later": ("rating = critic(picture).tanh()\nreturn critic[2].bias * rating.detach()", "rating.detach", "detach"),
}


def _setup() -> Setup:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Setup(model, DataLoader(data, 4), optimizers=(optimizer,))


def _program(body: str, width: int) -> str:
    indented = "\n".join(f"    {line}" for line in body.split("\n"))
    return _PROGRAM.format(body=indented, width=width)


def _unreached(tmp_path: Path, body: str, width: int) -> list[Finding]:
    train = load_loop(tmp_path / "loop.py", _program(body, width))
    return [finding for finding in all_findings(train, _setup()) if finding.code in ("M301", "L212")]


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
@pytest.mark.parametrize(("name", "width"), [("data", 8), *((name, 5) for name in _CUTS)])
def test_cut_before_another_network_is_named_at_its_line(tmp_path: Path, name: str, width: int) -> None:
    body, place, call = _CUTS[name]
    (finding,) = _unreached(tmp_path, body, width)
    assert finding.code == "M301"
    assert place in str(finding.where.source)
    assert call in finding.message


def test_graph_through_another_network_is_no_cut(tmp_path: Path) -> None:
    assert _unreached(tmp_path, "with torch.no_grad():\n    critic(picture)\nreturn critic(picture)", 5) == []


@pytest.mark.parametrize("failing", [1, 4])
@pytest.mark.parametrize("method", ["on_call", "on_result"])
def test_trace_with_an_error_names_no_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, failing: int
) -> None:
    """The rest of the step would name another place."""
    calls = itertools.count(1)

    class FailingRecorder(DetachRecorder):
        """A recorder of which one call fails."""

    def fail_once(*args: Any) -> Any:
        if next(calls) == failing:
            raise RuntimeError
        return getattr(DetachRecorder, method)(*args)

    setattr(FailingRecorder, method, fail_once)
    monkeypatch.setattr(graph_cuts, "DetachRecorder", FailingRecorder)
    findings = _unreached(tmp_path, _CUTS["list"][0], 5)
    assert next(calls) == failing + 1
    assert all("cuts the graph" not in finding.message for finding in findings)


def test_two_cuts_give_no_place(tmp_path: Path) -> None:
    body = "first = critic(picture.data)\nsecond = critic(picture.detach())\nreturn first + second"
    found = _unreached(tmp_path, body, 5)
    assert all("cuts the graph" not in finding.message for finding in found)
