"""Tests of M304: values that are spread over rows, layers whose mixing the output ignores, and batch statistics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)
TABLE = torch.randn(64, 5, generator=GENERATOR)
SERIES = torch.randn(64, 6, 8, generator=GENERATOR)
IMAGES = torch.randn(64, 2, 6, 6, generator=GENERATOR)


class Sides(nn.Module):
    """Four heads of one value each, joined below or beside each other."""

    def __init__(self, joins_below: bool) -> None:
        super().__init__()
        self.joins_below, self.heads = joins_below, nn.ModuleList(nn.Linear(5, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        sides = [head(x) for head in self.heads]
        return torch.cat(sides).view(-1, 4) if self.joins_below else torch.cat(sides, dim=1)


class SummaryReader(nn.Module):
    """Reads a learned first position, after an attention over the batch or over the positions."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.summary, self.attention = (
            nn.Parameter(torch.randn(1, 1, 8)),
            nn.MultiheadAttention(8, 2, batch_first=batch_first),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.summary.expand(len(x), -1, -1), x], dim=1)
        return self.attention(x, x, x, need_weights=False)[0][:, 0, :4]


def normalized(tracks: bool) -> nn.Module:
    norm = nn.BatchNorm2d(3, track_running_stats=tracks)
    return nn.Sequential(nn.Conv2d(2, 3, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


# By name: the model, the inputs, and the severity; "" for none.
MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor, str]] = {
    "joined below": (lambda: Sides(True), TABLE, "error"),
    "joined beside": (lambda: Sides(False), TABLE, ""),
    "attention over the batch that is not read": (lambda: SummaryReader(False), SERIES, "error"),
    "attention over positions": (lambda: SummaryReader(True), SERIES, ""),
    "no running statistics": (lambda: normalized(False), IMAGES, "warning"),
    "running statistics": (lambda: normalized(True), IMAGES, ""),
}


@pytest.mark.parametrize("name", MODELS)
def test_batch_mixing_grades_what_mixes_samples(name: str) -> None:
    build, x, severity = MODELS[name]
    torch.manual_seed(0)
    findings = rule_faults(minimal_setup(build(), x, torch.randn(64, 4), nn.MSELoss()), "M304")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_batch_norm_without_running_statistics_gets_them_at_its_line() -> None:
    (finding,) = rule_faults(minimal_setup(normalized(False), IMAGES, torch.randn(64, 4), nn.MSELoss()), "M304")
    assert "keeps no running statistics" in finding.cause
    assert finding.where.source is not None
    assert "track_running_stats=tracks" in finding.where.source
    assert [edit.text for edit in finding.edits] == ["True"]


class Views(nn.Module):
    """Joins two views of each sample below each other, and scales their vectors along one axis."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer, self.dim = nn.Linear(8, 4), dim

    def forward(self, series: Tensor) -> Tensor:
        return nn.functional.normalize(self.layer(torch.cat([series[:, 0], series[:, 1]])), dim=self.dim)


@pytest.mark.parametrize("dim", [0, 1])
def test_samples_with_two_rows_of_the_output(dim: int) -> None:
    def contrast(vectors: Tensor, target: Tensor) -> Tensor:
        first, second = vectors.chunk(2)
        return nn.functional.cross_entropy(first @ second.T, torch.arange(len(first)))

    findings = rule_faults(minimal_setup(Views(dim), SERIES, torch.arange(64), contrast), "M304")
    assert ["samples mix in" in finding.message for finding in findings] == [True] * (dim == 0)
    assert all("normalize" in str(finding.where.source) for finding in findings)
