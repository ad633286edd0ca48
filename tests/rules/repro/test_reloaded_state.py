"""R905 in a loop: the best weights that are the live ones, a target network that is the network, and copies of both."""

from __future__ import annotations

import copy

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier


@pytest.mark.parametrize("deep", [False, True])
def test_best_weights_that_are_loaded_at_the_end(deep: bool) -> None:
    found = said(lambda model: copy.deepcopy(model.state_dict()) if deep else model.state_dict(), lambda model: model)
    assert bool(found) != deep
    assert all(one.severity == "error" and "state_dict" in (one.where.source or "") for one in found)


@pytest.mark.parametrize("deep", [False, True])
def test_a_target_network(deep: bool) -> None:
    found = said(lambda model: model.state_dict(), lambda model: copy.deepcopy(model) if deep else model)
    assert bool(found) != deep


def said(kept, loaded) -> list[Finding]:  # type: ignore[no-untyped-def]
    """What is said of a loop that loads a kept state into the model, or into what stands beside it."""
    setup = classifier()
    debugger, other = Debugger.of(setup), loaded(setup.model)
    with debugger.watch():
        for x, y in setup.train_loader:
            state = kept(setup.model)
            setup.optimizers[0].zero_grad()
            nn.functional.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
        other.load_state_dict(state)
    return [one for one in debugger.findings if one.code == "R905"]
