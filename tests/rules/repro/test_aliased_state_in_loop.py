"""Tests of R905 in a watched loop: reloaded weights and target networks that share memory with the model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier


@pytest.mark.parametrize("deep", [False, True])
def test_aliased_state_of_reloaded_weights_is_error_unless_deep_copied(deep: bool) -> None:
    findings = loop_findings(
        lambda model: copy.deepcopy(model.state_dict()) if deep else model.state_dict(), lambda model: model
    )
    assert bool(findings) != deep
    assert all(finding.severity == "error" and "state_dict" in (finding.where.source or "") for finding in findings)


def live_data(model: nn.Module) -> dict[str, Any]:
    return {name: tensor.data for name, tensor in model.state_dict().items()}


def test_aliased_state_of_views_points_to_the_state_dict_they_are_made_of() -> None:
    (finding,) = loop_findings(live_data, lambda model: model)
    assert "in model.state_dict().items()" in (finding.where.source or "")


@pytest.mark.parametrize("deep", [False, True])
def test_aliased_state_of_target_network_is_reported_unless_deep_copied(deep: bool) -> None:
    findings = loop_findings(lambda model: model.state_dict(), lambda model: copy.deepcopy(model) if deep else model)
    assert bool(findings) != deep


def loop_findings(
    save: Callable[[nn.Module], dict[str, Any]], make_target: Callable[[nn.Module], nn.Module]
) -> list[Finding]:
    """Return the findings on a loop that loads a saved state into the model or a target network."""
    setup = classifier()
    debugger, target = Debugger.of(setup), make_target(setup.model)
    with debugger.watch():
        for x, y in setup.train_loader:
            state = save(setup.model)
            setup.optimizers[0].zero_grad()
            nn.functional.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
        target.load_state_dict(state)
    return [finding for finding in debugger.findings if finding.code == "R905"]
