"""Tests of R906: states whose names are not those of the module that they are loaded into."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import ModeDependentNetwork, all_findings, source_line, train_plainly

Rename = Callable[[dict[str, Any]], dict[str, Any]]


def prefixed(prefix: str) -> Rename:
    return lambda state: {prefix + name: value for name, value in state.items()}


def stripped(state: dict[str, Any]) -> dict[str, Any]:
    return {name.partition(".")[2]: value for name, value in state.items()}


class Wrapped(nn.Module):
    """A network as an attribute, as wrappers hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = ModeDependentNetwork()

    def forward(self, x: Any) -> Any:
        return self.net(x)


def wrapped() -> Setup:
    return minimal_setup(Wrapped(), *points(), nn.CrossEntropyLoss())


def findings(setup: Setup, change: Rename, part: str = "") -> list[Finding]:
    def train(setup: Setup) -> None:
        module = setup.model.get_submodule(part)
        module.load_state_dict(change(copy.deepcopy(module.state_dict())), strict=False)
        train_plainly(setup)

    return [finding for finding in all_findings(train, setup) if finding.code == "R906"]


@pytest.mark.parametrize("make_setup", [classifier, wrapped])
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.encoder."])
def test_checkpoint_not_loaded_of_prefixed_names_is_an_error_with_the_prefix(
    prefix: str, make_setup: Callable[[], Setup]
) -> None:
    (finding,) = findings(make_setup(), prefixed(prefix))
    assert finding.severity == "error"
    assert finding.evidence["prefix"] == prefix
    assert f"name.removeprefix({prefix!r})" in finding.fix
    assert source_line(finding).startswith("module.load_state_dict(")


def test_checkpoint_not_loaded_of_missing_prefix_names_it() -> None:
    (finding,) = findings(wrapped(), stripped)
    assert finding.evidence["prefix"] == "net."
    assert "{'net.' + name: tensor" in finding.fix


@pytest.mark.parametrize("part", ["", "net"])
def test_checkpoint_not_loaded_of_a_whole_checkpoint_is_an_error(part: str) -> None:
    (finding,) = findings(wrapped(), lambda state: {"model": state, "epoch": 3}, part)
    assert "a larger checkpoint" in finding.cause
    assert finding.evidence["entries"] == 2


@pytest.mark.parametrize("make_setup", [classifier, wrapped])
@pytest.mark.parametrize(
    "change",
    [
        lambda state: state,
        lambda state: dict([*state.items()][:2]),
        lambda state: {**state, "head.weight": 1},
        lambda state: {},
    ],
    ids=["all", "some", "more", "empty"],
)
def test_checkpoint_not_loaded_ignores_states_with_names_of_the_module(
    change: Rename, make_setup: Callable[[], Setup]
) -> None:
    assert findings(make_setup(), change) == []


def test_checkpoint_not_loaded_ignores_a_second_attempt_with_the_right_names() -> None:
    def train(setup: Setup) -> None:
        state = copy.deepcopy(setup.model.state_dict())
        for attempt in (prefixed("module.")(state), state):
            setup.model.load_state_dict(attempt, strict=False)
        train_plainly(setup)

    assert not [finding for finding in all_findings(train) if finding.code == "R906"]
