"""Tests of D107: copies of samples, unless they balance classes or inputs have few values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup, network
from tests.rules.rule_findings import rule_findings

X = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 1).long()
RARE_X = X[Y == 1]
CORNERS = torch.tensor([[0.0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("x", "y", "expected_copies"),
    [
        (X[:100].repeat(4, 1), Y[:100].repeat(4), [300]),
        (torch.cat([X, RARE_X.repeat(5, 1)]), torch.cat([Y, Y[Y == 1].repeat(5)]), []),
        (CORNERS.repeat(50, 1), torch.tensor([0, 1, 1, 0]).repeat(50), []),
        (X, Y, []),
    ],
    ids=["all classes", "oversampled rare class", "few values", "no copies"],
)
def test_duplicate_samples_reports_copies_of_all_classes_only(x: Tensor, y: Tensor, expected_copies: list[int]) -> None:
    findings = rule_findings(minimal_setup(network(2), x, y, nn.CrossEntropyLoss()), "D107")
    assert [finding.evidence["samples"] - finding.evidence["different"] for finding in findings] == expected_copies
