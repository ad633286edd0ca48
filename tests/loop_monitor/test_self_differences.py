"""Tests of R905 on loops that compute the difference of weights from tensors that share memory with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import copy

import torch
from torch.nn import functional as F


def make_anchor(model):
    {anchor}


def train(setup):
    model, (optimizer,) = setup.model, setup.optimizers
    anchor = make_anchor(model)
    sizes = []
    for x, y in [*setup.train_loader] * 3:
        loss = setup.loss_fn(model(x), y)
        {penalty}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {after}
        sizes.append(loss.detach())
"""
ALIASES = (
    "return {n: w.detach() for n, w in model.named_parameters()}",
    "return {n: w.data for n, w in model.named_parameters() if 'bias' not in n}",
    "return model.state_dict()",
)
COPIES = (
    "return {n: w.detach().clone() for n, w in model.named_parameters()}",
    "return copy.deepcopy(model.state_dict())",
)
SAME = "return dict(model.named_parameters())"
PENALTIES = (
    "loss = loss + sum((w - anchor[n]).pow(2).sum() for n, w in model.named_parameters() if n in anchor)",
    "loss += sum(F.mse_loss(anchor[n], w, reduction='sum') for n, w in model.named_parameters() if n in anchor)",
    "for n, w in model.named_parameters():  loss = loss + (torch.dist(w, anchor[n]) ** 2 if n in anchor else 0)",
    "loss += sum((w.view(-1) - anchor[n].view(-1)).abs().sum() for n, w in model.named_parameters() if n in anchor)",
    "pairs = zip(*[(w, anchor[n]) for n, w in model.named_parameters() if n in anchor]); "
    "loss += sum(d.pow(2).sum() for d in torch._foreach_sub(*map(list, pairs)))",
)
AFTER = "print(sum((w.data - anchor[n]).norm() for n, w in model.named_parameters() if n in anchor))"
HARMLESS = (
    "loss = loss + sum((w - w.detach()).sum() for w in model.parameters())",
    "loss += sum((v - w).abs().sum() for v in model.parameters() for w in model.parameters() if v.shape == w.shape)",
    "loss += 0.0 * sum(torch.cdist(w, w).sum() for w in model.parameters() if w.dim() == 2)",
    "loss += sum(0.1 * w.norm() - anchor[n].norm() for n, w in model.named_parameters())",
)


def classifier() -> Setup:
    torch.manual_seed(0)
    hidden = [layer for _ in range(2) for layer in (nn.Linear(8, 8), nn.ReLU())]
    model = nn.Sequential(nn.Linear(points()[0].shape[1], 8), nn.ReLU(), *hidden, nn.Linear(8, 3))
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.1),)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)


def findings(file: Path, anchor: str, penalty: str = "pass", after: str = "pass") -> list[Any]:
    train = load_loop(file, LOOP.format(anchor=anchor, penalty=penalty, after=after))
    return [finding for finding in all_findings(train, classifier()) if finding.code == "R905"]


@pytest.mark.parametrize("anchor", ALIASES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalty_on_distance_of_weights_from_themselves_is_error_at_line_of_alias(
    anchor: str, penalty: str, tmp_path: Path
) -> None:
    (finding,) = findings(tmp_path / "loop.py", anchor, penalty)
    assert finding.severity == "error"
    assert "always zero" in finding.message
    assert source_line(finding) in (anchor, "anchor = make_anchor(model)")


@pytest.mark.parametrize("anchor", [ALIASES[0], ALIASES[2]])
def test_distance_of_weights_from_themselves_after_the_steps_is_error(anchor: str, tmp_path: Path) -> None:
    (finding,) = findings(tmp_path / "loop.py", anchor, after=AFTER)
    assert source_line(finding) in (anchor, "anchor = make_anchor(model)")


def test_penalty_on_distance_of_parameters_from_the_same_objects_is_error(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path / "loop.py", SAME, PENALTIES[0])
    assert source_line(finding) == PENALTIES[0]


@pytest.mark.parametrize("anchor", COPIES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalty_on_distance_from_copies_is_quiet(anchor: str, penalty: str, tmp_path: Path) -> None:
    assert findings(tmp_path / "loop.py", anchor, penalty, AFTER) == []


@pytest.mark.parametrize("penalty", HARMLESS)
def test_differences_that_are_meant_are_quiet(penalty: str, tmp_path: Path) -> None:
    assert findings(tmp_path / "loop.py", ALIASES[0], penalty) == []
