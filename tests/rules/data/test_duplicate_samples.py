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


GENERATOR = torch.Generator().manual_seed(1)
BITS = (torch.randn(300, 24, generator=GENERATOR) > 0).float()
BIT_Y = BITS[:, 0].long()
TWENTY_TIMES = torch.cat([torch.arange(300), torch.arange(22).repeat(19)])
ZIPF = torch.cat([torch.arange(300), *[torch.full((100 // (rank + 1),), rank) for rank in range(10)]])
OFTEN: dict[str, tuple[Tensor, Tensor]] = {
    "a few rows twenty times": (X[:300][TWENTY_TIMES], Y[:300][TWENTY_TIMES]),
    "a few rows of bits twenty times": (BITS[TWENTY_TIMES], BIT_Y[TWENTY_TIMES]),
    "all rows of bits three times": (BITS.repeat(3, 1), BIT_Y.repeat(3)),
    "real values": (X[:300][TWENTY_TIMES], X[:300, :1][TWENTY_TIMES]),
    "the last rows a hundred times": (
        torch.cat([X, X[-8:].repeat(100, 1)]),
        torch.cat([torch.arange(400) % 2, (torch.arange(392, 400) % 2).repeat(100)]),
    ),
}
GRID = torch.cartesian_prod(*[torch.arange(2.0)] * 6)
SELDOM: dict[str, tuple[Tensor, Tensor]] = {
    "rows as frequent as items in a shop": (X[:300][ZIPF], torch.arange(300)[ZIPF] % 2),
    "rows with few values as frequent": (BITS[:, :5][ZIPF], torch.arange(300)[ZIPF] % 2),
    "rows drawn with replacement": (
        X[torch.randint(0, 400, (400,), generator=GENERATOR)],
        torch.arange(400) % 2,
    ),
    "a rare class twenty times": (
        torch.cat([X[:300], X[300:320].repeat(20, 1)]),
        torch.cat([torch.zeros(300).long(), torch.ones(400).long()]),
    ),
    "all bits, ten times each": (GRID.repeat(10, 1), GRID.sum(1).long().repeat(10) % 2),
    "blank rows": (torch.cat([X, torch.zeros(400, 4)]), torch.arange(800) % 2),
    "one-hot codes": (torch.eye(40).repeat(10, 1), torch.arange(40).repeat(10) % 2),
}


def copies_setup(x: Tensor, y: Tensor) -> Setup:
    loss_fn = nn.MSELoss() if y.is_floating_point() else nn.CrossEntropyLoss()
    return minimal_setup(nn.Linear(x.shape[1], 1 if y.is_floating_point() else 2), x, y, loss_fn)


@pytest.mark.parametrize("name", OFTEN)
def test_rows_that_occur_many_times_are_a_warning(name: str) -> None:
    (finding,) = rule_findings(copies_setup(*OFTEN[name]), "D107")
    assert finding.severity == "warning"


@pytest.mark.parametrize("name", SELDOM)
def test_rows_that_are_frequent_by_nature_or_on_purpose_are_quiet(name: str) -> None:
    assert rule_findings(copies_setup(*SELDOM[name]), "D107") == []


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
