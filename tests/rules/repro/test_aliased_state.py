"""Tests of R905: saved state that shares memory with the model, and real copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from torch.optim.swa_utils import AveragedModel

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings


class EarlyStopping:
    """A typical holder of the best weights."""

    def __init__(self, weights: Any) -> None:
        self.patience, self.best = 5, weights


class TargetNetwork(nn.Module):
    """A target network that shares the layers of the online network, or copies them."""

    def __init__(self, model: nn.Sequential, deep: bool) -> None:
        super().__init__()
        for name, part in model.named_children():
            self.add_module(name, copy.deepcopy(part) if deep else part)


def setup_with_state(make_state: Callable[[nn.Sequential], Any], *tail: nn.Module) -> Setup:
    model = network(3, *tail)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), extra_state=(make_state(model),))


def setup_with_attribute(make_state: Callable[[nn.Module], Any]) -> Setup:
    model = network(3)
    model.best = make_state(model)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


ALIASES: dict[str, Callable[[], Setup]] = {
    "state": lambda: setup_with_state(lambda m: {"best": m.state_dict()}),
    "shallow copy": lambda: setup_with_state(lambda m: {"best": dict(m.state_dict())}),
    "object": lambda: setup_with_state(lambda m: EarlyStopping(m.state_dict())),
    "detached": lambda: setup_with_state(lambda m: {"ema": {name: p.detach() for name, p in m.named_parameters()}}),
    "target network": lambda: setup_with_state(lambda m: TargetNetwork(m, deep=False)),
    "attribute": lambda: setup_with_attribute(lambda m: m.state_dict()),
}


@pytest.mark.parametrize("name", ALIASES)
def test_aliased_state_of_shared_memory_is_error_with_fix(name: str) -> None:
    findings = rule_findings(ALIASES[name](), "R905")
    assert [finding.severity for finding in findings] == ["error"]
    assert "deepcopy" in findings[0].fix


COPIES: dict[str, Callable[[], Setup]] = {
    "deep copy": lambda: setup_with_state(lambda m: {"best": copy.deepcopy(m.state_dict())}),
    "clones": lambda: setup_with_state(
        lambda m: {"ema": {name: p.detach().clone() for name, p in m.named_parameters()}}
    ),
    "averaged model": lambda: setup_with_state(AveragedModel),
    "target network": lambda: setup_with_state(lambda m: TargetNetwork(m, deep=True)),
    "wrapper": lambda: setup_with_state(lambda m: nn.Sequential(m)),
    "another model": lambda: setup_with_state(lambda _: network(3)),
    "scaler": lambda: setup_with_state(lambda _: torch.amp.GradScaler("cpu")),
    "nothing": classifier,
}


@pytest.mark.parametrize("name", COPIES)
def test_aliased_state_ignores_copies(name: str) -> None:
    assert fault_messages(COPIES[name](), "R905") == []


def test_aliased_state_of_copy_without_buffers_is_note() -> None:
    setup = setup_with_state(lambda m: {n: p.detach().clone() for n, p in m.named_parameters()}, nn.BatchNorm1d(3))
    (finding,) = rule_findings(setup, "R905")
    assert finding.severity == "note"
    assert finding.evidence["missing"] == ["3.running_mean", "3.running_var"]


def test_aliased_state_of_notebook_variable_is_note() -> None:
    setup = classifier()
    shell = InteractiveShell.instance()
    try:
        shell.push(
            {"start": setup.model.state_dict(), "torch": torch, "clone": copy.deepcopy(setup.model.state_dict())}
        )
        findings = rule_findings(setup, "R905")
    finally:
        InteractiveShell.clear_instance()
    assert [(finding.severity, finding.evidence["state"]) for finding in findings] == [("note", "start")]
