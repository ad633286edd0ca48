"""Tests of D108 and D109 against random divisions of the samples: repeats and other units that chance explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements.split_permutation import differences_by_chance, shared_by_chance
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults, rule_findings

Make = Callable[[np.random.Generator], Any]
HEAVY_TAILED: dict[str, Make] = {
    "Student": lambda rng: rng.standard_t(1.2, size=(400, 1)),
    "lognormal": lambda rng: np.exp(2.5 * rng.normal(size=(200, 1))),
}
FEW_VALUED: dict[str, Make] = {
    "categories": lambda rng: rng.integers(0, 4, size=(600, 4)),
    "counts": lambda rng: rng.poisson(2, size=(800, 6)),
    "bits": lambda rng: rng.random((600, 12)) < 0.4,
}


def split(make: Make, seed: int, change: Callable[[Tensor, Tensor], Tensor]) -> Setup:
    """Three quarters of some samples for training; ``change`` makes the validation inputs of both parts."""
    rng = np.random.default_rng(seed)
    labels = torch.as_tensor(rng.integers(0, 2, 2000))
    x = torch.as_tensor(make(rng), dtype=torch.float32)
    cut = 3 * len(x) // 4
    y = labels[: len(x)]
    train, val = x[:cut], change(x[:cut], x[cut:])
    is_copy = (val == train[: len(val)]).all(1)
    y_val = y[: len(val)].where(is_copy, y[cut:])
    loaders = DataLoader(TensorDataset(train, y[:cut]), 32, shuffle=True), DataLoader(TensorDataset(val, y_val), 32)
    return Setup(nn.Linear(x.shape[1], 2), *loaders, loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", HEAVY_TAILED)
def test_split_shift_of_heavy_tails_in_a_random_split_is_quiet(name: str, seed: int) -> None:
    assert rule_findings(split(HEAVY_TAILED[name], seed, lambda train, val: val), "D109") == []


@pytest.mark.parametrize("name", HEAVY_TAILED)
def test_split_shift_of_heavy_tails_in_other_units_is_a_warning(name: str) -> None:
    (finding,) = rule_faults(split(HEAVY_TAILED[name], 0, lambda train, val: 1000 * val), "D109")
    assert "times larger" in finding.message


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", FEW_VALUED)
def test_split_overlap_of_repeats_in_a_random_split_is_at_most_a_note(name: str, seed: int) -> None:
    assert rule_faults(split(FEW_VALUED[name], seed, lambda train, val: val), "D108") == []


def copy_half(train: Tensor, val: Tensor) -> Tensor:
    half = len(val) // 2
    return torch.cat([train[:half], val[half:]])


@pytest.mark.parametrize("name", FEW_VALUED)
def test_split_overlap_of_few_values_above_chance_is_an_error(name: str) -> None:
    (finding,) = rule_faults(split(FEW_VALUED[name], 0, copy_half), "D108")
    assert finding.severity == "error"
    share, chance = finding.evidence["share"], finding.evidence["share in random splits"]
    assert share > chance + 0.05
    assert f"In random splits of these data, {chance:.1%} would." in finding.message


def test_shared_by_chance_keeps_the_classes_of_both_splits() -> None:
    classes = torch.tensor([0] * 90 + [1] * 10), torch.tensor([1] * 50)
    codes = torch.cat([torch.zeros(90), torch.ones(60)]).long()  # one code for each class
    assert shared_by_chance(classes, codes).eq(50).all()


def test_differences_by_chance_ignore_a_shift_of_the_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    classes = (torch.rand(300, generator=generator) < 0.1).long(), (torch.rand(300, generator=generator) < 0.9).long()
    train, val = (10.0 * part[:, None] + torch.randn(300, 4, generator=generator) for part in classes)
    everything = torch.zeros(300, dtype=torch.long)
    assert differences_by_chance(train, val, classes).mean_shift > 2
    assert differences_by_chance(train, val, (everything, everything)).mean_shift < 1
