"""Tests of D118, D123, D124 and D127: small splits, padding, sources in both splits, and samples left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from nbdebug.setup.task import parse_task
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(400, 4, generator=GENERATOR)
Y = (X[:, 0] > 0).long()
POINTS = TensorDataset(X, Y)
LENGTHS = torch.randint(3, 9, (400, 1), generator=GENERATOR)


class StoredPoints(Dataset[Any]):
    """Samples read one by one."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def setup_of(train_loader: Any, val_loader: Any = None) -> Setup:
    return Setup(network(2), train_loader, val_loader, loss_fn=nn.CrossEntropyLoss())


def padded(x: Tensor, value: float = 0.0) -> Tensor:
    is_padding = torch.arange(x.shape[1]) >= LENGTHS
    return torch.where(is_padding if x.dim() == 2 else is_padding[:, :, None], value, x)


PADDED: dict[str, Tensor] = {
    "tokens": padded(torch.randint(1, 50, (400, 40), generator=GENERATOR)).long(),
    "tokens, left": padded(torch.randint(1, 50, (400, 40), generator=GENERATOR)).long().flip(1),
    "series": padded(torch.randn(400, 30, generator=GENERATOR), -1.0),
    "frames": padded(torch.randn(400, 30, 5, generator=GENERATOR)),
    "channels first": padded(torch.randn(400, 30, 5, generator=GENERATOR)).transpose(1, 2).contiguous(),
}
NOT_PADDED: dict[str, Tensor] = {
    "short padding": padded(torch.randint(1, 50, (400, 9), generator=GENERATOR)).long(),
    "series": torch.randn(400, 30, generator=GENERATOR),
    "images": torch.randn(400, 1, 8, 8, generator=GENERATOR),
    "table with a constant column": torch.cat([X, torch.zeros(400, 1)], 1),
    "sparse flags": (torch.rand(400, 30, generator=GENERATOR) > 0.5).float(),
}


