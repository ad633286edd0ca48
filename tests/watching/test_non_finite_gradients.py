"""Tests of the detection of non-finite gradients before the optimizer step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS

NON_FINITE_STEP = ALWAYS_MEASURED_STEPS + 6  # past the steps whose gradient norm is always measured


def small_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))


def large_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 900, bias=False), nn.Linear(900, 900, bias=False))


@pytest.mark.parametrize("match", [None, "1*"], ids=["all", "last"])
@pytest.mark.parametrize("every", [None, 1])
@pytest.mark.parametrize("make_model", [small_model, large_model])
def test_watch_of_non_finite_gradient_freezes_incident_before_the_optimizer_step(
    make_model: Any, every: Any, match: Any
) -> None:
    model = make_model()
    optimizer, x = torch.optim.SGD(model.parameters(), 1e-4), torch.randn(4, 6)
    with nbdebug.watch(model, optimizer, every=every, match=match) as watch:
        for step in range(1, NON_FINITE_STEP + 2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            if step == NON_FINITE_STEP:
                for parameter in model[0].parameters():
                    assert parameter.grad is not None
                    parameter.grad.fill_(torch.nan)
            optimizer.step()
    assert watch.session is not None
    incident = watch.session.ring.incident
    assert incident is not None
    assert (incident.phase, incident.step) == ("gradient", NON_FINITE_STEP)


def test_gradient_of_a_table_of_which_only_padding_was_read_hides_no_other() -> None:
    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 2))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    with nbdebug.watch(model, optimizer) as watch:
        for step in range(1, NON_FINITE_STEP + 2):
            optimizer.zero_grad()
            tokens = torch.zeros(4, 3, dtype=torch.long) if step == NON_FINITE_STEP else torch.randint(1, 5, (4, 3))
            scale = torch.nan if step == NON_FINITE_STEP else 1.0
            output = model(tokens)
            output.register_hook(lambda gradient, scale=scale: gradient * scale)
            output.square().mean().backward()
            optimizer.step()
    assert watch.session is not None
    incident = watch.session.ring.incident
    assert incident is not None
    assert (incident.phase, incident.step) == ("gradient", NON_FINITE_STEP)
