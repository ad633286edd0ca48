"""R905: what shares memory with the model is found wherever it is kept; real copies are left alone."""

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
    """What many write to keep the best weights."""

    def __init__(self, state: Any) -> None:
        self.patience, self.best = 5, state


class Shadow(nn.Module):
    """A target network made of the online one's own tensors."""

    def __init__(self, model: nn.Sequential, deep: bool) -> None:
        super().__init__()
        for name, part in model.named_children():
            self.add_module(name, copy.deepcopy(part) if deep else part)


def keeping(keep: Callable[[nn.Sequential], Any], *tail: nn.Module) -> Setup:
    model = network(3, *tail)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), extra_state=(keep(model),))


def on_the_model(state: Callable[[nn.Module], Any]) -> Setup:
    model = network(3)
    model.best = state(model)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


ALIASES: dict[str, Callable[[], Setup]] = {
    "state": lambda: keeping(lambda m: {"best": m.state_dict()}),
    "shallow copy": lambda: keeping(lambda m: {"best": dict(m.state_dict())}),
    "object": lambda: keeping(lambda m: EarlyStopping(m.state_dict())),
    "detached": lambda: keeping(lambda m: {"ema": {name: p.detach() for name, p in m.named_parameters()}}),
    "target network": lambda: keeping(lambda m: Shadow(m, deep=False)),
    "attribute": lambda: on_the_model(lambda m: m.state_dict()),
}


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_is_found(name: str) -> None:
    found = rule_findings(ALIASES[name](), "R905")
    assert [one.severity for one in found] == ["error"]
    assert "deepcopy" in found[0].fix


COPIES: dict[str, Callable[[], Setup]] = {
    "deep copy": lambda: keeping(lambda m: {"best": copy.deepcopy(m.state_dict())}),
    "clones": lambda: keeping(lambda m: {"ema": {name: p.detach().clone() for name, p in m.named_parameters()}}),
    "averaged model": lambda: keeping(AveragedModel),
    "target network": lambda: keeping(lambda m: Shadow(m, deep=True)),
    "wrapper": lambda: keeping(lambda m: nn.Sequential(m)),
    "another model": lambda: keeping(lambda _: network(3)),
    "scaler": lambda: keeping(lambda _: torch.amp.GradScaler("cpu")),
    "nothing": classifier,
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_left_alone(name: str) -> None:
    assert fault_messages(COPIES[name](), "R905") == []


def test_a_copy_without_running_statistics_draws_a_note() -> None:
    setup = keeping(lambda m: {n: p.detach().clone() for n, p in m.named_parameters()}, nn.BatchNorm1d(3))
    (found,) = rule_findings(setup, "R905")
    assert found.severity == "note"
    assert found.evidence["missing"] == ["3.running_mean", "3.running_var"]


def test_a_variable_of_the_notebook_draws_a_note() -> None:
    setup = classifier()
    shell = InteractiveShell.instance()
    try:
        shell.push({"start": setup.model.state_dict(), "torch": torch, "kept": copy.deepcopy(setup.model.state_dict())})
        found = rule_findings(setup, "R905")
    finally:
        InteractiveShell.clear_instance()
    assert [(one.severity, one.evidence["state"]) for one in found] == [("note", "start")]
