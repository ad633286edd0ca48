"""Tests of R905 on loops that average or restore tensors which share memory with the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line, train_plainly

LOOP = """
import copy

import torch


class Average:
    def __init__(self, model, build):
        self.model, self.build = model, build
        self.tensors = self.start()

    def start(self):
        {start}

    @torch.no_grad()
    def update(self):
        for tensor, weight in zip(self.tensors, self.model.parameters()):
            {update}


def train(setup, build):
    average = Average(setup.model, build)
    for x, y in [*setup.train_loader] * 3:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        setup.optimizers[0].step()
        average.update()
"""
UPDATES = (
    "tensor.mul_(0.9).add_(weight.data, alpha=0.1)",
    "tensor.lerp_(weight.detach(), 0.1)",
    "tensor.copy_(0.9 * tensor + 0.1 * weight)",
)
STARTS = (
    "return [weight.data for weight in self.model.parameters()]",
    "return list({n: w.detach() for n, w in self.model.named_parameters()}.values())",
)
COPIES = (
    "return [weight.detach().clone() for weight in self.model.parameters()]",
    "return list(copy.deepcopy(self.model).requires_grad_(False).parameters())",
)
BEST = """
import torch


def train(setup, train_plainly):
    best, kept = 1e9, None
    for _ in range(8):
        train_plainly(setup, 1)
        with torch.no_grad():
            loss = sum(setup.loss_fn(setup.model(x), y) for x, y in setup.train_loader)
        if loss < best:
            best, kept = loss, gather(setup.model)
    put_back(setup.model, kept)


def gather(model):
    return [{kept} for p in model.parameters()]


@torch.no_grad()
def put_back(model, values):
    for p, value in zip(model.parameters(), values):
        {restore}
"""


def recurrent() -> Setup:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRU(1, 6, batch_first=True), nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.cell(x.unsqueeze(2))[1][0])

    model = Recurrent()
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.1),)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)


def alias_findings(file: Path, text: str, setup: Setup, argument: Any = None) -> list[Any]:
    train = load_loop(file, text)
    return [finding for finding in all_findings(lambda setup: train(setup, argument), setup) if finding.code == "R905"]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("update", UPDATES)
def test_aliased_state_of_average_of_the_weights_with_themselves_is_error_at_its_line(
    start: str, update: str, tmp_path: Path
) -> None:
    for number, setup in enumerate((classifier(), recurrent())):
        text = LOOP.format(start=start, update=update)
        (finding,) = alias_findings(tmp_path / f"loop{number}.py", text, setup)
        assert finding.severity == "error"
        assert source_line(finding) == start
        assert "clone" in finding.fix
        assert not alias_findings(tmp_path / f"fixed{number}.py", apply_edits(text, finding.edits), setup)


def test_aliased_state_is_found_beside_tensors_without_an_address(tmp_path: Path) -> None:
    unrelated = torch.eye(2).to_sparse(), torch.eye(2).to_mkldnn()
    (finding,) = alias_findings(tmp_path / "loop.py", LOOP.format(start=STARTS[0], update=UPDATES[0]), classifier())
    assert source_line(finding) == STARTS[0]
    assert all(tensor.layout != torch.strided for tensor in unrelated)


@pytest.mark.parametrize(
    ("start", "update"),
    [
        *((start, update) for start in COPIES for update in UPDATES),
        (STARTS[0], "tensor.mul_((0.5 / tensor.norm()).clamp(max=1))"),
        (STARTS[0], "tensor.add_(0.01 * torch.randn_like(weight))"),
        (STARTS[0], "self.norm = tensor.norm() + weight.norm()"),
    ],
)
def test_aliased_state_of_copies_and_of_aliases_used_as_such_finds_nothing(
    start: str, update: str, tmp_path: Path
) -> None:
    assert not alias_findings(tmp_path / "loop.py", LOOP.format(start=start, update=update), classifier())


@pytest.mark.parametrize("restore", ["p.copy_(value)", "p.data.copy_(value)"])
@pytest.mark.parametrize("kept", ["p.data", "p.detach().cpu()"])
def test_aliased_state_of_weights_restored_from_themselves_is_error_unless_cloned(
    kept: str, restore: str, tmp_path: Path
) -> None:
    text = BEST.format(kept=kept, restore=restore)
    (finding,) = alias_findings(tmp_path / "loop.py", text, recurrent(), train_plainly)
    assert source_line(finding) == f"return [{kept} for p in model.parameters()]"
    assert "restored" in finding.message
    text = BEST.format(kept=f"{kept}.clone()", restore=restore)
    assert not alias_findings(tmp_path / "cloned.py", text, recurrent(), train_plainly)