class MeanModel(nn.Module):
    """A linear layer on the mean of each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(x.float().flatten(1).mean(1, keepdim=True))
        return logits


def padded_setup(x: Tensor) -> Setup:
    return Setup(MeanModel(), DataLoader(TensorDataset(x, Y), 32), loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("name", PADDED)
def test_padding_share_of_long_rows_is_a_note(name: str) -> None:
    setup = padded_setup(PADDED[name])
    (finding,) = rule_findings(setup, "D123")
    assert finding.severity == "note"
    assert finding.evidence["share"] == pytest.approx(1 - 5.5 / max(PADDED[name].shape[1:]), abs=0.05)


def test_padding_share_of_batches_with_one_long_row_names_similar_lengths() -> None:
    rows = [torch.ones(40 if index % 20 == 0 else 4 + index % 4) for index in range(100)]
    data = TensorDataset(nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.arange(100) % 2)
    (finding,) = rule_findings(Setup(nn.Linear(40, 2), DataLoader(data, 20), loss_fn=nn.CrossEntropyLoss()), "D123")
    assert finding.cause.startswith("Each batch is padded to its longest sequence")
    assert "batch_sampler" in finding.fix


@pytest.mark.parametrize("name", NOT_PADDED)
def test_padding_share_of_full_rows_is_quiet(name: str) -> None:
    setup = padded_setup(NOT_PADDED[name])
    assert rule_findings(setup, "D123") == []


def sources(size: int, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    """Samples around the center of their source, ``size`` consecutive samples each, with random labels."""
    generator = torch.Generator().manual_seed(1)
    centers = torch.randn(400 // size, 6, generator=generator).repeat_interleave(size, 0)
    return centers + noise * torch.randn(400, 6, generator=generator), torch.arange(400) % 2


def split_setup(dataset: Any, order: list[int]) -> Setup:
    train, val = Subset(dataset, order[:300]), Subset(dataset, order[300:])
    return setup_of(DataLoader(train, 16, shuffle=True), DataLoader(val, 16))


RANDOM_ORDER = torch.randperm(400, generator=torch.Generator().manual_seed(2)).tolist()
WALK = torch.randn(400, 6, generator=GENERATOR).cumsum(0)


@pytest.mark.parametrize(
    ("dataset", "order", "expected_count"),
    [
        (TensorDataset(*sources(10)), RANDOM_ORDER, 1),
        (StoredPoints(*sources(10)), RANDOM_ORDER, 1),
        (StoredPoints(WALK, Y), RANDOM_ORDER, 1),
        (TensorDataset(*sources(10)), list(range(400)), 0),
        (TensorDataset(*sources(1)), RANDOM_ORDER, 0),
        (StoredPoints(X[Y.argsort()], Y.sort().values), RANDOM_ORDER, 0),
        (TensorDataset(X[X[:, 0].argsort()], X[:, :1].sort(0).values), RANDOM_ORDER, 0),
    ],
    ids=[
        "tensors",
        "read by index",
        "random walk",
        "contiguous split",
        "no sources",
        "sorted by class",
        "sorted target",
    ],
)
def test_grouped_split_notes_similar_neighbors_across_splits(
    dataset: Any, order: list[int], expected_count: int
) -> None:
    findings = rule_findings(split_setup(dataset, order), "D124")
    assert [finding.severity for finding in findings] == ["note"] * expected_count


@pytest.mark.parametrize(("samples", "expected_count"), [(40, 1), (96, 1), (97, 0), (300, 0)])
def test_split_too_small_notes_intervals_wider_than_ten_points(samples: int, expected_count: int) -> None:
    setup = setup_of(DataLoader(POINTS, 16), DataLoader(Subset(POINTS, range(samples)), 16))
    assert [finding.evidence["samples"] for finding in rule_findings(setup, "D118")] == [samples] * expected_count


UNVISITED: dict[str, Callable[[], Setup]] = {
    "range": lambda: setup_of(DataLoader(POINTS, 16, sampler=range(3))),
    "batch sampler": lambda: setup_of(DataLoader(POINTS, batch_sampler=[[0, 1, 2, 3], [4, 5, 6, 7]])),
}
VISITED: dict[str, Callable[[], Setup]] = {
    "all": lambda: setup_of(DataLoader(POINTS, 16, shuffle=True)),
    "subset": lambda: setup_of(DataLoader(Subset(POINTS, range(20)), 16)),
    "another part each epoch": lambda: setup_of(DataLoader(POINTS, 16, sampler=RandomSampler(POINTS, num_samples=40))),
    "balanced sampler": lambda: setup_of(
        DataLoader(POINTS, 16, sampler=WeightedRandomSampler(torch.rand(400).tolist(), 400))
    ),
    "split by samplers": lambda: setup_of(
        DataLoader(POINTS, 16, sampler=SubsetRandomSampler(range(150))),
        DataLoader(POINTS, 16, sampler=SubsetRandomSampler(range(150, 400))),
    ),
}


@pytest.mark.parametrize("name", UNVISITED)
def test_unvisited_samples_of_limited_sampler_are_a_warning(name: str) -> None:
    (finding,) = rule_findings(UNVISITED[name](), "D127")
    assert finding.severity == "warning"
    assert finding.evidence["visited"] <= 30


@pytest.mark.parametrize("weights", [[1.0] * 30 + [0.0] * 370, [0.2, 0.3, 0.5]], ids=["zeros", "one for each class"])
def test_sampler_that_repeats_a_few_samples_is_d107_at_its_line(weights: list[float]) -> None:
    loader = DataLoader(POINTS, 16, sampler=WeightedRandomSampler(weights, 400))
    (finding,) = [f for code in ("D107", "D127") for f in rule_findings(setup_of(loader), code)]
    assert finding.code == "D107"
    assert finding.evidence["visited"] <= 30
    assert f"together {finding.evidence['draws']:,} times in an epoch" in finding.message


@pytest.mark.parametrize(
    ("code", "weights", "draws"),
    [("D107", [0.2, 0.3, 0.5], 400), ("D107", [1.0] * 40, 400), ("D127", [1.0] * 40, 50), ("D127", [1.0] * 9, 10)],
)
def test_few_weights_are_reported_once_with_the_few_visited_samples(
    code: str, weights: list[float], draws: int
) -> None:
    def build() -> Setup:
        sampler = WeightedRandomSampler(weights, draws, replacement=draws > len(weights))
        return setup_of(DataLoader(POINTS, 16, sampler=sampler))

    (visited,) = rule_findings(build(), code)
    assert f"The sampler has {len(weights)} weights" in visited.cause
    assert rule_findings(build(), "D128") == []


@pytest.mark.parametrize("name", VISITED)
def test_unvisited_samples_of_full_or_changing_epochs_is_quiet(name: str) -> None:
    assert rule_findings(VISITED[name](), "D127") == []


def test_unvisited_samples_of_listed_fold_is_a_note() -> None:
    setup = setup_of(DataLoader(POINTS, 16, sampler=SubsetRandomSampler(range(100))))
    assert [finding.severity for finding in rule_findings(setup, "D127")] == ["note"]


def small_validation(targets: Tensor, model: nn.Module, loss_fn: Any, task: str | None = None) -> Setup:
    x = torch.randn(len(targets), 4, generator=torch.Generator().manual_seed(2))
    data = TensorDataset(x, targets)
    parsed = parse_task(task) if task else None
    return Setup(model, DataLoader(data, 16), DataLoader(Subset(data, range(30)), 16), loss_fn=loss_fn, task=parsed)


class Positions(nn.Module):
    """Scores of two classes at each of five positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).unflatten(1, (2, 5))


