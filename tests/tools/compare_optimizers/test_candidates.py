"""Tests of the optimizers of the candidates."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.tools.compare_optimizers.candidates import build_candidates


def test_build_candidates_one_cycle_leaves_plain_sgd_without_momentum() -> None:
    setup = classifier()
    (candidate,) = build_candidates(setup, "SGD", "one-cycle", {"SGD": 0.1})
    assert candidate.schedule is not None
    (optimizer,) = candidate.optimizers()
    candidate.schedule(optimizer, 10)
    assert optimizer.param_groups[0]["momentum"] == 0


def test_build_candidates_keep_ratios_of_groups_and_zero_weight_decay() -> None:
    model = network(3)
    groups = [{"params": model[0].parameters(), "lr": 0.5, "weight_decay": 0.1}, {"params": model[2].parameters()}]
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(groups, lr=0.1),))
    (candidate,) = build_candidates(setup, ["AdamW"], None, {"AdamW": 0.01})
    (optimizer,) = candidate.optimizers()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.002])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]


def test_build_candidates_from_instance_take_its_settings_without_its_state() -> None:
    setup = classifier()
    instance = torch.optim.SGD(setup.model.parameters(), lr=0.05, momentum=0.8)
    (candidate,) = build_candidates(setup, instance, None, None)
    (optimizer,) = candidate.optimizers()
    assert (candidate.origin, candidate.rate) == ("given", 0.05)
    assert optimizer is not instance
    assert optimizer.param_groups[0]["momentum"] == 0.8
    assert not optimizer.state
