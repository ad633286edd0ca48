"""Tests of M304: values that are spread over rows, layers whose mixing the output ignores, and batch statistics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, rule_faults, rule_findings

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


class Across(nn.Module):
    """A head on values that a function of torch combines along the batch axis."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.head = function, nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.function(x))


FIXES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "function of an axis": (lambda x: x - x.logsumexp(0, keepdim=True), "along an axis other than 0"),
    "statistics of the batch": (lambda x: F.batch_norm(x, None, None, training=True), "Keep running statistics"),
    "function without an axis": (lambda x: F.layer_norm(x.T, x.T.shape[1:]).T, "x.transpose(0, 1)"),
}


@pytest.mark.parametrize("name", FIXES)
def test_batch_mixing_names_an_axis_only_of_functions_that_take_one(name: str) -> None:
    function, fix = FIXES[name]
    (finding,) = rule_findings(minimal_setup(Across(function), TABLE, torch.randn(64, 4), nn.MSELoss()), "M304")
    assert fix in finding.fix
    assert ("dim=" in finding.fix) == (name == "function of an axis")


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


class NodesOfGraphs(nn.Module):
    """Adds to each of five nodes of a sample the node that its link names, without an offset for the sample."""

    def __init__(self, has_offset: bool) -> None:
        super().__init__()
        self.head, self.has_offset = nn.Linear(3, 2), has_offset

    def forward(self, x: Tensor, links: Tensor) -> Tensor:
        start = 5 * torch.arange(len(x))[:, None] * self.has_offset
        nodes = x.flatten(0, 1)
        received = nodes[(links + start).flatten()]
        return self.head((nodes + received).view_as(x).square().mean(1))


@pytest.mark.parametrize("has_offset", [False, True])
def test_index_without_an_offset_for_each_sample_is_the_cause(has_offset: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, links = torch.randn(64, 5, 3, generator=generator), torch.randint(0, 5, (64, 5), generator=generator)
    data = TensorDataset(x, links, (x[:, 0, 0] > 0).long())
    loader = DataLoader(data, 16, shuffle=True)
    setup = Setup(NodesOfGraphs(has_offset), loader, loss_fn=nn.CrossEntropyLoss())
    findings = checkup_findings(setup, "M304")
    causes = [finding.cause for finding in findings]
    assert len(causes) == (not has_offset)
    assert all(cause.startswith("The model joins the rows of all samples") for cause in causes)
