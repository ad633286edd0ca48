"""Tests of E710 and D109 on evaluations that change the inputs of a batch on their way to the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

LOOP = """
import torch
from torch.nn import functional as F


def train(setup):
    model, loss_fn, optimizer = setup.model, setup.loss_fn, setup.optimizers[0]
    for _ in range(2):
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            loss_fn(model({training}), y).backward()
            optimizer.step()
        total = 0.0
        with torch.no_grad():
            for x, y in setup.val_loader:
                order = torch.randperm(len(x))
                {before}
                output = model({inputs})
                total += float({score})
        print(total)
"""
HITS = "(output.argmax(1) == y).sum()"
ERROR = "loss_fn(output, y)"
MISALIGNED: dict[str, dict[str, str]] = {
    "reversed": {"inputs": "x.flip(0)"},
    "loss of reversed rows": {"inputs": "x.flip(0)", "score": ERROR},
    "permuted": {"inputs": "x[order]", "score": "F.cross_entropy(output, y)"},
    "rolled and scaled": {"training": "2 * x", "inputs": "2 * x.roll(1, 0)"},
    "sorted": {"inputs": "x[x[:, 0].argsort()]", "score": "(y != output.max(1)[1]).sum()"},
}
ALIGNED: dict[str, dict[str, str]] = {
    "as they are": {},
    "both permuted": {"before": "x, y = x[order], y[order]"},
    "put back": {"inputs": "x[order]", "score": "(output[order.argsort()].argmax(1) == y).sum()"},
    "targets sorted too": {"inputs": "x.flip(0)", "score": "(output.argmax(1) == y.flip(0)).sum()"},
    "permuted column": {"before": "x = torch.cat([x[order][:, :1], x[:, 1:]], 1)"},
    "no targets": {"inputs": "x.flip(0)", "score": "output.argmax(1).sum()"},
    "loss of both": {"inputs": "x.flip(0)", "score": "loss_fn(output, y.flip(0))"},
}
TRUNCATED: dict[str, dict[str, str]] = {
    "long": {"inputs": "x.long().float()"},
    "int": {"inputs": "x.int() * 1.0", "score": ERROR},
    "truncated": {"inputs": "torch.trunc(x)"},
    "short": {"before": "x = x.to(torch.int16)", "inputs": "x.float()"},
    "fixed": {"inputs": "x.fix()"},
}
KEPT: dict[str, dict[str, str]] = {
    "in both": {"training": "x.trunc()", "inputs": "x.trunc()"},
    "rounded": {"inputs": "x.round()"},
    "half": {"inputs": "x.half().float()"},
    "clipped": {"inputs": "x.clamp(-1, 1)"},
    "noise in training": {"training": "(x + torch.randn_like(x)).trunc()", "inputs": "x.trunc()"},
}


def findings(file: Path, make: Setup, **parts: str) -> list[Finding]:
    defaults = {"training": "x", "before": "pass", "inputs": "x", "score": HITS}
    run = load_loop(file, LOOP.format(**{**defaults, **parts}))
    return [finding for finding in all_findings(run, make) if finding.code in ("E710", "D109", "D105")]


def classes() -> Setup:
    torch.manual_seed(0)
    return training_setup(mlp(8, 16, 2), rings(256), rings(128, seed=1), nn.CrossEntropyLoss())


def reconstruction() -> Setup:
    torch.manual_seed(0)
    x, v = rings(256)[0], rings(128, seed=1)[0]
    return training_setup(mlp(8, 16, 8), (x, x), (v, v), nn.MSELoss())


@pytest.mark.parametrize("name", MISALIGNED)
def test_evaluation_of_rows_in_another_order_is_reported_at_the_call(tmp_path: Path, name: str) -> None:
    (finding,) = findings(tmp_path / "loop.py", classes(), **MISALIGNED[name])
    assert finding.code == "E710"
    assert "in another order than its targets" in finding.message
    assert "output = model(" in source_line(finding)


def test_evaluation_of_reconstructions_in_another_order_is_reported(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path / "loop.py", reconstruction(), inputs="x.flip(0)", score=ERROR)
    assert finding.code == "E710"


def test_evaluation_of_reconstructions_of_their_own_input_is_quiet(tmp_path: Path) -> None:
    parts = {"before": "x = x.flip(0)", "score": "F.mse_loss(output, x)"}
    assert findings(tmp_path / "loop.py", reconstruction(), **parts) == []


@pytest.mark.parametrize("name", ALIGNED)
def test_evaluation_whose_predictions_meet_their_targets_is_quiet(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path / "loop.py", classes(), **ALIGNED[name]) == []


@pytest.mark.parametrize("name", TRUNCATED)
def test_evaluation_of_inputs_without_fractions_is_reported_at_the_call(tmp_path: Path, name: str) -> None:
    (finding,) = findings(tmp_path / "loop.py", classes(), **TRUNCATED[name])
    assert finding.code == "D109"
    assert "without their fractions" in finding.message
    assert "output = model(" in source_line(finding)


@pytest.mark.parametrize("name", KEPT)
def test_evaluation_of_inputs_that_lose_little_or_as_in_training_is_quiet(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path / "loop.py", classes(), **KEPT[name]) == []