VALUES = torch.randn(100, 1, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    "build",
    [
        lambda: small_validation((torch.randn(100, 5) > 0).long(), Positions(), nn.CrossEntropyLoss()),
        lambda: small_validation((torch.randn(100, 5) > 0).float(), nn.Linear(4, 5), nn.BCEWithLogitsLoss()),
        lambda: small_validation(torch.randn(100, 13), nn.Linear(4, 13), nn.MSELoss()),
        lambda: small_validation(VALUES, nn.Linear(4, 1), nn.SmoothL1Loss(), "reinforcement"),
        lambda: small_validation(VALUES.sigmoid(), nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), nn.BCELoss()),
    ],
    ids=["tagging", "several labels", "several values", "rewards", "cross-entropy of values"],
)
def test_split_too_small_of_other_scores_or_several_predictions_per_sample_is_quiet(build: Callable[[], Setup]) -> None:
    torch.manual_seed(0)
    assert rule_findings(build(), "D118") == []


@pytest.mark.parametrize(
    ("build", "metric"),
    [
        (lambda: small_validation(VALUES, nn.Linear(4, 1), nn.MSELoss()), "a mean squared error"),
        (lambda: small_validation((VALUES[:, 0] > 0).long(), network(2), nn.CrossEntropyLoss()), "the accuracy"),
        (lambda: small_validation((VALUES > 0).float(), nn.Linear(4, 1), nn.BCEWithLogitsLoss()), "the accuracy"),
    ],
)
def test_split_too_small_names_the_metric_and_allows_other_reasons(build: Callable[[], Setup], metric: str) -> None:
    (finding,) = rule_findings(build(), "D118")
    assert f"30 samples: {metric}" in finding.message
    assert "can be chance" in finding.message


class MaskedMean(nn.Module):
    """A mean over the real steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layer((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@pytest.mark.parametrize("code", ["D112", "D123"])
def test_mask_is_neither_padding_nor_features(dtype: torch.dtype, code: str) -> None:
    mask = torch.arange(30) < LENGTHS
    data = TensorDataset(torch.randn(400, 30, 5), mask.to(dtype), Y)
    assert rule_findings(Setup(MaskedMean(), DataLoader(data, 32), loss_fn=nn.CrossEntropyLoss()), code) == []
