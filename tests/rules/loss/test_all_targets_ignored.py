"""Tests of L214 for targets that are all the label that the loss ignores."""

from __future__ import annotations

import pytest
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from tests.rules.rule_findings import rule_faults

X, Y = points()


@pytest.mark.parametrize(("ignored_rows", "count"), [(64, 1), (60, 0), (0, 0)])
def test_loss_ignores_samples_of_targets_that_are_all_ignored(ignored_rows: int, count: int) -> None:
    targets = Y.clone()
    targets[:ignored_rows] = -100
    targets = targets.flip(0) if ignored_rows == 60 else targets  # the first batch has some that count
    findings = rule_faults(minimal_setup(network(3), X, targets, nn.CrossEntropyLoss()), "L214")
    assert len([finding for finding in findings if "All targets" in finding.message]) == count
