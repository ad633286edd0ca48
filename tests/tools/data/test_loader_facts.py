"""Tests of the facts of the loaders in a data profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tools.data.loader_facts import describe_loader

from .setups import profile_of

X, Y = torch.randn(1_000, 3, generator=torch.Generator().manual_seed(0)), (torch.arange(1_000) % 10 == 0).long()
DATA = TensorDataset(X, Y)


class Stream(IterableDataset[Any]):
    """The rows in order of their class."""

    def __iter__(self) -> Iterator[Any]:
        yield from sorted(zip(X, Y, strict=True), key=lambda row: int(row[1]))


def weighted(replacement: bool = True, draws: int = 1_000) -> WeightedRandomSampler:
    """A sampler that draws both classes equally often, if with replacement."""
    weights = (1 / torch.bincount(Y).float())[Y].tolist()
    return WeightedRandomSampler(weights, draws, replacement, generator=torch.Generator().manual_seed(0))


def seed_worker(number: int) -> None:
    """Do nothing."""


def facts_of(loader: Any, labels: Tensor = Y) -> dict[str, str]:
    table = SplitTable("train", (X,), (labels,), range(len(labels)), True)
    return dict(describe_loader("train", loader, table, ["common", "rare"]).facts)


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (DataLoader(DATA, 64, shuffle=True), {"order": "shuffled", "batches": "16, the last of 40"}),
        (
            DataLoader(DATA, 64, drop_last=True),
            {"drop_last": "True", "batches": "15, the last of 64, and 40 samples are left out"},
        ),
        (DataLoader(DATA, 333, drop_last=True), {"batches": "3, the last of 333, and 1 sample is left out"}),
        (DataLoader(DATA, 2_000, drop_last=True), {"batches": "0, none is complete, and 1,000 samples are left out"}),
        (DataLoader(DATA, 64), {"order": "that of the dataset", "workers": "0", "batch size": "64"}),
        (
            DataLoader(DATA, 64, num_workers=2, generator=torch.Generator().manual_seed(5), worker_init_fn=seed_worker),
            {"workers": "2", "worker seeds": "from its generator (seed 5), and by seed_worker()"},
        ),
        (DataLoader(DATA, 64, num_workers=1), {"worker seeds": "from the global generator"}),
        (
            DataLoader(DATA, 64, sampler=weighted()),
            {"order": "that of WeightedRandomSampler", "weighted sampler": "1,000 draws with replacement"},
        ),
        (
            DataLoader(DATA, 64, sampler=weighted(False)),
            {"weighted sampler": "1,000 draws without replacement", "drawn classes": "common 90.0%, rare 10.0%"},
        ),
        (DataLoader(Stream(), 64), {"order": "that of the stream"}),
        ([(X[:5], Y[:5])], {"loader": "list"}),
    ],
)
def test_facts(loader: Any, expected: dict[str, str]) -> None:
    facts = facts_of(loader)
    assert {name: facts.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (Y.sort().values, 1.0),
        (torch.arange(1_000) // 250, 1.0),
        (Y[torch.randperm(1_000, generator=torch.Generator().manual_seed(0))], 0.0),
        (torch.arange(1_000) % 2, 0.0),
    ],
)
def test_order_by_class_is_measured(labels: Tensor, expected: float) -> None:
    share = float(facts_of(DataLoader(DATA, 16), labels)["order by class"].split("%")[0]) / 100
    assert share == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("loader", [DataLoader(DATA, 64, shuffle=True), DataLoader(DATA, 64, sampler=weighted())])
def test_order_by_class_of_random_order_is_not_measured(loader: Any) -> None:
    assert "order by class" not in facts_of(loader)


@pytest.mark.parametrize("draws", [300, 1_000, 3_000])
def test_profile_states_classes_that_weighted_sampler_draws(draws: int) -> None:
    profile = profile_of(DataLoader(DATA, 64, sampler=weighted(draws=draws)), DataLoader(Stream(), 64), samples=1_000)
    facts = {item.split: dict(item.facts) for item in profile.loaders}
    rare = float(facts["train"]["drawn classes"].split("class 1 ")[1].removesuffix("%"))
    assert rare == pytest.approx(50, abs=8)
    assert facts["val"]["order by class"].startswith("100%")
    table = next(
        part["state"] for part in profile.view().state()["panels"][0]["sections"][1:] if "Loaders" in str(part)
    )
    assert [column["name"] for column in table["columns"]] == ["loader", "train", "val"]
    assert all(item.to_text() in profile.to_text() for item in profile.loaders)
