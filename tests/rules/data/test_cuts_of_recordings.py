"""Tests of D105 with random cuts of series whose classes, one for each step, are or are not those of the same cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

_STEPS, _LENGTH, _WIDTH = 200, 40, 6
_Series = tuple[Tensor, Tensor]


def draw_series(seed: int) -> _Series:
    """Return noise with a louder first column in random stretches, and where these are."""
    generator = torch.Generator().manual_seed(seed)
    is_loud = torch.rand(_STEPS // 8, generator=generator).gt(0.5).repeat_interleave(8)
    noise = torch.randn(_STEPS, _WIDTH, generator=generator)
    noise[:, 0] += 1.4 * is_loud
    return noise, is_loud.float()


class Cuts(Dataset[Any]):
    """Cuts of series at random starts, or from their beginning, and the classes from a share of the start on."""

    def __init__(self, seeds: range, divisor: int, is_random: bool) -> None:
        self.series, self.divisor, self.is_random = [*map(draw_series, seeds)], divisor, is_random

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, index: int) -> _Series:
        values, classes = self.series[index]
        start = int(torch.randint(_STEPS - _LENGTH, ())) if self.is_random else 0
        first = start // self.divisor  # from the start of the input
        return values[start : start + _LENGTH], classes[first : first + _LENGTH]


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(_WIDTH, 1)

    def forward(self, values: Tensor) -> Tensor:
        scores: Tensor = self.score(values).squeeze(-1)
        return scores


@pytest.mark.parametrize(("divisor", "severities"), [(1, []), (4, ["error"])])
def test_classes_of_another_cut_beside_few_validation_series_are_an_error(divisor: int, severities: list[str]) -> None:
    loaders = (
        DataLoader(Cuts(range(300), divisor, is_random=True), 20, shuffle=True),
        DataLoader(Cuts(range(300, 340), divisor, is_random=False), 20),
    )
    findings = rule_findings(Setup(Tagger(), *loaders, loss_fn=nn.BCEWithLogitsLoss()), "D105")
    assert [finding.severity for finding in findings] == severities
    assert all("# from the start" in (finding.where.source or "") for finding in findings)
