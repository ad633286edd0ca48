"""Tests of D107: copies of samples, unless they balance classes or inputs have few values."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
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


class Windows(Dataset[Any]):
    """Windows of a series, each written to one buffer and then stored by ``keep``."""

    def __init__(self, buffer: Any, keep: Callable[[list[Any], Any], None]) -> None:
        self.windows: list[Any] = []
        series = np.sin(np.arange(104.0)).astype("float32")
        self.next_values = torch.from_numpy(series[4:])
        for start in range(100):
            buffer[:] = (
                torch.from_numpy(series[start : start + 4]) if isinstance(buffer, Tensor) else series[start : start + 4]
            )
            keep(self.windows, buffer)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.as_tensor(self.windows[index]).clone(), self.next_values[index, None]


def keep_copy(windows: list[Any], buffer: Any) -> None:
    windows.append(deepcopy(buffer))


def keep_buffer(windows: list[Any], buffer: Any) -> None:
    windows.append(buffer)  # shared


@pytest.mark.parametrize("make", [lambda: torch.zeros(4), lambda: np.zeros(4, "float32")], ids=["tensor", "array"])
@pytest.mark.parametrize(("keep", "expected"), [(keep_buffer, ["error"]), (keep_copy, [])])
def test_entries_of_one_buffer_are_reported_where_they_are_stored(
    make: Callable[[], Any], keep: Callable[[list[Any], Any], None], expected: list[str]
) -> None:
    buffer = make()
    loader = DataLoader(Windows(buffer, keep), 20)
    findings = rule_findings(Setup(network(1), loader, loss_fn=nn.MSELoss()), "D107")
    assert [finding.severity for finding in findings] == expected
    for finding in findings:
        (edit,) = finding.edits
        assert (finding.where.source or "").strip() == "windows.append(buffer)  # shared"
        assert edit.text == ("buffer.clone()" if isinstance(buffer, Tensor) else "buffer.copy()")


def test_inputs_that_are_equal_without_a_shared_buffer_are_a_warning() -> None:
    (finding,) = rule_findings(minimal_setup(network(1), torch.ones(100, 4), X[:100, :1], nn.MSELoss()), "D107")
    assert finding.severity == "warning"
