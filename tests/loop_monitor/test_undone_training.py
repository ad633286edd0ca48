"""Tests of R905 on loops that load weights after the last step, trained ones or those from before the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line, summarize_loop

LOOP = """
import copy

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def evaluate(setup):
    with torch.no_grad():
        return sum(setup.loss_fn(setup.model(x), y).item() for x, y in setup.val_loader)


def train(setup):
    model, optimizer, states = setup.model, setup.optimizers[0], []
    first = {{name: value.clone() for name, value in model.state_dict().items()}}
    average = copy.deepcopy(model)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn({decay}))
    averaged.update_parameters(model)
    {before}
    for epoch in range({epochs}):
        {before_epoch}
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            setup.loss_fn(model(x), y).backward()
            optimizer.step()
            averaged.update_parameters(model)
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters()):
                    slow.lerp_(fast, 1 - {decay})
            {after_step}
        evaluate(setup)
        {after_epoch}
    {after}
"""
PARTS = dict.fromkeys(("before", "before_epoch", "after_step", "after_epoch", "after"), "pass")
PARTS |= {"decay": "0.9", "epochs": "4"}
STORED = "states.append(copy.deepcopy(model.state_dict()))"
UNDONE = {
    "first state": {"after": "model.load_state_dict(first)"},
    "first state of another name": {
        "before": "best = copy.deepcopy(first)",
        "after": "model.load_state_dict(best, strict=False)",
    },
    "first state of other weights, loaded after a pass": {
        "before": "evaluate(setup); first = {n: 1.1 * v for n, v in first.items()}; model.load_state_dict(first)",
        "after": "model.load_state_dict(first)",
    },
    "average by hand": {"after": "model.load_state_dict(average.state_dict())", "decay": "0.9999"},
    "average of torch": {"after": "model.load_state_dict(averaged.module.state_dict())", "decay": "0.9999"},
    "state stored in an earlier epoch only": {
        "after_epoch": f"epoch > 1 or {STORED}",
        "after": "model.load_state_dict(first)",
    },
    "average, while the last state is stored": {
        "after_epoch": STORED,
        "after": "model.load_state_dict(average.state_dict())",
        "decay": "0.9999",
    },
    "mixture with the first state": {
        "after": "model.load_state_dict({n: first[n].lerp(v, 0.01) for n, v in model.state_dict().items()})",
    },
}
QUIET = {
    "nothing loaded": {},
    "last epoch": {"after_epoch": STORED, "after": "model.load_state_dict(states[-1])"},
    "best epoch": {"after_epoch": STORED, "after": "model.load_state_dict(states[0])"},
    "fast average": {"after": "model.load_state_dict(average.state_dict())"},
    "first state was the best": {"before": "evaluate(setup)", "after": "model.load_state_dict(first)"},
    "trained state stored": {"after": f"{STORED}; model.load_state_dict(first)"},
    "copy of the trained model": {"after": "kept = copy.deepcopy(model); model.load_state_dict(first)"},
    "clones of the trained weights": {
        "after": "kept = [[p.detach().clone()] for p in model.parameters()]; model.load_state_dict(first)"
    },
    "several trainings with other rates": {
        "after_epoch": "epoch == 1 and model.load_state_dict(first); optimizer.param_groups[0]['lr'] = 0.01",
        "after": "model.load_state_dict(first)",
    },
    "compared and put back": {
        "after_epoch": STORED,
        "after": "model.load_state_dict(first); evaluate(setup); model.load_state_dict(states[-1])",
    },
    "before the training": {"before": "model.load_state_dict(first)"},
    "first state, of which another training began": {
        "before": "model.load_state_dict({n: 1.1 * v for n, v in first.items()})",
        "after": "model.load_state_dict(first)",
    },
    "search for a rate": {
        "after_step": "optimizer.param_groups[0]['lr'] *= 1.2",
        "after": "model.load_state_dict(first)",
    },
    "test of one epoch": {"epochs": "1", "after": "model.load_state_dict(first)"},
    "folds": {
        "before_epoch": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1); model.load_state_dict(first)",
        "after": "model.load_state_dict(first)",
    },
}


def load(file: Path, parts: dict[str, str]) -> Any:
    return load_loop(file, LOOP.format(**PARTS | parts))


def setup() -> Setup:
    return training_setup(mlp(8, 32, 2), rings(), rings(128, seed=1), nn.CrossEntropyLoss(), lr=3e-2)


@pytest.mark.parametrize("name", UNDONE)
def test_state_that_undoes_the_training_is_found_at_the_line_that_loads_it(tmp_path: Path, name: str) -> None:
    found = summarize_loop(load(tmp_path / "loop.py", UNDONE[name]), setup()).undone_training
    assert found is not None
    assert found.line is not None
    assert found.line.text.strip() == UNDONE[name]["after"]
    assert (found.share == 0) == UNDONE[name]["after"].endswith(("(first)", "(best, strict=False)"))


@pytest.mark.parametrize("name", ["first state", "average by hand"])
def test_state_that_undoes_the_training_is_reported(tmp_path: Path, name: str) -> None:
    found = all_findings(load(tmp_path / "loop.py", UNDONE[name]), setup())
    (finding,) = [finding for finding in found if finding.code == "R905"]
    assert (finding.severity, source_line(finding)) == ("warning", UNDONE[name]["after"])


@pytest.mark.parametrize("name", QUIET)
def test_state_that_keeps_the_training_is_quiet(tmp_path: Path, name: str) -> None:
    found = all_findings(load(tmp_path / "loop.py", QUIET[name]), setup())
    assert [finding.message for finding in found if finding.code == "R905"] == []
