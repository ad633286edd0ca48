"""Gradients that are not finite are noticed before the step, whoever has looked at them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS

AT = ALWAYS_MEASURED_STEPS + 6  # the norm of all gradients is only taken now and then by here


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))


def large() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 900, bias=False), nn.Linear(900, 900, bias=False))


@pytest.mark.parametrize("match", [None, "1*"], ids=["all", "last"])
@pytest.mark.parametrize("every", [None, 1])
@pytest.mark.parametrize("make", [small, large])
def test_a_gradient_that_is_not_finite_is_noticed_before_its_step(make: Any, every: Any, match: Any) -> None:
    model = make()
    optimizer, x = torch.optim.SGD(model.parameters(), 1e-4), torch.randn(4, 6)
    with nbdebug.watch(model, optimizer, every=every, match=match) as watch:
        for step in range(1, AT + 2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            if step == AT:
                for one in model[0].parameters():
                    assert one.grad is not None
                    one.grad.fill_(torch.nan)
            optimizer.step()
    assert watch.session is not None
    incident = watch.session.ring.incident
    assert incident is not None
    assert (incident.phase, incident.step) == ("gradient", AT)
