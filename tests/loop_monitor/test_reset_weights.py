"""Tests of T612 on loops that initialize or load the weights before each epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.loop_monitor.reset_weights import ResetWeightsMonitor
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line, summarize_loop

LOOP = """
import copy

import torch
from torch import nn


def initialize(part):
    if isinstance(part, nn.Linear):
        nn.init.xavier_uniform_(part.weight)
        nn.init.zeros_(part.bias)


def copy_weights(model, weights):
    with torch.no_grad():
        for weight, first in zip(model.parameters(), weights):
            weight.copy_(first)


def evaluate(setup):
    with torch.no_grad():
        return sum(setup.loss_fn(setup.model(x), y).item() for x, y in setup.val_loader)


def train(setup):
    torch.manual_seed(3)  # not the numbers that the model was initialized with
    model, optimizer = setup.model, setup.optimizers[0]
    first, first_state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    weights = [weight.detach().clone() for weight in model.parameters()]
    for epoch in range(6):
        {before_epoch}
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            setup.loss_fn(model(x), y).backward()
            optimizer.step()
            {after_step}
        {after_epoch}
"""
RESETS = {
    "new layers": "[part.reset_parameters() for part in model.modules() if hasattr(part, 'reset_parameters')]",
    "other function": "model.apply(initialize)",
    "new values": "copy_weights(model, [torch.randn_like(weight) for weight in weights])",
    "first state": "model.load_state_dict(first)",
    "first values": "copy_weights(model, weights)",
}


def load(file: Path, before_epoch: str = "pass", after_step: str = "pass", after_epoch: str = "evaluate(setup)") -> Any:
    return load_loop(file, LOOP.format(before_epoch=before_epoch, after_step=after_step, after_epoch=after_epoch))


def setup() -> Setup:
    return training_setup(mlp(8, 32, 2), rings(), rings(128, seed=1), nn.CrossEntropyLoss(), lr=3e-2)


@pytest.mark.parametrize("reset", RESETS)
def test_weights_that_are_reset_before_each_epoch_are_found_with_their_line(tmp_path: Path, reset: str) -> None:
    found = summarize_loop(load(tmp_path / "loop.py", RESETS[reset]), setup()).reset_weights
    assert found is not None
    assert found.line is not None
    assert (found.count, found.step, found.are_first) == (5, 12, reset.startswith("first"))
    assert found.line.text.strip() == RESETS[reset] or found.line.function in ("initialize", "copy_weights")


@pytest.mark.parametrize("after_epoch", ["{}; evaluate(setup)", "evaluate(setup); {}"])
@pytest.mark.parametrize("reset", ["new layers", "first state"])
def test_weights_that_are_reset_after_each_epoch_are_found_with_their_line(
    tmp_path: Path, reset: str, after_epoch: str
) -> None:
    written = after_epoch.format(RESETS[reset])
    found = summarize_loop(load(tmp_path / "loop.py", after_epoch=written), setup()).reset_weights
    assert found is not None
    assert found.line is not None
    assert (found.count, found.are_first, found.line.text.strip()) == (5, reset == "first state", written)


def test_weights_that_are_reset_without_an_evaluation_are_reported(tmp_path: Path) -> None:
    loop = load(tmp_path / "loop.py", RESETS["new layers"], after_epoch="pass")
    (finding,) = [finding for finding in all_findings(loop, setup()) if finding.code == "T612"]
    assert (finding.severity, source_line(finding)) == ("warning", RESETS["new layers"])


QUIET: dict[str, dict[str, str]] = {
    "no change": {},
    "folds with an optimizer each": {
        "before_epoch": "model.apply(initialize); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    },
    "folds of two epochs": {"before_epoch": "epoch % 2 == 0 and model.apply(initialize)"},
    "initialized once": {"before_epoch": "epoch == 0 and model.apply(initialize)"},
    "last layer only": {"before_epoch": "[*model.children()][-1].reset_parameters()"},
    "shrunk and perturbed": {
        "before_epoch": "copy_weights(model, [w + 0.01 * torch.randn_like(w) for w in model.parameters()])"
    },
    "pruned": {"before_epoch": "copy_weights(model, [w * (w.abs() > 0.02) for w in model.parameters()])"},
    "clipped after each step": {"after_step": "copy_weights(model, [w.clamp(-1, 1) for w in model.parameters()])"},
    "halfway back": {
        "before_epoch": "copy_weights(model, [w.lerp(v, 0.5) for w, v in zip(model.parameters(), weights)])"
    },
    "put back after a test": {
        "after_epoch": "state = copy.deepcopy(model.state_dict()); model.load_state_dict(first); evaluate(setup); "
        "model.load_state_dict(state)"
    },
    "search for a rate": {
        "before_epoch": "model.load_state_dict(first); optimizer.param_groups[0]['lr'] = 0.001 * 3**epoch"
    },
    "settings with a loaded state of the optimizer": {
        "before_epoch": "model.load_state_dict(first); optimizer.load_state_dict(first_state)"
    },
    "settings with a cleared state": {"before_epoch": "model.apply(initialize); optimizer.state.clear()"},
    "settings with an optimizer initialized again": {
        "before_epoch": "model.apply(initialize); optimizer.__init__(model.parameters(), lr=0.01)"
    },
    "rates from high to low": {
        "before_epoch": "model.load_state_dict(first); optimizer.param_groups[0]['lr'] = 0.01 / 3**epoch"
    },
    "decays": {"before_epoch": "model.load_state_dict(first); optimizer.param_groups[0]['weight_decay'] = 0.1**epoch"},
    "first weights in one epoch": {"before_epoch": "epoch == 3 and model.load_state_dict(first)"},
    "weights of the epoch before": {
        "before_epoch": "model.load_state_dict(first)",
        "after_epoch": "first = copy.deepcopy(model.state_dict()); evaluate(setup)",
    },
}


@pytest.mark.parametrize("name", QUIET)
def test_weights_that_keep_what_they_learned_are_quiet(tmp_path: Path, name: str) -> None:
    found = all_findings(load(tmp_path / "loop.py", **QUIET[name]), setup())
    assert [finding.message for finding in found if finding.code == "T612"] == []


def test_weights_are_no_longer_compared_after_an_epoch_that_kept_them() -> None:
    model = mlp(8, 32, 2)
    optimizer, monitor = torch.optim.Adam(model.parameters()), ResetWeightsMonitor(model)
    for _ in range(3):
        monitor.on_forward_begin(is_epoch_start=True)
        monitor.on_step_end(optimizer)
    assert (monitor.unreset_epochs, monitor.is_comparing, monitor.summary()) == (1, False, None)


@pytest.mark.parametrize("scheduler", ["StepLR(optimizer, 1, 0.9)", "OneCycleLR(optimizer, 0.03, 72)"])
def test_weights_that_are_reset_under_a_scheduler_are_found(tmp_path: Path, scheduler: str) -> None:
    before = f"planned = planned if epoch else torch.optim.lr_scheduler.{scheduler}; model.load_state_dict(first)"
    loop = load(tmp_path / "loop.py", before, after_epoch="planned.step()")
    assert summarize_loop(loop, setup()).reset_weights is not None
